"""Progress: Ray's callbacks -> the report."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from railhead.contract.checkpoint_uri import build_checkpoint_uri
from railhead.contract.report import MAX_METRIC_VALUE, MAX_METRICS, CommittedCheckpoint, RunWarning, State
from railhead.driver.mailbox.progress import _STATES, Progress, format_metrics

WARNING = RunWarning("RunNameDiffers", "another name")


def test_a_report_without_a_checkpoint_keeps_the_last_one() -> None:
    checkpoint = CommittedCheckpoint("/r/c1", 5, "t1", {"loss": "1"})
    now = Progress().with_report({"loss": 1}).with_commit(checkpoint).with_report({"loss": 0.5})
    assert (now.reports, now.commits, now.metrics, now.checkpoint) == (2, 1, {"loss": "0.5"}, checkpoint)


@pytest.mark.parametrize(
    ("names", "state"),
    [
        (["INITIALIZING"], "SCHEDULING"),
        (["SCHEDULING"], "SCHEDULING"),
        (["SCHEDULING", "RESCHEDULING", "SCHEDULING"], "SCHEDULING"),
        (["RUNNING"], "RUNNING"),
        (["RUNNING", "PREEMPTING"], "RUNNING"),
        (["RUNNING", "RESTARTING"], "RESTARTING"),
        (["RUNNING", "RESTARTING", "SCHEDULING"], "RESTARTING"),
        (["RUNNING", "RESTARTING", "SCHEDULING", "RUNNING"], "RUNNING"),
        (["RUNNING", "SHUTTING_DOWN"], "RUNNING"),
        (["RUNNING", "SHUTTING_DOWN", "ERRORED"], "ERRORED"),
        (["RUNNING", "FINISHED"], "FINISHED"),
        (["SOMETHING_NEW"], "STARTING"),
    ],
)
def test_maps_rays_states(names: list[str], state: str) -> None:
    now = Progress()
    for name in names:
        now = now.with_ray_state(name)
    assert now.state == state


@pytest.mark.parametrize(
    ("names", "is_training"),
    [
        ([], False),
        (["SCHEDULING"], False),
        (["RUNNING"], True),
        (["RUNNING", "PREEMPTING"], True),
        (["RUNNING", "SOMETHING_NEW"], True),
        (["RUNNING", "SHUTTING_DOWN"], False),
        (["RUNNING", "RESTARTING"], False),
        (["RUNNING", "RESTARTING", "SCHEDULING", "RUNNING"], True),
        (["RUNNING", "FINISHED"], False),
    ],
)
def test_expects_reports_only_while_the_group_trains(names: list[str], is_training: bool) -> None:
    now = Progress()
    for name in names:
        now = now.with_ray_state(name)
    assert now.is_training is is_training
    assert not now.begin_run().is_training


def test_every_state_is_in_the_contract() -> None:
    assert {state for pair in _STATES.values() for state in pair} <= set(get_args(State))


def test_metrics_are_short_strings() -> None:
    class Scalar:
        def item(self) -> float:
            return 0.123456789

    class Vector:
        def item(self) -> float:
            raise ValueError("only one element tensors can be converted")

    given = {"a": 0.1 + 0.2, "b": 3, "c": True, "d": "x" * 999, "e": Scalar(), "f": Vector(), "g": [1], "h": math.nan}
    texts = format_metrics(given)
    assert texts == {"a": "0.3", "b": "3", "c": "True", "d": "x" * MAX_METRIC_VALUE, "e": "0.123457", "h": "nan"}
    assert len(format_metrics({str(n): n for n in range(999)})) == MAX_METRICS


def test_counts_continue_in_another_fit() -> None:
    first = Progress(state="FINISHED", has_run=True, reports=4, commits=2, processes=("a-1",), run_uri="/runs/a")
    second = first.begin_run(warning=WARNING)
    assert second.with_ray_state("SCHEDULING").state == "SCHEDULING"
    assert (second.reports, second.commits, second.run_uri, second.warning) == (4, 2, "/runs/a", WARNING)


def test_checkpoint_uri() -> None:
    assert build_checkpoint_uri("/runs/", "c1") == "/runs/c1"
    assert build_checkpoint_uri("s3://bucket/x?region=a", "c1") == "s3://bucket/x/c1?region=a"
