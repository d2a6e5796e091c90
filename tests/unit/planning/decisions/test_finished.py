"""How a job finishes, by the head's termination message, or by the driver's last report if the head vanished; and what
spec.keepPodsSeconds and spec.ttlSecondsAfterFinished delete after its end, and when.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.failure import SUCCEEDED_CODE
from railhead.contract.times import parse_time
from railhead.controller.executor import LostCompare
from railhead.planning.plan import DeleteJob, Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from railhead.resources.base import JobNetworkPolicy
from tests.unit.builders import NOW, RUNNING_STATUS, ended, is_empty, make_head, make_worker
from tests.unit.planning.simulation import JOB, Simulation
from tests.unit.planning.state import decide

WORKERS = (make_worker(0), make_worker(1))
KILLED = make_head(phase="Failed", is_running=False, exit_code=137, reason="Error")
OVERDUE = make_head(is_deleting=True, deletion_timestamp=NOW - timedelta(seconds=6))
CODE = {"kind": "ConfigMap", "metadata": {"namespace": "default", "name": "code"}, "data": {"train.py": ""}}


def after_report(outcome: str, *, attempt: int = 1, message: str = "") -> dict[str, Any]:
    """The status with the driver's last report."""
    reported = {"outcome": outcome, "reason": outcome, "message": message}
    progress = {"attempt": attempt, "state": "FINISHED", "reports": 3, "metrics": {"loss": "0.1"}, "outcome": reported}
    return {**RUNNING_STATUS, "progress": progress}


def find_phase(*pods: PodView, status: dict[str, Any]) -> str | None:
    wanted = decide(*pods, *WORKERS, status=status)
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


def test_a_state_of_ray_train_before_the_last_report_becomes_100_percent() -> None:
    known = after_report("Succeeded")["progress"]
    wanted = decide(*WORKERS, status=after_report("Succeeded"))
    assert wanted.status is not None
    all_done = {"percentComplete": 100, "estimatedRemainingSeconds": 0, "remaining": "0s"}
    shown = wanted.status.fields["progress"]
    assert shown["reports"] == known["reports"] and all_done.items() <= shown.items()


def test_the_last_report_stays_in_the_status() -> None:
    status = after_report("Succeeded")
    status["progress"] |= {"percentComplete": 100, "estimatedRemainingSeconds": 0, "remaining": "0s"}
    wanted = decide(*WORKERS, status=status)
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
    wanted = decide(make_worker(0, 2), make_worker(1, 2), status=status)
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == "PodGone"


def test_exit_code_and_message_must_agree_without_a_report() -> None:
    assert find_phase(ended(make_head(), "Succeeded"), status=RUNNING_STATUS) == "Succeeded"
    assert find_phase(ended(make_head(), "Succeeded", exit_code=137), status=RUNNING_STATUS) != "Succeeded"
    assert find_phase(ended(make_head(), "Application", exit_code=SUCCEEDED_CODE), status=RUNNING_STATUS) != "Succeeded"


@pytest.mark.parametrize("heads", [(), (KILLED,)], ids=["gone", "killed before it exited"])
def test_a_reported_failure_keeps_its_class_when_the_head_vanishes(heads: tuple[PodView, ...]) -> None:
    wanted = decide(*heads, *WORKERS, status=after_report("Application", message="ValueError: no rails"))
    assert wanted.status is not None
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["message"]) == ("Application", "ValueError: no rails")


def test_a_report_without_an_outcome_is_no_success() -> None:
    status = after_report("Succeeded")
    del status["progress"]["outcome"]
    wanted = decide(*WORKERS, status=status)
    assert wanted.status is not None and wanted.status.fields["failure"]["reason"] == "PodGone"


