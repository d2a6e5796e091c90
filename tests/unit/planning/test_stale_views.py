"""Stale views of the job or its pods: nothing is created, deleted or counted that the API server would not confirm."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_spec, make_worker
from tests.unit.kueue import queued_spec, served
from tests.unit.planning.state import decide


def test_pods_of_a_later_attempt_than_the_status_are_adopted_by_compare_and_set_only() -> None:
    status = {**RUNNING_STATUS, "failure": {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:30:00Z"}}
    wanted = decide(make_head(2), make_worker(0, 2), status=status)
    assert wanted.status is not None
    assert wanted.status.fields["attempt"] == 2
    assert wanted.status.tests["/status/attempt"] == 1
    assert not wanted.creates and not wanted.deletes


EARLY: dict[str, Any] = {"started_at": NOW - timedelta(seconds=60)}
LATE: dict[str, Any] = {"started_at": NOW - timedelta(seconds=30)}
WAITING: dict[str, Any] = {"phase": "Pending", "is_running": False}


@pytest.mark.parametrize(
    ("older", "newer", "deleted"),
    [
        ({}, {}, 0),
        (WAITING, WAITING, 0),
        (WAITING, EARLY, 0),
        (EARLY, WAITING, 1),
        (EARLY, LATE, 1),
        (LATE, EARLY, 0),
    ],
    ids=[
        "the older round",
        "the older round, while none runs",
        "the one that does not run",
        "the one that does not run, also of the newer round",
        "the one that started later, and that the group does not have",
        "the one that started later, of the older round",
    ],
)
def test_of_two_pods_in_one_slot_one_is_deleted(older: Any, newer: Any, deleted: int) -> None:
    """Of two operators one had a stale view, or a policy has denied to delete the older one for a while."""
    pods = (make_worker(0, **older), make_worker(0, round_=1, **newer))
    for twins in (pods, pods[::-1]):
        wanted = decide(make_head(), *twins, make_worker(1), status={**RUNNING_STATUS, "round": 1})
        assert [delete.name for delete in wanted.deletes] == [pods[deleted].name]


def test_a_counter_is_raised_only_while_the_job_is_unchanged() -> None:
    """Otherwise an operator that does not know of a restart in place would set the counters to what they were."""
    progress = {**RUNNING_STATUS["progress"], "restart": {"number": 1, "charged": 1, "class": "Application"}}
    in_place = decide(make_head(), make_worker(0), make_worker(1), status={**RUNNING_STATUS, "progress": progress})
    lost = make_worker(1, phase="Failed", is_running=False, exit_code=66)
    replaced = decide(make_head(), make_worker(0), lost, status=RUNNING_STATUS)
    for wanted, counter in ((in_place, "countedRestarts"), (replaced, "workerLosses")):
        assert wanted.status is not None and counter in wanted.status.fields
        assert wanted.status.tests.get("/metadata/resourceVersion") == "0"


def test_uncreated_pods_are_created_only_while_the_status_is_unchanged() -> None:
    status = {**RUNNING_STATUS, "head": {}, "workers": {}, "progress": {}, "phase": "Pending"}
    wanted = decide(make_worker(0), status=status)
    assert wanted.creates and wanted.status is not None
    assert not wanted.status.fields
    assert wanted.status.tests["/status/round"] == 0 and wanted.status.tests["/status/attempt"] == 1


def test_an_uncreated_head_is_created_only_after_a_fresh_list_of_pods_of_an_unchanged_job() -> None:
    """Reports that the view lacks would tell that this attempt has had a head. The driver of a second one would count
    its reports from zero, and the endpoint would take them for outrun ones."""
    status = {**RUNNING_STATUS, "head": {}, "workers": {}, "progress": {}, "phase": "Pending"}
    worker = make_worker(0)
    headless = decide(worker, status=status).status
    assert headless is not None and headless.pods == frozenset({worker.uid})
    assert headless.tests["/metadata/resourceVersion"] == "0"
    workerless = decide(make_head(), status=status).status
    assert workerless is not None and workerless.pods is None, "workers report nothing"


def test_a_head_gone_without_a_trace_requires_a_fresh_list_of_pods() -> None:
    workers = (make_worker(0), make_worker(1))
    wanted = decide(*workers, status=RUNNING_STATUS)
    assert wanted.status is not None
    assert wanted.status.pods == frozenset(pod.uid for pod in workers)
    assert wanted.status.tests["/metadata/resourceVersion"] == "0", "another cause may already be in the status"


def test_an_ended_head_may_have_a_successor_with_the_same_name() -> None:
    """It was created again in the same attempt, and may have ended differently."""
    head = make_head(phase="Failed", is_running=False, exit_code=1)
    wanted = decide(head, make_worker(0), make_worker(1), status=RUNNING_STATUS)
    assert wanted.status is not None
    assert wanted.status.pods == frozenset({head.uid, make_worker(0).uid, make_worker(1).uid})


@pytest.mark.parametrize("started_by", ["a loss", "a resume"])
def test_the_next_attempt_requires_a_fresh_list_of_pods(started_by: str) -> None:
    """An operator that has just taken over knows the status, but its cache may lack pods."""
    failure = {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:30:00Z"}
    before = {"failure": failure} if started_by == "a loss" else {"phase": "Suspended"}
    gone = make_worker(0, phase="Failed", is_running=False, exit_code=1)
    wanted = decide(gone, status={**RUNNING_STATUS, **before})
    assert wanted.status is not None and wanted.status.fields["attempt"] == 2
    assert wanted.status.pods == frozenset({gone.uid})


@pytest.mark.parametrize("phase", ["Running", "Suspending"])
def test_a_job_without_pods_comes_to_rest_only_after_a_fresh_list_of_pods(phase: str) -> None:
    """Pods of the attempt that the cache lacks would lose their last checkpoint, and run without the queue's quota."""
    suspended = decide(status={**RUNNING_STATUS, "phase": phase}, spec=make_spec(suspend=True)).status
    assert suspended is not None and suspended.fields["phase"] == "Suspended" and suspended.pods == frozenset()
    created = decide(spec=make_spec(suspend=True)).status
    assert created is not None and created.pods is None, "it has never had pods"


