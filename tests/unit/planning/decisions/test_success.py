"""How an attempt ended: by the head's termination message, or by the driver's last report if the head vanished."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.contract.failure import SUCCEEDED_CODE
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from tests.unit.builders import NOW, RUNNING_STATUS, ended, make_head, make_observed, make_worker

WORKERS = (make_worker(0), make_worker(1))
KILLED = make_head(phase="Failed", is_running=False, exit_code=137, reason="Error")
OVERDUE = make_head(is_deleting=True, deletion_timestamp=NOW - timedelta(seconds=6))


def after_report(outcome: str, *, attempt: int = 1, message: str = "") -> dict[str, Any]:
    """The status with the driver's last report."""
    reported = {"outcome": outcome, "reason": outcome, "message": message}
    progress = {"attempt": attempt, "state": "FINISHED", "reports": 3, "metrics": {"loss": "0.1"}, "outcome": reported}
    return {**RUNNING_STATUS, "progress": progress}


def find_phase(*pods: PodView, status: dict[str, Any]) -> str | None:
    wanted = plan(make_observed(*pods, *WORKERS, status=status))
    return wanted.status.fields.get("phase") if wanted.status else None


@pytest.mark.parametrize(
    "heads",
    [
        pytest.param((), id="gone"),
        pytest.param((KILLED,), id="killed before it exited"),
        pytest.param((OVERDUE,), id="on a node that is gone"),
        pytest.param((ended(make_head(), "Succeeded", exit_code=137),), id="killed after its termination message"),
    ],
)
def test_a_job_whose_driver_reported_success_is_complete(heads: tuple[PodView, ...]) -> None:
    assert find_phase(*heads, status=after_report("Succeeded")) == "Succeeded"


def test_the_last_report_stays_in_the_status() -> None:
    wanted = plan(make_observed(*WORKERS, status=after_report("Succeeded")))
    assert wanted.status is not None
    assert "progress" not in wanted.status.fields
    assert wanted.status.fields["completionTime"] == "2026-01-01T12:00:00Z"
    assert "head" not in wanted.status.fields, "it names where the head was"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(make_head(), id="still writes its log"),
        pytest.param(make_head(is_deleting=True, deletion_timestamp=NOW + timedelta(seconds=9)), id="is being deleted"),
    ],
)
def test_a_head_that_can_still_write_its_termination_message_is_not_ended(head: PodView) -> None:
    assert find_phase(head, status=after_report("Succeeded")) != "Succeeded"


def test_the_report_of_an_earlier_attempt_does_not_count() -> None:
    status = {**after_report("Succeeded", attempt=1), "attempt": 2}
    wanted = plan(make_observed(make_worker(0, 2), make_worker(1, 2), status=status))
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "PodGone"


def test_exit_code_and_message_must_agree_without_a_report() -> None:
    assert find_phase(ended(make_head(), "Succeeded"), status=RUNNING_STATUS) == "Succeeded"
    assert find_phase(ended(make_head(), "Succeeded", exit_code=137), status=RUNNING_STATUS) != "Succeeded"
    assert find_phase(ended(make_head(), "Application", exit_code=SUCCEEDED_CODE), status=RUNNING_STATUS) != "Succeeded"


@pytest.mark.parametrize("heads", [(), (KILLED,)], ids=["gone", "killed before it exited"])
def test_a_reported_failure_keeps_its_class_when_the_head_vanishes(heads: tuple[PodView, ...]) -> None:
    wanted = plan(make_observed(*heads, *WORKERS, status=after_report("Application", message="ValueError: no rails")))
    assert wanted.status is not None
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["message"]) == ("Application", "ValueError: no rails")


def test_a_report_without_an_outcome_is_no_success() -> None:
    status = after_report("Succeeded")
    del status["progress"]["outcome"]
    wanted = plan(make_observed(*WORKERS, status=status))
    assert wanted.status is not None and wanted.status.fields["failure"]["reason"] == "PodGone"
