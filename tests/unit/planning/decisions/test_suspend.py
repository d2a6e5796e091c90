"""spec.suspend: the order of the shutdown, what stays, and the resumption; and a deleted TrainJob that a finalizer
keeps: its pods go like those of a suspended job, and none follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.api.status import JobStatus
from railhead.planning.decisions.suspend import wind_down
from railhead.planning.observed import Denial
from railhead.planning.planner import plan
from railhead.planning.pod_view import ENDED_WITHIN
from railhead.planning.wanted_status import Requirement
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    ended,
    is_empty,
    make_head,
    make_job,
    make_observed,
    make_spec,
    make_worker,
)
from tests.unit.kueue import ADMISSION, condition, make_admitted, queued_spec, served
from tests.unit.planning.simulation import JOB, Simulation
from tests.unit.planning.state import decide

SUSPEND = make_spec(suspend=True)
NO_RESTARTS = {"application": 0, "withoutProgress": 0}
NEWEST = {"uri": "/runs/c9", "index": 9, "time": "2026-01-01T00:00:00Z", "metrics": {}}
DAY = 86_400


def test_the_status_is_written_first_and_only_the_head_is_deleted() -> None:
    wanted = decide(make_head(), make_worker(0), make_worker(1), status=RUNNING_STATUS, spec=SUSPEND)
    assert wanted.status is not None and wanted.status.fields["phase"] == "Suspending"
    assert [delete.name for delete in wanted.deletes] == [make_head().name]
    assert wanted.status.tests.get("/metadata/generation") == 1, "a stale spec suspends nothing"


def test_the_workers_stay_until_the_head_has_ended() -> None:
    status = {**RUNNING_STATUS, "phase": "Suspending"}
    by = NOW + timedelta(seconds=70)
    head = make_head(is_deleting=True, deletion_timestamp=by - ENDED_WITHIN)
    workers = (make_worker(0), make_worker(1))
    wanted = decide(head, *workers, status=status, spec=SUSPEND)
    assert not wanted.deletes and wanted.wake_at == by
    newest = {"uri": "/runs/c9", "index": 9, "time": "2026-01-01T00:00:00Z", "metrics": {}}
    last = ended(head, "Preemption", checkpoint=newest)
    wanted = decide(last, *workers, status=status, spec=SUSPEND)
    assert {delete.name for delete in wanted.deletes} == {pod.name for pod in workers}
    assert wanted.status is not None and wanted.status.fields["checkpoint"]["index"] == 9


def test_a_head_that_ended_just_before_the_suspension_keeps_its_last_checkpoint() -> None:
    """The passes that follow may find the head gone."""
    newest = {"uri": "/runs/c9", "index": 9, "time": "2026-01-01T00:00:00Z", "metrics": {}}
    head = ended(make_head(), "Preemption", checkpoint=newest, phase="Running")
    wanted = decide(head, make_worker(0), make_worker(1), status=RUNNING_STATUS, spec=SUSPEND)
    assert wanted.status is not None and wanted.status.fields["phase"] == "Suspending"
    assert wanted.status.fields["checkpoint"]["index"] == 9
    assert len(wanted.deletes) == 3


@pytest.mark.parametrize("scheduler", ["None", "Coscheduling"])
def test_the_gang_of_the_attempt_goes_with_its_last_pod(scheduler: str) -> None:
    """The scheduler may be changed before the next attempt."""
    spec = make_spec(suspend=True, scheduling={"gangScheduler": scheduler})
    wanted = decide(status={**RUNNING_STATUS, "phase": "Suspending"}, spec=spec)
    assert wanted.status is not None and wanted.status.fields["phase"] == "Suspended"
    removed = [(each.kind, each.api_versions) for each in wanted.forgotten]
    assert removed == ([] if scheduler == "None" else [("PodGroup", ("scheduling.x-k8s.io/v1alpha1",))])


def test_workers_do_not_wait_for_a_head_beyond_its_grace_period() -> None:
    status = {**RUNNING_STATUS, "phase": "Suspending"}
    head = make_head(is_deleting=True, deletion_timestamp=NOW - timedelta(seconds=6))
    wanted = decide(head, make_worker(0), status=status, spec=SUSPEND)
    assert [delete.name for delete in wanted.deletes] == [make_worker(0).name]


def test_a_suspended_job_has_no_pods_and_resumes_in_a_new_attempt_without_spending_budget() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and not sim.pods
    assert sim.check_condition("Suspended") and not sim.check_condition("Reconciling")
    assert "checkpoint 3" in next(c["message"] for c in sim.status["conditions"] if c["type"] == "Suspended")
    assert sim.status["head"] == {"pod": "", "node": ""}
    assert is_empty(sim.reconcile())
    sim.apply()
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.status["phase"] == "Pending"
    assert not sim.check_condition("Suspended")
    assert {**NO_RESTARTS, **sim.status.get("restarts", {})} == NO_RESTARTS
    sim.start_pods()
    sim.settle()
    assert sim.status["phase"] == "Starting", "nothing was lost, so nothing restarts"
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert [e for e in sim.events if e in ("Suspended", "Resumed", "Restarting")] == ["Suspended", "Resumed"]


def test_a_job_created_suspended_creates_no_pods() -> None:
    sim = Simulation(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.status["attempt"] == 0
    assert set(sim.api.creates) == {("trainjobs", "digits"), *(key for key in sim.api.creates if key[0] == "events")}
    sim.apply()
    sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3


def test_a_suspension_is_completed_before_the_job_resumes() -> None:
    sim = Simulation()
    sim.run_until_training()
    head = sim.head.name
    sim.stuck.add(head)
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspending" and len(sim.pods) == 3
    assert sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert sim.status["phase"] == "Suspending" and list(sim.pods) == [head]
    sim.apply()
    sim.settle()
    assert sim.status["phase"] == "Suspending", "the head was already deleted"
    sim.lose(head)
    sim.settle()
    assert sim.status["attempt"] == 2 and len(sim.live_heads) == 1


@pytest.mark.parametrize("state", ["starting", "backing off", "restarting"])
def test_a_job_can_be_suspended_at_any_time(state: str) -> None:
    sim = Simulation()
    if state == "starting":
        sim.settle()
    else:
        sim.run_until_training()
    if state == "backing off":
        sim.end_head("Application")
        sim.reconcile()
        assert sim.status["phase"] == "Restarting"
    if state == "restarting":
        sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))
        sim.settle()
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended"
    assert not [p for p in sim.pods.values() if not p.is_over]
    attempt = sim.status["attempt"]
    sim.apply()
    sim.settle()
    assert sim.status["attempt"] == attempt + 1 and len(sim.live_heads) == 1


def test_a_job_that_finishes_while_suspending_has_succeeded() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.apply(suspend=True)
    sim.stuck.add(sim.head.name)
    sim.settle()
    name = next(iter(sim.stuck))
    sim.end_pod(name, "Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded"


def test_a_finished_job_stays_finished() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Succeeded"


def test_a_drained_head_keeps_its_workers_until_it_has_ended() -> None:
    """`kubectl drain`, an eviction: the driver waits for one more commit, which needs the workers."""
    head = make_head(is_deleting=True, deletion_timestamp=NOW + timedelta(seconds=65))
    observed = make_observed(head, make_worker(0), make_worker(1), status=RUNNING_STATUS)
    wanted = plan(observed)
    assert is_empty(wanted) and wanted.wake_at == head.gone_by
    late = plan(replace(observed, now=NOW + timedelta(seconds=71)))
    assert late.status is not None and late.status.fields["failure"]["class"] == "Infrastructure"


def test_a_changed_spec_is_acknowledged_in_every_phase() -> None:
    """Generic tools treat a job with an unobserved generation as still in progress."""
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    finished = replace(sim.observe(), generation=2)
    wanted = plan(finished)
    assert wanted.status is not None and wanted.status.fields == {"observedGeneration": 2}


def delete(
    sim: Simulation, *, finalizers: tuple[str, ...] = ("example.com/backup",), policy: str = "Background"
) -> None:
    sim.api.patch(JOB, {"metadata": {"finalizers": list(finalizers)}})
    sim.api.delete(JOB, {"propagationPolicy": policy})


def running(**spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.run_until_training()
    return sim


def test_the_head_of_a_deleted_job_commits_a_last_checkpoint_before_the_workers_go() -> None:
    sim = running()
    head = sim.head.name
    sim.stuck.add(head)
    delete(sim)
    sim.settle()
    assert sim.status["phase"] == "Suspending" and len(sim.pods) == 3
    assert [name for name, pod in sim.pods.items() if pod.is_deleting] == [head]
    assert sim.last.wake_at == sim.pods[head].gone_by
    sim.end_pod(head, "Preemption", checkpoint=NEWEST)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.status["checkpoint"]["index"] == 9
    assert not [pod for pod in sim.pods.values() if not pod.is_over]
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Suspended")
    assert message == "The job is deleted and has no pods; a finalizer in its metadata keeps the object"


def test_the_workers_of_a_deleted_job_do_not_wait_for_a_head_beyond_its_grace_period() -> None:
    sim = running()
    sim.stuck.add(sim.head.name)
    delete(sim)
    sim.settle()
    assert sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert list(sim.pods) == list(sim.stuck)


def suspend(sim: Simulation) -> None:
    sim.run_until_training()
    sim.apply(suspend=True)
    sim.settle()
    sim.apply()


def begin_to_suspend(sim: Simulation) -> None:
    sim.run_until_training()
    sim.stuck.add(sim.head.name)
    sim.apply(suspend=True)
    sim.settle()
    sim.apply()
    sim.stuck.clear()


def back_off(sim: Simulation) -> None:
    sim.run_until_training()
    sim.end_head("Application")
    sim.reconcile()
    assert sim.status["phase"] == "Restarting"


def lose_worker(sim: Simulation) -> None:
    sim.run_until_training()
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
@pytest.mark.parametrize(
    "reach",
    [
        lambda sim: None,
        Simulation.settle,
        Simulation.run_until_training,
        suspend,
        begin_to_suspend,
        back_off,
        lose_worker,
    ],
)
def test_no_pod_of_a_deleted_job_stays_or_follows(reach: Callable[[Simulation], None], policy: str) -> None:
    sim = Simulation(activeDeadlineSeconds=DAY // 2)
    reach(sim)
    delete(sim, policy=policy)
    created, attempt = sim.count_created("pods"), sim.status.get("attempt", 0)
    for _ in range(4):
        sim.api.collect()
        sim.settle()
        sim.later(DAY)
    assert not [pod for pod in sim.pods.values() if not pod.is_over]
    assert sim.count_created("pods") == created
    assert (sim.status["phase"], sim.status.get("attempt", 0)) == ("Suspended", attempt)
    assert is_empty(sim.reconcile())


def test_a_job_that_finishes_while_it_is_deleted_has_succeeded() -> None:
    sim = running()
    sim.stuck.add(sim.head.name)
    delete(sim)
    sim.settle()
    sim.end_pod(next(iter(sim.stuck)), "Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded"


def test_a_finished_job_that_a_finalizer_keeps_is_cleaned_up_and_deleted_once() -> None:
    sim = running(ttlSecondsAfterFinished=DAY)
    sim.end_head("Succeeded")
    sim.settle()
    delete(sim)
    for _ in range(3):
        sim.settle()
        sim.later(DAY)
    assert not sim.pods and sim.status["phase"] == "Succeeded"
    assert sim.api.deletes["trainjobs", "digits"] == 1
    assert is_empty(sim.reconcile())


def test_the_pods_of_a_job_that_is_deleted_with_cascade_orphan_stay() -> None:
    sim = running()
    delete(sim, finalizers=("example.com/backup", "orphan"))
    before = sim.api.version
    sim.reconcile()
    assert sim.api.version == before and len([pod for pod in sim.pods.values() if pod.is_live]) == 3


PREEMPTED = condition("Evicted", reason="Preempted", message="Preempted to accommodate another Workload. " * 40)


def find_message(status: JobStatus, type_: str) -> str:
    found = status.find_condition(type_)
    assert found is not None
    return found.message


@pytest.mark.parametrize("suspend", [False, True])
def test_a_stop_says_who_stops_the_job(suspend: bool) -> None:
    """The queue's words, cut; the user's own suspension explains itself."""
    queue = served(make_admitted(PREEMPTED))
    status = {**RUNNING_STATUS, "admission": ADMISSION}
    job = make_job(make_head(), make_worker(0), status=status, spec=queued_spec(suspend=suspend), queue=queue)
    decision = wind_down(job)
    assert decision is not None and decision.wanted is not None
    message = find_message(decision.wanted.status, "Reconciling")
    end = "A driver that trains ends after one more checkpoint, within 60 s; then the pods are deleted"
    why = "" if suspend else f"The queue stops the job (Preempted: {PREEMPTED.message[:600]}). "
    assert message == why + end
    assert decision.wanted.requires == {Requirement.SAME_SPEC}


def test_a_stop_that_has_begun_writes_only_what_is_new() -> None:
    """Each write would begin another pass."""
    status = {**RUNNING_STATUS, "phase": "Suspending"}
    going = make_head(is_deleting=True, deletion_timestamp=NOW)
    waits = wind_down(make_job(going, make_worker(0), status=status, spec=SUSPEND))
    assert waits is not None and waits.wanted is None
    last = ended(make_head(), "Preemption", checkpoint=NEWEST, phase="Running")
    job = make_job(last, make_worker(0), status=status, spec=SUSPEND)
    decision = wind_down(job)
    assert decision is not None and decision.wanted is not None
    assert decision.wanted.status.phase == "Suspending" and decision.wanted.status.newest_index == 9
    assert decision.wanted.status.conditions == job.status.conditions


def test_a_head_that_may_not_be_deleted_is_waited_for_until_its_grace_period_would_be_over() -> None:
    head = make_head()
    denial = Denial("Pod", head.name, "protected", tries=9, at=NOW, since=NOW - timedelta(seconds=20))
    job = make_job(head, make_worker(0), status=RUNNING_STATUS, spec=SUSPEND, denials=(denial,))
    decision = wind_down(job)
    assert decision is not None and [each.name for each in decision.deletes] == [head.name]
    assert decision.wake_at == job.find_protected_end(head) == NOW + timedelta(seconds=70)


@pytest.mark.parametrize("phase", ["Suspending", "Running"])
@pytest.mark.parametrize("is_queued", [False, True])
def test_a_job_without_pods_rests_with_its_last_checkpoints(phase: str, is_queued: bool) -> None:
    """What concerned its pods is over. `phase`: a job whose pods are gone at once is never Suspending."""
    best = {"uri": "/runs/c2", "index": 2, "time": "2026-01-01T00:00:00Z", "metrics": {}, "attempt": 1}
    of_pods = {
        "resize": {"workerPods": 1, "afterCheckpoint": 4},
        "waiting": {"since": "2026-01-01T00:00:00Z", "again": True},
        "workers": {"desired": 2, "ready": 2, "joined": 2},
    }
    head = ended(make_head(), "Preemption", checkpoint=NEWEST, best_checkpoint=best)
    queue = {"queue": served(make_admitted(PREEMPTED))} if is_queued else {}
    spec = queued_spec() if is_queued else SUSPEND
    status = {**RUNNING_STATUS, **of_pods, "phase": phase, "admission": ADMISSION}
    decision = wind_down(make_job(head, status=status, spec=spec, **queue))
    assert decision is not None and decision.wanted is not None
    left = decision.wanted.status
    assert left.checkpoint is not None and left.best_checkpoint is not None
    assert (left.checkpoint.index, left.best_checkpoint.index) == (9, 2)
    assert (left.resize, left.waiting, left.head.pod) == (None, None, "")
    assert (left.workers.desired, left.workers.ready, left.workers.joined) == (2, 0, 0)
    [event] = decision.events
    wanted = ("Normal", "Queued", True) if is_queued else ("Normal", "Suspended", False)
    assert (event.type, event.reason, event.is_series) == wanted
    of_spec = {Requirement.SAME_SPEC} if phase == "Running" else set()
    assert decision.wanted.requires == {Requirement.FRESH_PODS, *of_spec}


def test_a_job_that_has_saved_nothing_says_that_it_starts_from_scratch() -> None:
    decision = wind_down(make_job(status=RUNNING_STATUS, spec=SUSPEND))
    assert decision is not None and decision.wanted is not None
    message = find_message(decision.wanted.status, "Suspended")
    assert message == "The job has no pods; once spec.suspend is false, it starts from scratch"
