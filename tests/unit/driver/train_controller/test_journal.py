"""Each transition of the driver as a record of the journal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.contract.answer import Answer
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint, RestartInPlace, RunWarning, Steps
from railhead.driver.head.end_attempt import describe_end
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import FromController, FromDriver, Hang
from railhead.driver.train_controller.journal import describe_controller, describe_driver, describe_group

BEFORE = FromController()
WARNED = replace(BEFORE, warning=RunWarning("StorageUnreachable", "no response"))
RESTART = RestartInPlace(2, 1, "Hardware", "GPUFailed", "ECC", "job-w3", "t")
FAILURE = Failure(FailureClass.APPLICATION, "TrainFunctionRaised", "ValueError: x")


def describe(before: FromController, after: FromController) -> list[dict[str, Any]]:
    return list(describe_controller(before, after))


@pytest.mark.parametrize(
    ("after", "record"),
    [
        (replace(BEFORE, progress=Progress(state="RUNNING")), {"event": "state", "state": "RUNNING"}),
        (
            replace(BEFORE, progress=Progress(checkpoint=CommittedCheckpoint("/runs/r/c", 3, "t"))),
            {"event": "checkpoint", "index": 3, "checkpoint": "/runs/r/c"},
        ),
        (replace(BEFORE, progress=Progress(resumed_from="/runs/r/c")), {"event": "resume", "checkpoint": "/runs/r/c"}),
        (replace(BEFORE, lost_pods=("w1", "w2")), {"event": "lostPods", "pods": ["w1", "w2"]}),
        (
            replace(BEFORE, restart=RESTART),
            {"event": "restart", "number": 2, "charged": 1, "class": "Hardware", "reason": "GPUFailed"}
            | {"message": "ECC", "suspectPod": "job-w3"},
        ),
        (
            replace(BEFORE, failure=FAILURE),
            {"event": "failure", "class": "Application", "reason": "TrainFunctionRaised", "message": "ValueError: x"},
        ),
        (
            replace(BEFORE, failure=replace(FAILURE, suspect_pod="w1")),
            {"event": "failure", "class": "Application", "reason": "TrainFunctionRaised", "message": "ValueError: x"}
            | {"suspectPod": "w1"},
        ),
        (WARNED, {"event": "warning", "reason": "StorageUnreachable", "message": "no response"}),
        (
            replace(BEFORE, rule_warning=RunWarning("MetricRule", "rule r: loss is NaN")),
            {"event": "warning", "reason": "MetricRule", "message": "rule r: loss is NaN"},
        ),
    ],
)
def test_a_change_is_one_record(after: FromController, record: dict[str, Any]) -> None:
    assert describe(BEFORE, after) == [record]
    assert describe(after, after) == []


def test_a_warning_that_has_passed_is_a_record_too() -> None:
    assert describe(WARNED, BEFORE) == [{"event": "warningEnded", "reason": "StorageUnreachable"}]


def test_the_cause_comes_before_its_effect() -> None:
    after = replace(BEFORE, restart=RESTART, lost_pods=("w1",), progress=Progress(state="RESTARTING"))
    assert [each["event"] for each in describe(BEFORE, after)] == ["lostPods", "restart", "state"]


def test_numbers_alone_are_no_transition() -> None:
    progress = Progress(reports=7, metrics={"loss": "1"}, processes=("p",))
    assert describe(BEFORE, replace(BEFORE, progress=progress, heartbeat=Heartbeat(1, 2, 3, False, Steps(9)))) == []


def test_the_drivers_own_decisions() -> None:
    after = FromDriver(end=1_800_000_000.9, hang=Hang(1, "no rank has made a step", "NoSteps", rank=3))
    assert list(describe_driver(FromDriver(), after)) == [
        {"event": "hang", "rank": 3, "message": "no rank has made a step"},
        {"event": "notice", "deadline": "2027-01-15T08:00:00Z"},
    ]
    assert list(describe_driver(after, replace(after, answer=Answer(restarts_in_place=4), read_fits=1))) == []


@pytest.mark.parametrize(
    ("before", "after", "more"), [(0, 4, {}), (4, 4, {}), (4, 3, {"workersBefore": 4}), (3, 4, {"workersBefore": 3})]
)
def test_a_group_of_another_size_says_so(before: int, after: int, more: dict[str, int]) -> None:
    assert describe_group(before, after) == {"event": "group", "workers": after, **more}


def test_the_end_of_the_attempt() -> None:
    outcome = Outcome("Hardware", "GPUFailed", "ECC", suspect_pod="w1")
    found = {"event": "end", "outcome": "Hardware", "reason": "GPUFailed", "message": "ECC", "suspectPod": "w1"}
    assert describe_end(outcome) == found
