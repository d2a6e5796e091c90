"""Why a job waits for its queue, and what the queue gives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.planning.facts.admission import choose_admission, count_workers, find_obstacle
from railhead.planning.observed import Rejection
from railhead.planning.pod_view import Problem
from railhead.planning.queue_view import Assignment, QueueView
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_job
from tests.unit.kueue import (
    ADMISSION,
    QUEUE,
    RESERVED,
    condition,
    make_admitted,
    make_workload,
    queued_spec,
    served,
)

NO_QUOTA = condition("QuotaReserved", "False", "WaitingForQuota", "2 more GPUs needed")
RUNNING = {**RUNNING_STATUS, "admission": ADMISSION}


def reason(queue: QueueView, status: dict[str, Any] | None = None, **spec: Any) -> str:
    found = find_obstacle(make_job(status=status, spec=queued_spec(**spec), queue=queue))
    return found.reason if found else ""


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (QueueView("off"), "QueueMissing"),
        (QueueView("missing"), "QueueMissing"),
        (served(make_admitted(), state="partial"), "QueueMissing"),
        (served(), "Queued"),
        (served(make_workload()), "Queued"),
        (served(make_workload(NO_QUOTA)), "WaitingForQuota"),
        (served(make_workload(RESERVED)), "UnsatisfiedAdmissionChecks"),
        (served(make_workload(RESERVED, condition("Admitted", "False", "NoReservation"))), "NoReservation"),
        (served(make_admitted(condition("Evicted", reason="Preempted"))), "Preempted"),
        (served(make_workload(NO_QUOTA, condition("Evicted", reason="Preempted"))), "WaitingForQuota"),
        (served(make_workload(NO_QUOTA, is_active=False)), "Deactivated"),
        (served(make_admitted(is_active=False)), "Deactivated"),
        (served(make_admitted(is_deleting=True)), "Queued"),
        (served(make_admitted(condition("Finished"))), "Queued"),
        (served(make_admitted(digest="of another request")), "Queued"),
        (served(make_admitted(), flavors={}), "FlavorMissing"),
        (served(make_admitted(), priority_label="high"), "PriorityClassMissing"),
        (served(make_admitted(), queue_label="team-b"), "QueueNameConflict"),
        (served(make_admitted(), seconds_label="1h"), "MaxExecTimeInvalid"),
        (served(make_admitted(), seconds_label="0"), "MaxExecTimeInvalid"),
        (served(make_admitted(), seconds_label=str(2**31)), "MaxExecTimeInvalid"),
        (served(make_admitted(), seconds_label="3600"), "Queued"),  # it asks again, with a limit
        (served(make_admitted(), queue_label=QUEUE), ""),
        (served(make_admitted()), ""),
    ],
)
def test_a_job_at_rest_waits_for_an_admission_of_what_it_asks_for_now(queue: QueueView, expected: str) -> None:
    assert reason(queue) == expected


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (QueueView("missing"), ""),
        (QueueView("unknown"), ""),
        (served(make_admitted(is_deleting=True), state="missing"), ""),
        (served(make_admitted(is_deleting=True), state="partial"), "Queued"),
        (served(make_admitted(), state="partial", flavors={}), ""),
        (served(), "Queued"),
        (served(make_admitted(condition("Evicted", reason="Preempted"))), "Preempted"),
        (served(make_admitted(is_active=False)), "Deactivated"),
        (served(make_admitted(digest="of another request"), flavors={}, queue_label="team-b"), ""),
    ],
)
def test_a_running_job_ends_by_its_workload_only(queue: QueueView, expected: str) -> None:
    assert reason(queue, RUNNING) == expected


def test_the_label_names_a_queue_too_and_a_job_that_began_without_one_goes_on() -> None:
    queue = QueueView("served", queue_label=QUEUE)
    waits = find_obstacle(make_job(queue=queue))
    assert waits is not None and waits.reason == "Queued"
    assert find_obstacle(make_job(make_head(), status=RUNNING_STATUS, queue=queue)) is None


def test_a_job_that_could_not_start_says_how_to_go_on_until_its_workload_is_deleted() -> None:
    topology = (Assignment("head", ("spot",), 1), Assignment("workers", ("spot",), 2, has_topology=True))
    together = {"scheduling": {"queueName": QUEUE, "topology": {"key": "rack"}}}
    admitted = make_admitted(spec=queued_spec(**together), assignments=topology)
    assert reason(served(admitted), **together) == "FailedToStart"
    ended = condition("Finished", reason="FailedToStart", message="Kueue assigned the pods to nodes")
    found = find_obstacle(make_job(spec=queued_spec(), queue=served(make_admitted(ended))))
    assert found is not None and found.reason == "FailedToStart" and "delete Workload digits-0f1e2d" in found.message
    assert reason(served(make_admitted(ended, is_deleting=True))) == "Queued"


def test_the_workload_of_an_administrator_says_how_to_go_on() -> None:
    held = find_obstacle(make_job(spec=queued_spec(), queue=served(make_workload(NO_QUOTA, is_active=False))))
    assert held is not None and "spec.active to true" in held.message and "digits-0f1e2d" in held.message


def test_an_admission_has_what_the_flavors_say() -> None:
    found = choose_admission(make_job(spec=queued_spec(), queue=served(make_admitted())))
    assert found is not None
    assert (found.queue, found.cluster_queue, found.find("head").count, found.find("workers").count) == (
        QUEUE,
        "all",
        1,
        2,
    )
    workers = found.find("workers")
    assert workers.flavors == ["spot"] and workers.node_selector == {"pool": "spot"}
    assert [each.key for each in found.find("head").tolerations] == ["spot"]


def test_without_an_answer_of_kueue_the_next_attempt_has_what_the_last_one_had() -> None:
    for queue in (QueueView("missing"), served(make_admitted(), flavors={})):
        job = make_job(status=RUNNING, spec=queued_spec(), queue=queue)
        assert choose_admission(job) == job.status.admission
    assert choose_admission(make_job(status=RUNNING_STATUS, queue=served(make_admitted()))) is None


def test_an_elastic_job_begins_with_the_workers_that_were_admitted() -> None:
    scaling = {"minWorkers": 2, "maxWorkers": 4, "desiredWorkers": 4}
    spec = queued_spec(scaling=scaling)
    job = make_job(spec=spec, queue=served(make_admitted(count=3, spec=spec)))
    assert count_workers(job, choose_admission(job)) == 3
    running = make_job(
        status={**RUNNING, "admission": {**ADMISSION, "podSets": [{"name": "workers", "count": 3}]}},
        spec=spec,
        queue=job.queue,
    )
    assert running.wanted_workers == 3 and running.requested_workers == 4


@pytest.mark.parametrize(
    ("desired", "admitted", "before", "reclaimed", "expected"),
    [
        (4, 4, 4, 0, 4),
        (3, 4, 4, 0, 3),  # the attempt begins smaller than the last one was admitted
        (4, 4, 3, 0, 3),  # given up by the status; whether the queue has heard of it plays no part
        (4, 4, 4, 1, 3),  # released, by the Workload
        (4, 3, 3, 1, 3),  # the queue subtracts it from what was asked for
        (4, None, 4, 0, 4),
    ],
)
def test_an_attempt_never_takes_back_what_its_admission_has_given_up(
    desired: int, admitted: int | None, before: int, reclaimed: int, expected: int
) -> None:
    scaling = {"minWorkers": 2, "maxWorkers": 4, "desiredWorkers": desired}
    assignments = (Assignment("head", ("spot",), 1), Assignment("workers", ("spot",), admitted))
    workload = make_admitted(assignments=assignments, asked_workers=4, reclaimed_workers=reclaimed)
    status = {**RUNNING, "admission": {**ADMISSION, "podSets": [{"name": "workers", "count": before}]}}
    found = choose_admission(make_job(status=status, spec=queued_spec(scaling=scaling), queue=served(workload)))
    assert found is not None and found.find("workers").count == expected


def test_a_job_whose_workload_is_rejected_waits_for_that() -> None:
    """Otherwise this reason and that of the rejection replace each other at every pass."""
    rejected = Problem("CreateRejected", "Workload digits was rejected: injected")
    job = replace(
        make_job(spec=queued_spec(), queue=served()),
        rejection=Rejection(rejected, attempt=0, tries=1, at=NOW, since=NOW),
    )
    assert find_obstacle(job) == rejected
    admitted = replace(job, queue=served(make_admitted()))
    assert find_obstacle(admitted) is None
