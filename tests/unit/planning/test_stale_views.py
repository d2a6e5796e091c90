"""Old views of the job or of its pods: nothing is made, removed or counted that the API server would not confirm."""

from __future__ import annotations

import pytest

from railhead.planning.planner import plan
from tests.unit.builders import RUNNING_STATUS, make_head, make_observed, make_worker


def test_pods_of_a_later_attempt_than_the_status_tells_are_taken_up_under_the_compare_only() -> None:
    status = {**RUNNING_STATUS, "failure": {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:30:00Z"}}
    wanted = plan(make_observed(make_head(2), make_worker(0, 2), status=status))
    assert wanted.status is not None
    assert wanted.status.fields["attempt"] == 2
    assert wanted.status.tests["/status/attempt"] == 1
    assert not wanted.creates and not wanted.deletes


def test_the_older_of_two_pods_of_one_slot_goes() -> None:
    pods = (make_head(), make_worker(0), make_worker(0, round_=1), make_worker(1))
    wanted = plan(make_observed(*pods, status={**RUNNING_STATUS, "round": 1}))
    assert [delete.name for delete in wanted.deletes] == [pods[1].name]


def test_pods_that_were_not_made_yet_are_made_only_while_the_status_is_as_seen() -> None:
    status = {**RUNNING_STATUS, "head": {}, "workers": {}, "progress": {}, "phase": "Pending"}
    wanted = plan(make_observed(make_worker(0), status=status))
    assert wanted.creates and wanted.status is not None
    assert not wanted.status.fields
    assert wanted.status.tests["/status/round"] == 0 and wanted.status.tests["/status/attempt"] == 1


def test_a_head_that_is_gone_without_a_trace_is_looked_for_once_more() -> None:
    workers = (make_worker(0), make_worker(1))
    wanted = plan(make_observed(*workers, status=RUNNING_STATUS))
    assert wanted.status is not None
    assert wanted.status.pods == frozenset(pod.uid for pod in workers)
    assert wanted.status.tests["/metadata/resourceVersion"] == "0", "also another cause may have been written already"


def test_a_head_whose_end_was_seen_may_have_a_successor_of_the_same_name() -> None:
    """It was made again in the same attempt, and its end is another one."""
    head = make_head(phase="Failed", is_running=False, exit_code=1)
    wanted = plan(make_observed(head, make_worker(0), make_worker(1), status=RUNNING_STATUS))
    assert wanted.status is not None
    assert wanted.status.pods == frozenset({head.uid, make_worker(0).uid, make_worker(1).uid})


@pytest.mark.parametrize("begun_by", ["a loss", "a resume"])
def test_before_the_next_attempt_a_head_is_looked_for_that_was_not_seen_yet(begun_by: str) -> None:
    """An operator that has just taken over knows the status; that there are no pods it only believes."""
    failure = {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:30:00Z"}
    before = {"failure": failure} if begun_by == "a loss" else {"phase": "Suspended"}
    gone = make_worker(0, phase="Failed", is_running=False, exit_code=1)
    wanted = plan(make_observed(gone, status={**RUNNING_STATUS, **before}))
    assert wanted.status is not None and wanted.status.fields["attempt"] == 2
    assert wanted.status.pods == frozenset({gone.uid})


def test_a_worker_that_is_gone_without_a_trace_is_looked_for_once_more() -> None:
    wanted = plan(make_observed(make_head(), make_worker(0), status=RUNNING_STATUS))
    assert wanted.status is not None and wanted.status.fields["round"] == 1
    assert wanted.status.pods == frozenset({make_head().uid, make_worker(0).uid})


def test_a_driver_that_has_spoken_was_up_whatever_the_status_says_of_its_pod() -> None:
    """Another head of the same attempt beside one that may still run would be two drivers."""
    status = {**RUNNING_STATUS, "head": {}, "phase": "Pending"}
    wanted = plan(make_observed(make_worker(0), make_worker(1), status=status))
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "PodGone"
    assert not wanted.creates


def test_a_worker_that_the_driver_has_seen_is_lost_and_not_merely_not_made_yet() -> None:
    """The operator's pass hung while all pods came up, trained, and one of them was lost."""
    status = {**RUNNING_STATUS, "head": {}, "workers": {"desired": 2}, "phase": "Pending"}
    status["progress"] = {**RUNNING_STATUS["progress"], "joined": 2}
    pods = (make_head(), make_worker(0))
    lost = plan(make_observed(*pods, status=status))
    assert lost.status is not None and lost.status.fields["round"] == 1
    assert [create.name for create in lost.creates if create.kind == "Pod"] == [make_worker(1, round_=1).name]
    unmade = plan(make_observed(*pods, status={**status, "round": 1}))
    assert unmade.status is not None and "round" not in unmade.status.fields, "the word may be older than round 1"
    assert [create.name for create in unmade.creates if create.kind == "Pod"] == [make_worker(1, round_=1).name]
