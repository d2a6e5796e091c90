"""A job from start to end in the simulation: what the operator writes, creates and counts."""

from __future__ import annotations

import pytest

from railhead.contract.report import Steps
from railhead.contract.times import format_time
from tests.unit.builders import NOW, RUNNING_STATUS, is_empty
from tests.unit.planning.simulation import Simulation, env_of, known_checkpoints
from tests.unit.planning.state import decide


def test_a_clean_run_costs_no_more_writes_than_needed() -> None:
    sim = Simulation(scaling={"numWorkers": 3})
    sim.settle()
    assert sim.status["phase"] == "Pending"
    sim.start_pods()
    sim.settle()
    assert sim.status["phase"] == "Starting"
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"
    sim.report(checkpoint=0)
    sim.settle()
    for index in range(1, 5):
        sim.report(checkpoint=index)
        assert is_empty(sim.reconcile())
    sim.end_head("Succeeded", checkpoint={"uri": "/runs/c5", "index": 5, "time": "", "metrics": {}})
    sim.settle()
    assert sim.status["phase"] == "Succeeded"
    assert sim.status["checkpoint"]["index"] == 5
    assert sim.check_condition("Complete") and not sim.check_condition("Running")
    assert [p.role for p in sim.pods.values()] == ["head"]
    assert sim.count_created("pods") == 4
    assert sim.count_created("services", "secrets", "configmaps") == 4
    assert sim.count_status_writes() <= 5
    assert sim.events == ["Started", "CheckpointCommitted", "CheckpointCommitted", "Succeeded"]


def test_the_next_attempt_receives_the_best_checkpoint_until_the_driver_reports_none() -> None:
    sim = Simulation()
    sim.run_until_training()
    best = {"uri": "/runs/c1", "index": 1, "time": "2026-01-01T00:00:00Z", "metrics": {"loss": "0.1"}, "attempt": 1}
    last = {"uri": "/runs/c2", "index": 2, "time": "2026-01-01T00:00:01Z", "metrics": {}}
    sim.report(run_uri="/runs")
    sim.end_head("Infrastructure", checkpoint=last, best_checkpoint=best)
    sim.settle()
    assert sim.status["bestCheckpoint"] == best
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2
    assert known_checkpoints(sim.bodies[sim.head.name]) == [
        {"name": "c1", "run": "runs", "folder": "", "index": 1, "time": "2026-01-01T00:00:00Z", "attempt": 1},
        {"name": "c2", "run": "runs", "folder": "", "index": 2, "time": "2026-01-01T00:00:01Z", "attempt": 1},
    ]
    sim.run_until_training()
    sim.end_head("Succeeded", best_checkpoint={})
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and "bestCheckpoint" not in sim.status


def test_a_head_whose_container_ended_before_its_pod_keeps_its_log() -> None:
    """The kubelet reports the container's end a second before the pod's phase."""
    sim = Simulation()
    sim.run_until_training()
    head = sim.head.name
    sim.end_head("Succeeded", phase="Running")
    sim.settle()
    assert sim.status["phase"] == "Succeeded"
    assert list(sim.pods) == [head]
    sim.set_phase(head, "Succeeded")
    sim.later(3600)
    sim.settle()
    assert list(sim.pods) == [head]


def test_a_sidecar_does_not_keep_the_head_of_a_finished_job_forever() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Succeeded", phase="Running")
    sim.settle()
    assert sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert not sim.pods


def test_a_sidecar_does_not_hide_the_end_of_the_training_container() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=0)
    sim.end_head("Infrastructure", phase="Running")
    sim.settle()
    assert sim.status["failure"]["class"] == "Infrastructure"
    assert sim.status["attempt"] == 1
    assert sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert sim.status["attempt"] == 2
    lost = next(name for name, pod in sim.pods.items() if pod.slot == 0)
    sim.run_until_training()
    log = "Traceback\nRuntimeError: the node timed out\n\n"
    sim.end_pod(lost, "Infrastructure", raw=log, code=1, phase="Running")
    sim.settle()
    assert sim.status["round"] == 1
    [message] = [c["message"] for c in sim.status["conditions"] if c["type"] == "Reconciling"]
    assert f"{lost} (exit code 1: RuntimeError: the node timed out)" in message


def test_only_the_driver_can_report_success() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_head("Succeeded", raw="")
    sim.reconcile()
    assert sim.status["phase"] == "Restarting"
    assert sim.status["failure"]["reason"] == "NoFinalReport"