def finished(outcome: str = "Succeeded", **spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.api.put(CODE)
    sim.run_until_training()
    sim.end_head(outcome)
    sim.settle()
    return sim


def clean(sim: Simulation) -> Plan:
    """One pass that ends with its last write."""
    wanted = sim.reconcile()
    assert wanted.last is not None
    return wanted


@pytest.mark.parametrize("outcome", ["Succeeded", "Configuration"])
def test_the_children_are_removed_by_one_wake_up_when_the_time_is_over(outcome: str) -> None:
    sim = finished(outcome, keepPodsSeconds=3600)
    ended = parse_time(sim.status["completionTime"])
    assert ended is not None
    assert sim.reconcile() == Plan(wake_at=ended + timedelta(hours=1))
    sim.now = ended + timedelta(seconds=3599)
    assert is_empty(sim.reconcile())
    sim.later(1)
    before = dict(sim.status)
    wanted = clean(sim)
    assert not sim.pods
    policy = names.network_policy_name("digits", sim.observe().uid)
    assert {(r.kind, r.name) for r in wanted.removes} == {
        ("ConfigMap", sim.status["input"]),
        ("NetworkPolicy", policy),
    }, "the Secret goes with the input"
    assert wanted.status is None and not wanted.events
    assert {key for key in sim.status if sim.status[key] != before.get(key)} == {"cleanUpTime"}
    assert sim.reconcile() == Plan(), "only once"
    assert plan(replace(sim.observe(), generation=7)).status is not None, "a later change is acknowledged"


def test_by_default_the_head_pod_is_kept_for_a_day_and_the_job_forever() -> None:
    sim = finished()
    ended = parse_time(sim.status["completionTime"])
    assert ended is not None
    sim.now = ended + timedelta(hours=24, seconds=-1)
    assert is_empty(sim.reconcile()) and len(sim.pods) == 1
    sim.later(1)
    clean(sim)
    sim.later(10**8)
    assert sim.reconcile() == Plan() and not sim.pods


@pytest.mark.parametrize("outcome", ["Succeeded", "Configuration"])
@pytest.mark.parametrize("kept", [600, 3600, 7200])
def test_the_job_is_deleted_after_its_ttl_with_its_children(outcome: str, kept: int) -> None:
    sim = finished(outcome, ttlSecondsAfterFinished=3600, keepPodsSeconds=kept)
    ended = parse_time(sim.status["completionTime"])
    assert ended is not None
    sim.now = ended + timedelta(seconds=3599)
    wanted = sim.reconcile()
    assert (wanted.last is not None) == (kept == 600) and wanted.delete_job is None
    assert sim.reconcile().wake_at == ended + timedelta(hours=1)
    sim.later(1)
    job = sim.observe()
    assert replace(sim.reconcile(), wake_at=None) == Plan(delete_job=DeleteJob(job.uid, job.version))
    assert JOB not in sim.api.objects
    while sim.api.collect():
        pass  # the Secret goes after its owner
    assert not [place for place, obj in sim.api.objects.items() if obj["metadata"].get("ownerReferences")]


def test_a_slow_node_clock_does_not_shorten_the_times() -> None:
    sim = Simulation(ttlSecondsAfterFinished=3600, keepPodsSeconds=1800)
    sim.run_until_training()
    head, now = sim.head.name, sim.now
    sim.now = now - timedelta(days=2)
    sim.end_pod(head, "Succeeded")
    sim.now = now
    sim.settle()
    assert sim.reconcile() == Plan(wake_at=now + timedelta(minutes=30))


def test_a_suspended_or_restarting_job_has_no_ttl() -> None:
    sim = Simulation(ttlSecondsAfterFinished=0, suspend=True)
    sim.settle()
    sim.later(10**7)
    assert sim.reconcile() == Plan() and sim.status["phase"] == "Suspended"


def test_an_expired_ttl_that_is_set_later_deletes_the_job_without_a_status_write() -> None:
    sim = finished()
    sim.later(7200)
    sim.apply(ttlSecondsAfterFinished=3600)
    wanted = sim.reconcile()
    assert wanted.status is None, "a write would change the version that the delete names"
    assert JOB not in sim.api.objects


def test_a_job_stays_if_its_ttl_is_extended_meanwhile() -> None:
    sim = finished(ttlSecondsAfterFinished=3600)
    sim.later(3600)
    wanted = plan(sim.observe())
    sim.apply(ttlSecondsAfterFinished=7200)
    with pytest.raises(LostCompare):
        asyncio.run(sim.execute(wanted))
    assert JOB in sim.api.objects


def test_a_restarting_job_is_neither_cleaned_up_nor_deleted() -> None:
    sim = Simulation(keepPodsSeconds=0, ttlSecondsAfterFinished=0)
    sim.run_until_training()
    sim.end_head("Application")
    sim.settle()
    assert sim.status["phase"] == "Restarting"
    sim.later(3600)
    sim.settle()
    assert sim.status["attempt"] == 2
    assert "cleanUpTime" not in sim.status


@pytest.mark.parametrize("policy", [JobNetworkPolicy(), None])
def test_a_time_set_later_applies_and_copies_and_policies_are_removed_too(policy: JobNetworkPolicy | None) -> None:
    """Policies even with `--no-job-network-policies`: an earlier operator may have created them."""
    sim = finished(source={"configMap": {"name": "code"}})
    sim.later(7200)
    sim.apply(source={"configMap": {"name": "code"}}, keepPodsSeconds=3600)
    observed = sim.observe()
    settings = replace(observed.settings, job_network_policy=policy)
    wanted = plan(replace(observed, settings=settings))
    assert [r.kind for r in wanted.removes] == ["ConfigMap", "ConfigMap", "NetworkPolicy"]


def test_clean_up_waits_for_a_driver_that_ends_for_a_deadline() -> None:
    sim = Simulation(activeDeadlineSeconds=600, keepPodsSeconds=0)
    sim.run_until_training()
    sim.later(600)
    head = sim.head
    sim.stuck.add(head.name)
    sim.settle()
    assert sim.status["phase"] == "Failed"
    gone_by = sim.pods[head.name].gone_by
    assert gone_by is not None and gone_by > sim.now
    wanted = sim.reconcile()
    assert wanted.last is None and len(sim.pods) == 3, "its workers are needed for one more checkpoint"
    sim.now = gone_by
    assert clean(sim).removes


def test_the_checkpoint_of_a_terminated_head_is_written_before_the_job_is_deleted() -> None:
    """So that watchers of the job and the audit log have it in the last version."""
    sim = Simulation(activeDeadlineSeconds=600, ttlSecondsAfterFinished=0)
    sim.run_until_training()
    sim.later(600)
    head = sim.head.name
    sim.stuck.add(head)
    sim.settle()
    assert JOB in sim.api.objects, "its workers are needed for one more checkpoint"
    last = {"uri": "/runs/c7", "index": 7, "time": "2026-01-01T12:00:00Z"}
    sim.end_pod(head, "Preemption", checkpoint=last)
    wanted = sim.reconcile()
    assert wanted.delete_job is None and sim.status["checkpoint"]["index"] == 7
    assert sim.reconcile().delete_job is not None
