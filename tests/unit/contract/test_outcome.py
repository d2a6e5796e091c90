"""The termination message: it drops what does not fit, so that the kubelet never cuts it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.outcome import LIMIT_BYTES, Outcome, parse_exit_code
from railhead.contract.report import CommittedCheckpoint, RunWarning
from railhead.contract.spent import Spent


def make_checkpoint(*, length: int = 40, **metrics: str) -> CommittedCheckpoint:
    return CommittedCheckpoint("/" + "u" * length, 3, "t", metrics)


@given(st.text(), st.dictionaries(st.text(), st.text(max_size=300)), st.integers(0, 3000), st.integers(0, 3000))
def test_a_message_always_fits_and_can_be_read_back(
    message: str, metrics: dict[str, str], one: int, other: int
) -> None:
    checkpoint, best = make_checkpoint(length=one, **{}), make_checkpoint(length=other)
    text = Outcome("Application", "Raised", message, checkpoint, best, metrics).to_json()
    assert len(text.encode()) <= LIMIT_BYTES
    read = Outcome.from_json(text)
    assert read is not None and read.outcome == "Application"


def test_a_message_that_fits_is_complete() -> None:
    full = Outcome("Succeeded", "TrainingSucceeded", "", make_checkpoint(a="1"), make_checkpoint(a="0"), {"a": "1"}, 4)
    assert Outcome.from_json(full.to_json()) == full


@pytest.mark.parametrize(("length", "has_best"), [(100, True), (2100, False)])
def test_metrics_are_dropped_first_then_the_best_checkpoint_and_never_the_newest(length: int, has_best: bool) -> None:
    metrics = {f"m{number}": "x" * 200 for number in range(20)}
    checkpoint = make_checkpoint(length=length, **metrics)
    read = Outcome.from_json(Outcome("Application", "", "m" * 1400, checkpoint, checkpoint, metrics).to_json())
    assert read is not None
    assert read.checkpoint == replace(checkpoint, metrics={}) and read.metrics == {}
    assert (read.best_checkpoint is not None) == has_best


@pytest.mark.parametrize("name", ["Startup", "DeadlineExceeded", "Hardware2", ""])
def test_a_message_with_a_class_that_no_driver_reports_is_infrastructure(name: str) -> None:
    """Otherwise a training process could name one that spends no budget, and restart forever."""
    failure = Outcome(name, "Because", "words").failure
    assert failure == Failure(FailureClass.INFRASTRUCTURE, "Because", "words")


def test_success_has_no_failure_and_a_known_class_is_kept() -> None:
    assert Outcome("Succeeded").failure is None
    assert Outcome("OutOfMemory", "OOMKilled", "").failure == Failure(FailureClass.OUT_OF_MEMORY, "OOMKilled", "")


def test_half_a_surrogate_pair_is_replaced() -> None:
    """Python names a file whose name is not UTF-8 with them, and the status cannot hold them."""
    read = Outcome.from_json(Outcome("Application", "Raised", "no file \udcff", metrics={"\ud800": "1"}).to_json())
    assert read is not None and (read.message, read.metrics) == ("no file ?", {"?": "1"})


@pytest.mark.parametrize(
    "text", ['{"outcome": "Hang", "reports": 1e999}', '{"outcome": "Hang", "restarts": NaN}', "[" * 9999]
)
def test_a_message_with_an_impossible_number_or_depth_is_none(text: str) -> None:
    assert Outcome.from_json(text) is None


FULL = Outcome(
    "Application",
    "ScriptFailed",
    "words",
    process_exit_code=3,
    suspect_pod="a-worker-1",
    reports=5,
    restarts=2,
    charged_restarts=1,
    warning=RunWarning("MetricNotFinite", "loss is NaN"),
    spent=Spent(productive=1, starting=2, restoring=3, checkpointing=4, retrained=5, hanging=6, uncommitted=7),
)


def test_all_that_is_known_of_the_end_comes_back() -> None:
    assert Outcome.from_json(FULL.to_json()) == FULL


def test_a_message_with_the_class_only_has_neutral_values_for_the_rest() -> None:
    assert Outcome.from_json('{"outcome": "Hang"}') == Outcome("Hang")


def test_what_decides_on_a_retry_is_kept_when_everything_else_is_too_long() -> None:
    """`spec.failurePolicy` has rules about the reason and the exit code, and each charged restart spends a budget."""
    checkpoint = make_checkpoint(length=2 * LIMIT_BYTES)
    read = Outcome.from_json(replace(FULL, checkpoint=checkpoint, best_checkpoint=checkpoint).to_json())
    assert read == replace(FULL, message="", suspect_pod="", reports=0, warning=None)


def test_a_long_warning_is_cut_before_the_message() -> None:
    warned = replace(FULL, message="a" * 1500, warning=RunWarning("MetricNotFinite", "w" * 9000))
    read = Outcome.from_json(warned.to_json())
    assert read is not None and read.warning is not None
    assert (read.message, len(read.warning.message)) == (warned.message, 499)
    read = Outcome.from_json(replace(warned, checkpoint=make_checkpoint(length=2000)).to_json())
    assert read is not None and (read.message, read.warning) == (warned.message, None)


@pytest.mark.parametrize("field", ["warning", "spent"])
def test_what_is_no_warning_and_no_time_is_none(field: str) -> None:
    assert Outcome.from_json(json.dumps({"outcome": "Hang", field: "x"})) == Outcome("Hang")


@pytest.mark.parametrize("spent", [{"productive": "x"}, {"starting": None}, {"hanging": 1.5}, []])
def test_a_time_that_is_no_number_costs_no_success(spent: object) -> None:
    read = Outcome.from_json(json.dumps({"outcome": "Succeeded", "spent": spent}))
    assert read == Outcome("Succeeded")


@pytest.mark.parametrize(
    ("value", "code"), [(1, 1), (255, 255), (0, None), (256, None), (-9, None), ("3", None), (None, None)]
)
def test_the_code_of_a_process_that_failed_is_1_to_255(value: object, code: int | None) -> None:
    assert parse_exit_code(value) == code