def test_an_application_error_is_retried_from_the_checkpoint_until_the_budget_is_spent() -> None:
    sim = Simulation(backoffLimit=2)
    for attempt in (1, 2):
        sim.run_until_training()
        sim.report(checkpoint=attempt)
        sim.end_head("Application", message="ValueError: no")
        sim.reconcile()
        assert sim.status["phase"] == "Restarting"
        assert sim.status["attempt"] == attempt
        sim.reconcile()
        assert sim.last.wake_at is not None and sim.last.wake_at > sim.now
        sim.later(3600)
        sim.reconcile()
        assert sim.status["attempt"] == attempt + 1
        assert sim.status["restarts"] == {
            "application": attempt,
            "withoutProgress": 0,
            "disruptions": 0,
        }
        assert env_of(sim.bodies[sim.heads[-1]])["RAILHEAD_CHECKPOINT_INDEX"] == str(attempt)
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.end_head("Application", message="ValueError: no")
    sim.settle()
    assert sim.status["phase"] == "Failed"
    assert sim.check_condition("Failed") and sim.check_condition("Stalled")
    assert "ValueError: no" in sim.status["failure"]["message"]
    assert [p.role for p in sim.pods.values()] == ["head"], (
        "the failed head stays for its logs, the workers are deleted"
    )


def test_a_fenced_attempt_spends_no_budget() -> None:
    """As when the job's status was restored from a backup: the run's storage has later attempts."""
    sim = Simulation(backoffLimit=0)
    for attempt in (1, 2, 3):
        sim.run_until_training()
        sim.end_head("Fenced", message="attempt 4 has taken over the run")
        sim.reconcile()
        assert (sim.status["phase"], sim.status["failure"]["class"]) == ("Restarting", "Fenced")
        sim.later(60)
        sim.reconcile()
        assert sim.status["attempt"] == attempt + 1
    assert not any(sim.status.get("restarts", {}).values())


def test_a_configuration_error_fails_at_once() -> None:
    sim = Simulation()
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.end_head("Configuration", message="spec.trainer.trainFunc: no module named nowhere")
    sim.settle()
    assert sim.status["phase"] == "Failed"
    assert sim.status["failure"]["class"] == "Configuration"
    assert sim.status["attempt"] == 1


def find_messages(sim: Simulation, reason: str) -> list[str]:
    """Of the events with this reason, in order."""
    events = (entry.object for entry in sim.api.log if entry.plural == "events" and entry.type == "ADDED")
    return [event["message"] for event in events if event["reason"] == reason]


def test_the_event_of_a_restart_names_the_checkpoint_resumed_from() -> None:
    """It may be older than the one in the status."""
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=7)
    sim.lose(sim.head.name)
    sim.settle()
    sim.start_pods()
    sim.settle()
    sim.report(resumed_from="/runs/c6")
    sim.settle()
    assert find_messages(sim, "AttemptStarted") == ["Starting attempt 2; the newest known checkpoint is 7"]
    assert find_messages(sim, "Started") == [
        "Training runs on 2 worker pods (attempt 1)",
        "Training runs on 2 worker pods (attempt 2), resumed from /runs/c6",
    ]


def test_a_lost_head_after_a_checkpoint_starts_a_new_attempt_at_once() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=0)
    sim.lose(sim.head.name)
    sim.settle()
    assert sim.status["attempt"] == 2
    assert sim.status["restarts"] == {"application": 0, "withoutProgress": 0, "disruptions": 1}
    assert sim.losses["infrastructure"] == 1
    assert len(sim.heads) == 2
    assert len(sim.pods) == 3


def test_attempts_that_commit_nothing_are_bounded() -> None:
    sim = Simulation(backoffLimit=5, noProgressLimit=1)
    sim.run_until_training()
    sim.end_head("Infrastructure")
    sim.reconcile()
    sim.later(3600)
    sim.settle()
    assert sim.status["attempt"] == 2
    sim.start_pods()
    sim.settle()
    sim.end_head("Hang")
    sim.settle()
    assert sim.status["phase"] == "Failed"
    assert "committed no checkpoint" in next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed")


def leave_head_stuck(sim: Simulation, *, gone_in: float) -> str:
    """The head of a training job, deleted by the control plane because its node is unreachable."""
    sim.run_until_training()
    sim.report(checkpoint=0)
    head = sim.head.name
    sim.evict(head, gone_in=gone_in)
    return head


def test_a_pod_that_does_not_terminate_delays_the_next_attempt_and_is_named() -> None:
    sim = Simulation()
    head = leave_head_stuck(sim, gone_in=65)
    sim.settle()
    sim.later(65)
    sim.settle()
    assert sim.status["phase"] == "Restarting" and sim.status["attempt"] == 1
    assert "WaitingForPods" not in sim.events
    sim.later(29)
    sim.settle()
    assert sim.status["attempt"] == 1, "its node may answer yet"
    sim.later(1)
    sim.settle()
    assert sim.status["attempt"] == 2 and len(sim.live_heads) == 1
    assert "PodsLeftBehind" in sim.events and head in sim.pods
    sim.run_until_training()
    assert sim.status["phase"] == "Running", "nothing waits for it anymore"
    sim.stuck.clear()
    sim.lose(head)
    assert is_empty(sim.reconcile())


