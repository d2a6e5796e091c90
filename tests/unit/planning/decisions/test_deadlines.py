"""activeDeadlineSeconds, startDeadlineSeconds, restartDeadlineSeconds: what ends, what is released, what counts; and a
gang half of which is rejected: it does not hold its GPUs for long, and no budget is charged.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from railhead.api import names
from railhead.planning.facts.deadlines import HOLD_SECONDS, OUTAGE_SECONDS
from railhead.planning.observed import Observed
from railhead.planning.planner import plan
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    ended,
    is_empty,
    make_head,
    make_observed,
    make_spec,
    make_worker,
)
from tests.unit.planning.amendments.test_creates import QUOTA, reject_slot
from tests.unit.planning.simulation import Simulation
from tests.unit.planning.state import decide

ALL = (make_head(), make_worker(0), make_worker(1))
NOT_A_QUOTA = ["denied the request: no label team", "violates PodSecurity", "User cannot create pods"]


def test_a_job_past_its_active_deadline_fails_and_its_head_is_deleted_first() -> None:
    observed = make_observed(*ALL, status=RUNNING_STATUS, spec=make_spec(activeDeadlineSeconds=3600))
    wanted = plan(observed)
    assert wanted.status is not None and wanted.status.fields["phase"] == "Failed"
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["reason"]) == ("DeadlineExceeded", "ActiveDeadlineExceeded")
    assert "spec.activeDeadlineSeconds" in failure["message"]
    assert wanted.deletes == ()
    known = {**RUNNING_STATUS, **wanted.status.fields}
    wanted = decide(*ALL, status=known, spec=make_spec(activeDeadlineSeconds=3600))
    assert [delete.name for delete in wanted.deletes] == [ALL[0].name]


def test_the_last_checkpoint_of_a_head_that_ended_by_then_is_not_lost() -> None:
    head = ended(ALL[0], "Application", checkpoint={"uri": "/runs/c7", "index": 7})
    wanted = decide(head, *ALL[1:], status=RUNNING_STATUS, spec=make_spec(activeDeadlineSeconds=3600))
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "ActiveDeadlineExceeded"
    assert wanted.status.fields["checkpoint"]["index"] == 7


def test_the_job_is_reconciled_when_the_deadline_is_due() -> None:
    observed = make_observed(*ALL, status=RUNNING_STATUS, spec=make_spec(activeDeadlineSeconds=3700))
    wanted = plan(observed)
    assert is_empty(wanted)
    assert wanted.wake_at == NOW + timedelta(seconds=100)


def test_the_workers_of_a_job_past_its_active_deadline_stay_until_its_head_has_ended() -> None:
    sim = Simulation(activeDeadlineSeconds=600)
    sim.run_until_training()
    sim.stuck.add(sim.head.name)
    head = sim.head.name
    sim.later(600)
    sim.settle()
    assert sim.status["phase"] == "Failed" and len(sim.pods) == 3
    last = {"uri": "/runs/c7", "index": 7, "time": "2026-01-01T00:00:00Z", "metrics": {}}
    sim.end_pod(head, "Preemption", checkpoint=last)
    sim.settle()
    assert sim.status["checkpoint"]["index"] == 7, "the last checkpoint is in the status"
    assert [pod.role for pod in sim.pods.values()] == [names.HEAD]


def test_the_workers_of_a_job_past_its_active_deadline_do_not_wait_for_a_stuck_head() -> None:
    sim = Simulation(activeDeadlineSeconds=600)
    sim.run_until_training()
    head = sim.head.name
    sim.stuck.add(head)
    sim.later(600)
    sim.settle()
    assert sim.last.wake_at is not None and sim.last.wake_at == sim.pods[head].gone_by
    sim.now = sim.last.wake_at
    sim.later(1)
    sim.settle()
    assert list(sim.pods) == [head]


def test_suspended_time_does_not_count() -> None:
    sim = Simulation(activeDeadlineSeconds=1000)
    sim.run_until_training()
    sim.later(400)
    sim.apply(activeDeadlineSeconds=1000, suspend=True)
    sim.settle()
    sim.later(5000)
    sim.settle()
    assert sim.status["phase"] == "Suspended"
    sim.apply(activeDeadlineSeconds=1000)
    sim.settle()
    assert sim.status["suspendedSeconds"] == 5000
    sim.run_until_training()
    sim.later(599)
    sim.settle()
    assert sim.status["phase"] == "Running"
    sim.later(1)
    sim.settle()
    assert sim.status["phase"] == "Failed"


def begin_to_suspend_before_the_limit() -> Simulation:
    """The driver needs longer for its last checkpoint than is left of the limit."""
    sim = Simulation(activeDeadlineSeconds=600)
    sim.run_until_training()
    sim.later(590)
    sim.stuck.add(sim.head.name)
    sim.apply(activeDeadlineSeconds=600, suspend=True)
    sim.settle()
    sim.later(20)
    sim.settle()
    assert sim.status["phase"] == "Suspending"
    return sim


def test_the_deadline_does_not_end_a_job_that_is_being_suspended() -> None:
    """As for a batch/v1 Job (pkg/controller/job/job_controller.go: pastActiveDeadline)."""
    sim = begin_to_suspend_before_the_limit()
    sim.end_pod(sim.stuck.pop(), "Preemption", checkpoint={"uri": "/runs/c7", "index": 7})
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.status["checkpoint"]["index"] == 7
    sim.later(100_000)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.last.wake_at is None
    sim.apply(activeDeadlineSeconds=1200)
    sim.settle()
    assert sim.status["phase"] == "Pending", "a raised limit lets it go on"


def test_a_job_is_suspended_although_the_deadline_passes_in_the_same_moment() -> None:
    sim = Simulation(activeDeadlineSeconds=600)
    sim.run_until_training()
    sim.later(600)
    sim.apply(activeDeadlineSeconds=600, suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended"


def test_a_job_that_has_used_up_its_time_fails_at_its_resume_before_it_has_pods() -> None:
    sim = begin_to_suspend_before_the_limit()
    sim.stuck.clear()
    sim.settle()
    created = sim.count_created("pods")
    sim.apply(activeDeadlineSeconds=600)
    sim.settle()
    assert sim.status["failure"]["reason"] == "ActiveDeadlineExceeded"
    assert sim.status["phase"] == "Failed" and sim.count_created("pods") == created


def test_a_driver_that_finishes_in_the_last_second_has_succeeded() -> None:
    sim = Simulation(activeDeadlineSeconds=600)
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.later(3600)
    sim.settle()
    assert sim.status["phase"] == "Succeeded"


def test_a_job_that_misses_its_start_deadline_releases_all_pods_and_retries_with_backoff() -> None:
    sim = Simulation(startDeadlineSeconds=120, backoffLimit=0)
    sim.settle()
    waits = []
    for attempt in range(1, 8):
        sim.settle()
        assert sim.status["attempt"] == attempt and sim.status["phase"] == "Pending"
        lost = next(name for name, pod in sim.pods.items() if pod.role == names.WORKER)
        sim.cannot_schedule(lost, "0/3 nodes have a GPU")
        assert sim.reconcile().wake_at is not None or sim.last.status is not None
        sim.later(120)
        sim.reconcile()
        failure = sim.status["failure"]
        assert (failure["class"], failure["reason"]) == ("Startup", "StartDeadlineExceeded")
        assert failure["pod"] == lost
        assert f"pod {lost} cannot start (Unschedulable: 0/3 nodes have a GPU)" in failure["message"]
        sim.reconcile()
        assert not [pod for pod in sim.pods.values() if pod.is_live], "it holds no pods meanwhile"
        assert sim.last.wake_at is not None
        waits.append((sim.last.wake_at - sim.now).total_seconds())
        sim.now = sim.last.wake_at
    assert waits == [5, 10, 20, 40, 40, 40, 40]
    sim.settle()
    assert sim.losses == {"startup": 7} and not any(sim.status.get("restarts", {}).values())


def test_a_retried_start_is_still_a_start() -> None:
    sim = Simulation(startDeadlineSeconds=60)
    sim.settle()
    sim.later(60)
    sim.reconcile()
    sim.later(60)
    sim.settle()
    sim.start_pods()
    sim.settle()
    assert (sim.status["attempt"], sim.status["phase"]) == (2, "Starting")


def test_training_in_time_ends_the_wait() -> None:
    sim = Simulation(startDeadlineSeconds=120)
    sim.run_until_training()
    assert "waiting" not in sim.status
    sim.later(10_000)
    sim.settle()
    assert sim.status["phase"] == "Running" and sim.status["attempt"] == 1


def test_a_lost_worker_without_a_replacement_is_a_restart_with_its_own_deadline() -> None:
    sim = Simulation(startDeadlineSeconds=5, restartDeadlineSeconds=300)
    sim.settle()
    sim.start_pods()
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))
    sim.report("RESTARTING")
    sim.settle()
    sim.later(299)
    sim.settle()
    assert sim.status["attempt"] == 1
    sim.later(1)
    sim.reconcile()
    assert sim.status["failure"]["reason"] == "RestartDeadlineExceeded"
    sim.reconcile()
    assert not [pod for pod in sim.pods.values() if pod.is_live]
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.status["phase"] == "Restarting"
    assert sim.status["waiting"]["again"], "the next attempt has the limit of a restart too"


def test_the_start_deadline_applies_to_a_resumed_job() -> None:
    sim = Simulation(startDeadlineSeconds=60)
    sim.run_until_training()
    sim.apply(startDeadlineSeconds=60, suspend=True)
    sim.settle()
    sim.later(1000)
    sim.apply(startDeadlineSeconds=60)
    sim.settle()
    assert not sim.status["waiting"]["again"]
    sim.later(60)
    sim.reconcile()
    assert sim.status["failure"]["reason"] == "StartDeadlineExceeded"


@pytest.mark.parametrize("field", ["activeDeadlineSeconds", "startDeadlineSeconds", "restartDeadlineSeconds"])
def test_a_deadline_set_while_the_job_runs_counts_from_the_same_start(field: str) -> None:
    sim = Simulation()
    sim.settle()
    sim.later(500)
    sim.settle()
    sim.apply(**{field: 400})
    sim.settle()
    given_up = sim.status["phase"] == "Failed" or "failure" in sim.status
    assert given_up is (field != "restartDeadlineSeconds")


STARTING = {
    **RUNNING_STATUS,
    "phase": "Starting",
    "workers": {"desired": 2, "ready": 0, "joined": 0},
    "waiting": {"since": "2026-01-01T11:00:00Z", "again": False},
}


def phase_of(observed: Observed) -> str | None:
    wanted = plan(observed)
    return wanted.status.fields.get("phase") if wanted.status else None


def test_the_start_deadline_does_not_end_a_run_that_has_reported_running() -> None:
    spec = make_spec(startDeadlineSeconds=120)
    assert phase_of(make_observed(*ALL, status=STARTING, spec=spec)) == "Running"
    silent = {**STARTING, "progress": {"attempt": 1, "state": "SCHEDULING"}}
    assert phase_of(make_observed(*ALL, status=silent, spec=spec)) == "Restarting", "the attempt is given up"


def test_a_report_of_running_does_not_count_while_a_worker_is_missing() -> None:
    spec = make_spec(startDeadlineSeconds=120)
    wanted = decide(*ALL[:2], status=STARTING, spec=spec)
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "StartDeadlineExceeded"


def test_a_deadline_due_while_there_was_no_leader_waits_for_the_drivers_report() -> None:
    silent = {**STARTING, "progress": {"attempt": 1, "state": "SCHEDULING"}}
    observed = make_observed(*ALL, status=silent, spec=make_spec(startDeadlineSeconds=120))
    just_leads = replace(observed, led_since=NOW - timedelta(seconds=5))
    wanted = plan(just_leads)
    assert not wanted.deletes and wanted.wake_at == NOW + timedelta(seconds=15)
    assert plan(replace(just_leads, now=NOW + timedelta(seconds=15))).deletes


@pytest.mark.parametrize("attempt", [9_999, 999_999])
def test_startup_failures_never_exhaust_the_attempts(attempt: int) -> None:
    sim = Simulation(startDeadlineSeconds=120, backoffLimit=0)
    sim.settle()
    sim.edit_status(attempt=attempt)
    sim.settle()
    sim.later(120)
    sim.settle()
    assert sim.status["failure"]["reason"] == "StartDeadlineExceeded" and not sim.status.get("completionTime")
    sim.later(40)
    sim.settle()
    assert sim.status["attempt"] == attempt + 1 and sim.head.attempt == attempt + 1


@pytest.mark.parametrize("scaling", [{"numWorkers": 2}, {"minWorkers": 1, "maxWorkers": 2}])
def test_no_start_deadline_ends_an_attempt_whose_reports_cannot_arrive(scaling: dict[str, int]) -> None:
    """Its pods run, and so may its training: a moved label, another certificate or a NetworkPolicy is no failure."""
    sim = Simulation(startDeadlineSeconds=600, scaling=scaling)
    sim.settle()
    sim.start_pods()
    sim.settle()
    assert sim.last.wake_at == NOW + timedelta(seconds=120)
    uids = {pod.uid for pod in sim.pods.values()}
    for _ in range(24 * 6):
        sim.later(600)
        sim.settle()
        assert sim.last.wake_at is None, "a time that is past would begin passes without a pause"
    assert {pod.uid for pod in sim.pods.values()} == uids
    assert (sim.status["attempt"], sim.status["phase"]) == (1, "Starting")
    [condition] = [each for each in sim.status["conditions"] if each["type"] == "Reconciling"]
    assert condition["reason"] == "ReportsMissing" and sim.head.name in condition["message"]
    assert sim.events.count("ReportsMissing") == 1
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_the_start_deadline_ends_an_attempt_that_reports_that_it_does_not_train_yet() -> None:
    sim = Simulation(startDeadlineSeconds=600)
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.report("STARTING")
    sim.later(600)
    sim.reconcile()
    assert sim.status["failure"]["reason"] == "StartDeadlineExceeded"


def wait_until_released(sim: Simulation, *, limit: int = 900) -> float:
    """Follow `wake_at` until no pod is left; returns the seconds."""
    began = sim.now
    while sim.pods and sim.now - began < timedelta(seconds=limit):
        sim.settle()
        if sim.pods:
            assert sim.last.wake_at is not None and sim.last.wake_at > sim.now
            sim.now = sim.last.wake_at
    return (sim.now - began).total_seconds()


def test_all_pods_are_released_after_the_hold_time_and_the_next_attempt_follows() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    assert len(sim.pods) == 2
    assert wait_until_released(sim) == HOLD_SECONDS
    failure = sim.status["failure"]
    assert (failure["class"], failure["reason"], failure["attempt"]) == ("Startup", "QuotaExceeded", 1)
    assert failure["message"].endswith(f"{QUOTA}; the 2 pods that exist were released after 30 s")
    assert sim.status["phase"] == "Restarting"
    sim.rejects = lambda body: ""
    sim.later(10)
    sim.settle()
    assert sim.status["attempt"] == 2 and len(sim.pods) == 3
    assert sim.losses == {"startup": 1} and not any(sim.status.get("restarts", {}).values())
    sim.run_until_training()
    assert sim.status["phase"] == "Running"


def test_the_next_attempts_back_off_and_hold_their_pods_no_longer() -> None:
    sim = Simulation(rejects=reject_slot(1))
    waits = []
    for attempt in range(1, 11):
        sim.settle()
        assert sim.status["attempt"] == attempt
        assert wait_until_released(sim) == HOLD_SECONDS
        sim.settle()
        assert sim.last.wake_at is not None
        waits.append((sim.last.wake_at - sim.now).total_seconds())
        sim.now = sim.last.wake_at.replace(microsecond=0) + timedelta(seconds=1)
    limits = [10, 20, 40, 80, 160, 320, 600, 600, 600, 600]
    assert all(limit / 2 - 1 <= wait <= limit for wait, limit in zip(waits, limits, strict=True)), waits
    assert sim.status["phase"] == "Restarting", "no budget ends it"


def test_a_group_that_trained_meanwhile_waits_as_after_the_first_time() -> None:
    sim = Simulation(rejects=reject_slot(1))
    for _ in range(5):
        sim.settle()
        assert wait_until_released(sim) == HOLD_SECONDS
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = lambda body: ""
    sim.run_until_training()
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == HOLD_SECONDS
    sim.settle()
    assert sim.last.wake_at is not None and (sim.last.wake_at - sim.now).total_seconds() <= 10


def test_a_driver_that_has_reported_does_not_prevent_the_release() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    sim.start_pods()
    sim.report("STARTING")
    assert wait_until_released(sim) == HOLD_SECONDS
    assert sim.status["failure"]["class"] == "Startup"


def test_a_group_whose_replacement_is_rejected_resumes_from_its_checkpoint_later() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.later(3600)
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == HOLD_SECONDS
    assert sim.losses["infrastructure"] == 1
    sim.rejects = lambda body: ""
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.losses["startup"] == 1
    assert sim.losses["infrastructure"] == 1 and sim.status["restarts"]["withoutProgress"] == 0


def test_a_short_rejection_after_a_long_wait_for_nodes_releases_nothing() -> None:
    """An hour without training is no reason: only the rejection counts."""
    sim = Simulation()
    sim.settle()
    sim.later(3600)
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    sim.settle()
    assert len(sim.pods) == 2 and sim.last.wake_at is not None
    sim.rejects = lambda body: ""
    sim.now = sim.last.wake_at
    sim.settle()
    assert (sim.status["attempt"], len(sim.pods)) == (1, 3)


def test_the_hold_time_counts_from_the_first_pod() -> None:
    sim = Simulation(rejects=lambda body: QUOTA)
    for _ in range(20):
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = reject_slot(1)
    sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 2
    assert wait_until_released(sim) == HOLD_SECONDS, "counted from the first pod"


def test_an_elastic_job_with_enough_pods_keeps_them() -> None:
    sim = Simulation(scaling={"minWorkers": 1, "maxWorkers": 2}, rejects=reject_slot(1))
    sim.settle()
    for _ in range(10):
        sim.later(60)
        sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 2


@pytest.mark.parametrize("message", NOT_A_QUOTA)
def test_a_group_that_was_complete_survives_nine_minutes_in_which_its_replacement_is_denied(message: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.rejects = reject_slot(1, message)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    kept = {pod.uid for pod in sim.pods.values()}
    began = sim.now
    while sim.now - began < timedelta(minutes=9):
        sim.settle()
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
    sim.rejects = lambda body: ""
    sim.later(10)
    sim.settle()
    assert sim.status["attempt"] == 1 and len(sim.pods) == 3
    assert kept < {pod.uid for pod in sim.pods.values()}


@pytest.mark.parametrize("message", NOT_A_QUOTA)
def test_a_group_whose_replacement_is_denied_for_ten_minutes_is_released(message: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.rejects = reject_slot(1, message)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    assert wait_until_released(sim) == OUTAGE_SECONDS
    assert sim.status["failure"]["message"].endswith("were released after 600 s")


def test_a_group_that_was_never_complete_is_not_kept_for_a_webhook() -> None:
    sim = Simulation(rejects=reject_slot(1, NOT_A_QUOTA[0]))
    sim.settle()
    assert wait_until_released(sim) == HOLD_SECONDS