def test_only_the_first_write_of_a_status_begins_the_time_that_counts() -> None:
    """The phase, by which later writes compare, is missing until then."""
    queued = decide(spec=queued_spec(), queue=served()).status
    assert queued is not None and queued.tests.get("/status/observedGeneration") == -1
    later = decide(status={"phase": "Queued"}, spec=queued_spec(), queue=served(state="missing")).status
    assert later is not None and "/status/observedGeneration" not in later.tests


def test_a_worker_gone_without_a_trace_requires_a_fresh_list_of_pods() -> None:
    wanted = decide(make_head(), make_worker(0), status=RUNNING_STATUS)
    assert wanted.status is not None and wanted.status.fields["round"] == 1
    assert wanted.status.pods == frozenset({make_head().uid, make_worker(0).uid})


def test_a_driver_that_has_reported_was_up_even_if_the_status_lacks_its_pod() -> None:
    """A second head for an attempt whose head may still run would be a second driver."""
    status = {**RUNNING_STATUS, "head": {}, "phase": "Pending"}
    wanted = decide(make_worker(0), make_worker(1), status=status)
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "PodGone"
    assert not wanted.creates


def test_a_missing_worker_that_had_joined_is_lost_rather_than_uncreated() -> None:
    """The pass hung while all pods started and trained, and one was lost."""
    status = {**RUNNING_STATUS, "head": {}, "workers": {"desired": 2}, "phase": "Pending"}
    status["progress"] = {**RUNNING_STATUS["progress"], "joined": 2}
    pods = (make_head(), make_worker(0))
    lost = decide(*pods, status=status)
    assert lost.status is not None and lost.status.fields["round"] == 1
    assert [create.name for create in lost.creates if create.kind == "Pod"] == [make_worker(1, round_=1).name]
    unmade = decide(*pods, status={**status, "round": 1})
    assert unmade.status is not None and "round" not in unmade.status.fields, "the report may be older than round 1"
    assert [create.name for create in unmade.creates if create.kind == "Pod"] == [make_worker(1, round_=1).name]