def test_a_pod_with_an_unreadable_deletion_time_is_named_and_blocks_the_next_attempt() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=0)
    head = sim.head.name
    pod = sim.bodies[head]
    sim.stuck.add(head)
    sim.api.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "?"}})  # for an unknown time
    sim.settle()
    sim.later(60)
    sim.settle()
    assert sim.events.count("WaitingForPods") == 1
    [message] = [c["message"] for c in sim.status["conditions"] if c["type"] == "Reconciling"]
    assert f"{head} on node node-1" in message
    sim.later(3600)
    assert is_empty(sim.reconcile()) and sim.status["attempt"] == 1


def test_an_attempt_that_only_waits_for_its_time_says_nothing_of_pods_any_more() -> None:
    failure = {"class": "Startup", "reason": "QuotaExceeded", "message": "no quota", "attempt": 1}
    waiting = {
        "type": "Reconciling",
        "status": "True",
        "reason": "WaitingForPods",
        "message": "Attempt 2 waits for 1 pods",
    }
    status = {**RUNNING_STATUS, "phase": "Restarting", "failure": {**failure, "time": format_time(NOW)}}
    wanted = decide(status={**status, "conditions": [waiting]})
    assert wanted.status is not None and wanted.wake_at is not None and not wanted.creates
    [shown] = [each for each in wanted.status.fields["conditions"] if each["type"] == "Reconciling"]
    assert shown["reason"] == "Restarting" and f"at {format_time(wanted.wake_at)} or later" in shown["message"]
    again = decide(status={**status, "conditions": wanted.status.fields["conditions"]})
    assert is_empty(again) and again.wake_at == wanted.wake_at


def test_a_worker_on_a_dead_node_delays_nothing() -> None:
    sim = Simulation()
    sim.run_until_training()
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.evict(worker, gone_in=35)
    sim.settle()
    assert sim.status["round"] == 1 and len(sim.pods) == 4
    sim.run_until_training()
    sim.report(checkpoint=0)
    sim.later(3600)
    sim.lose(sim.head.name)
    sim.settle()
    assert sim.status["attempt"] == 2 and worker in sim.pods
    sim.run_until_training()
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and list(sim.pods) == [worker]
    sim.apply()
    sim.settle()
    assert sim.status["attempt"] == 3


def test_a_lost_worker_is_replaced_in_the_same_attempt_under_a_new_name() -> None:
    sim = Simulation()
    sim.run_until_training()
    lost = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.lose(lost)
    sim.settle()
    assert sim.status["attempt"] == 1
    assert sim.status["round"] == 1
    assert sim.losses["infrastructure"] == 1
    assert lost not in sim.pods
    [message] = find_messages(sim, "WorkerReplaced")
    assert f"{lost.removesuffix('0')}* (gone without a trace)" in message, "the slot is known, the round is not"
    assert any(pod.slot == 1 and pod.round == 1 for pod in sim.pods.values())
    sim.start_pods()
    sim.report("RUNNING")
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.count_created("pods") == 4


def test_uncreated_pods_are_created_under_the_same_names() -> None:
    sim = Simulation()
    sim.reconcile()
    names = set(sim.pods)
    for name in names:  # as if the operator had been killed after the status write
        sim.lose(name)
    sim.settle()
    assert set(sim.pods) == names
    assert sim.status["round"] == 0 and sim.status["attempt"] == 1


def test_a_job_managed_by_another_controller_is_left_alone() -> None:
    sim = Simulation(managedBy="example.com/other")
    assert is_empty(sim.reconcile())


STEPS = Steps(step=30, total=100, percent=30, remaining_seconds=700)


def test_a_success_whose_last_report_is_missing_is_all_done() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(steps=STEPS)
    sim.end_head("Succeeded")
    sim.settle()
    progress = sim.status["progress"]
    assert (sim.status["phase"], progress["state"], progress["step"]) == ("Succeeded", "FINISHED", 30)
    assert (progress["percentComplete"], progress["estimatedRemainingSeconds"], progress["remaining"]) == (100, 0, "0s")


@pytest.mark.parametrize("limit", [0, 1])
def test_what_remains_of_a_lost_attempt_is_not_known(limit: int) -> None:
    sim = Simulation(backoffLimit=limit)
    sim.run_until_training()
    sim.report(steps=STEPS)
    sim.settle()
    assert sim.status["progress"]["remaining"] == "11m"
    sim.end_head("Application")
    sim.settle()
    assert sim.status["phase"] == ("Restarting" if limit else "Failed")
    assert sim.status["progress"]["percentComplete"] == 30
    assert sim.status["progress"].keys().isdisjoint({"remaining", "estimatedRemainingSeconds"})
