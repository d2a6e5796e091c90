"""What a job may spend: spec.backoffLimit is the one budget of failures and refills after enough training with a newer
checkpoint; disruptions spend nothing of it and only spec.disruptionLimit bounds them; a job that always fails ends.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time
from railhead.planning.facts.settlement import Settlement
from railhead.planning.plan import Plan
from railhead.planning.pod_view import PodView, Problem
from tests.unit.builders import NOW, RUNNING_STATUS, ended, make_attempt, make_head, make_job, make_spec, make_worker
from tests.unit.planning.simulation import Simulation
from tests.unit.planning.state import decide

BY_KUBELET = Problem("TerminationByKubelet", "The node was low on resource: memory.")
PREEMPTED = Problem("PreemptionByScheduler", "preempting to accommodate a higher priority pod")
NO_BUDGET: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0}
HOUR = 3600


def fail(sim: Simulation, outcome: str = "Application") -> None:
    """The attempt ends; the next one starts if the budget allows it."""
    sim.end_head(outcome)
    sim.settle()
    sim.later(301)
    sim.settle()


def train(sim: Simulation, *, hours: float, checkpoint: int | None = None) -> None:
    sim.run_until_training()
    sim.later(hours * HOUR)
    if checkpoint is not None:
        sim.report(checkpoint=checkpoint)
    sim.settle()


def end_by_rule(sim: Simulation, class_: str = "Application") -> None:
    """A rule of spec.metricPolicy ends the attempt; the next one starts if it may."""
    sim.end_with(Outcome(outcome=class_, reason="MetricRule", message="rule nan: loss is NaN at step 3"))
    sim.settle()
    sim.later(301)
    sim.settle()


def test_a_metric_rule_that_ends_the_job_leaves_no_other_attempt() -> None:
    sim = Simulation(backoffLimit=9)
    train(sim, hours=1, checkpoint=0)
    end_by_rule(sim, "MetricRule")
    assert sim.status["phase"] == "Failed" and "restarts" not in sim.status
    failure = sim.status["failure"]
    assert (failure["class"], failure["reason"]) == ("MetricRule", "MetricRule")
    assert "rule nan: loss is NaN at step 3" in find_failed(sim)


def test_a_metric_rule_that_ends_two_attempts_in_a_row_without_a_checkpoint_ends_the_job() -> None:
    sim = Simulation(backoffLimit=9)
    for number in range(3):
        train(sim, hours=1, checkpoint=number)
        end_by_rule(sim)
        assert (sim.status["attempt"], sim.status["restarts"]["application"]) == (number + 2, number + 1)
    train(sim, hours=1)
    end_by_rule(sim)
    assert sim.status["phase"] == "Failed" and sim.status["attempt"] == 4
    assert "the attempt before it ended alike, and this one committed no checkpoint" in find_failed(sim)


def test_another_failure_in_between_and_a_rule_of_the_failure_policy_leave_it_another_attempt() -> None:
    sim = Simulation(backoffLimit=9)
    for end in (end_by_rule, fail, end_by_rule):
        train(sim, hours=1)
        end(sim)
    assert sim.status["attempt"] == 4
    sim = Simulation(
        backoffLimit=9, failurePolicy={"rules": [{"action": "RestartAndIgnore", "onReason": ["MetricRule"]}]}
    )
    for _ in range(3):
        train(sim, hours=1)
        end_by_rule(sim)
        assert sim.status["phase"] != "Failed"
    assert sim.status["attempt"] == 4 and "restarts" not in sim.status


def find_failed(sim: Simulation) -> str:
    return str(next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed"))


def test_the_budget_refills_after_enough_training_with_a_newer_checkpoint() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    assert sim.status["budget"] == {"runningSeconds": 0, "checkpoint": 0}
    train(sim, hours=6, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] != "Failed" and sim.status["attempt"] == 3
    assert sim.status["budget"] == {"runningSeconds": 0, "checkpoint": 1}
    assert sim.status["restarts"]["application"] == 1, "full again, then one"


def test_training_alone_does_not_refill_the_budget() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    train(sim, hours=7)
    fail(sim)
    assert sim.status["phase"] == "Failed"


def test_a_checkpoint_alone_does_not_refill_the_budget() -> None:
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    train(sim, hours=5.9, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] == "Failed"
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed")
    assert "backoffLimit 1 is reached" in message


def test_training_time_adds_up_and_waiting_does_not_count() -> None:
    """Daily losses of nodes: no single stretch is long enough."""
    sim = Simulation(backoffLimit=1, backoffResetSeconds=6 * HOUR, partialStartDeadlineSeconds=0)
    train(sim, hours=1, checkpoint=0)
    fail(sim)
    for stretch in (1, 2):
        train(sim, hours=2)
        worker = next(name for name, pod in sim.pods.items() if pod.slot == 1 and pod.is_live)
        sim.lose(worker)
        sim.settle()
        assert sim.status["budget"]["runningSeconds"] == stretch * 2 * HOUR
        sim.later(10 * HOUR)  # until there is a node again
        sim.settle()
    assert sim.status["budget"]["runningSeconds"] == 4 * HOUR
    train(sim, hours=2, checkpoint=1)
    fail(sim)
    assert sim.status["phase"] != "Failed"
    assert sim.status["budget"] == {"runningSeconds": 0, "checkpoint": 1}


def test_the_backoff_resets_with_the_budget() -> None:
    sim = Simulation(backoffLimit=10)
    delays = []
    for hours, checkpoint in ((1, 0), (1, 1), (1, 2), (7, 3)):
        train(sim, hours=hours, checkpoint=checkpoint)
        sim.end_head("Application")
        sim.settle()
        assert sim.last.wake_at is not None
        delays.append(round((sim.last.wake_at - sim.now).total_seconds()))
        sim.later(301)
        sim.settle()
    assert delays == [5, 10, 20, 5]


def test_application_failures_do_not_count_as_attempts_without_progress() -> None:
    sim = Simulation(backoffLimit=5, noProgressLimit=0)
    for _ in range(3):
        sim.run_until_training()
        fail(sim)
    assert sim.status["phase"] != "Failed"
    assert sim.status["restarts"] == {
        "application": 3,
        "withoutProgress": 0,
        "disruptions": 0,
    }
    sim.run_until_training()
    fail(sim, "Infrastructure")
    assert sim.status["phase"] == "Failed"
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Failed")
    assert "1 attempts in a row committed no checkpoint (noProgressLimit 0)" in message


def lose_head_in_training(sim: Simulation) -> None:
    """The head is killed before the attempt has committed anything, and the next attempt trains."""
    sim.end_pod(sim.head.name, "", raw="", code=137)
    sim.settle()
    sim.later(301)
    sim.run_until_training()


def test_a_checkpoint_before_a_suspension_ends_the_row_of_attempts_without_progress() -> None:
    sim = Simulation(backoffLimit=0, noProgressLimit=2)
    sim.run_until_training()
    for _ in range(2):
        lose_head_in_training(sim)
    assert sim.status["restarts"]["withoutProgress"] == 2
    sim.report(checkpoint=1)
    sim.apply(backoffLimit=0, noProgressLimit=2, suspend=True)
    sim.settle()
    sim.apply(backoffLimit=0, noProgressLimit=2)
    sim.run_until_training()
    assert sim.status["restarts"]["withoutProgress"] == 0
    for _ in range(2):
        lose_head_in_training(sim)
    assert (sim.status["phase"], sim.status["restarts"]["withoutProgress"]) == ("Running", 2)


@pytest.mark.parametrize(("class_", "counter"), [("Application", "application"), ("Infrastructure", "withoutProgress")])
def test_a_failure_counts_although_a_suspension_interrupts_its_backoff(class_: str, counter: str) -> None:
    sim = Simulation()
    for number in (1, 2):
        sim.run_until_training()
        sim.end_head(class_)
        sim.reconcile()
        sim.apply(suspend=True)
        sim.settle()
        assert sim.status["phase"] == "Suspended"
        sim.apply()
        sim.settle()
        assert (sim.status["attempt"], sim.status["restarts"][counter]) == (number + 1, number)


def test_a_job_without_failures_has_no_budget_in_its_status() -> None:
    sim = Simulation()
    train(sim, hours=9, checkpoint=0)
    sim.lose(sim.head.name)
    sim.settle()
    assert "budget" not in sim.status


def lose_head(head: PodView, **status: Any) -> dict[str, Any]:
    """The failure that ends the attempt of this head; nothing was committed, and no budget is left."""
    wanted = decide(head, status={**RUNNING_STATUS, **status}, spec=make_spec(**NO_BUDGET))
    assert wanted.status is not None
    failure: dict[str, Any] = wanted.status.fields["failure"]
    return {**failure, "phase": wanted.status.fields["phase"]}


def killed(pod: PodView, disruption: Problem | None = None, **changes: Any) -> PodView:
    gone = replace(pod, phase="Failed", is_running=False, exit_code=137, disruption=disruption, finished_at=NOW)
    return replace(gone, **changes)


@pytest.mark.parametrize(
    ("reason", "class_"),
    [
        ("PreemptionByScheduler", "Preemption"),
        ("EvictionByEvictionAPI", "Preemption"),
        ("AddedLater", "Preemption"),
        ("DeletionByTaintManager", "Infrastructure"),
        ("DeletionByPodGC", "Infrastructure"),
        ("TerminationByKubelet", "Infrastructure"),
    ],
)
def test_the_clusters_reason_is_kept_and_no_budget_is_spent(reason: str, class_: str) -> None:
    of_pod = "Evicted" if reason == "TerminationByKubelet" else ""
    failure = lose_head(killed(make_head(), Problem(reason, "because of it"), reason=of_pod))
    assert (failure["class"], failure["reason"], failure["phase"]) == (class_, reason, "Restarting")
    assert failure["message"].endswith("was disrupted: because of it")


def test_a_driver_that_received_sigterm_adds_its_message_to_the_clusters_reason() -> None:
    failure = lose_head(replace(ended(make_head(), "Preemption", "its last checkpoint is 7"), disruption=PREEMPTED))
    assert (failure["class"], failure["reason"]) == ("Preemption", "PreemptionByScheduler")
    assert failure["message"].endswith("preempting to accommodate a higher priority pod; its last checkpoint is 7")


def test_an_error_of_train_func_before_a_disruption_stays_an_application_failure() -> None:
    failure = lose_head(replace(ended(make_head(), "Application"), disruption=PREEMPTED))
    assert (failure["class"], failure["phase"]) == ("Application", "Failed")


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (make_head(is_deleting=True), "PodDeleted"),
        (killed(make_head(), reason="NodeShutdown", message="node is shutting down"), "NodeShutdown"),
    ],
)
def test_deleted_pods_and_node_shutdowns_are_disruptions(head: PodView, reason: str) -> None:
    failure = lose_head(head)
    assert (failure["class"], failure["reason"], failure["phase"]) == ("Infrastructure", reason, "Restarting")


def test_a_head_that_is_killed_without_a_disruption_spends_the_budget() -> None:
    failure = lose_head(killed(make_head()))
    assert (failure["reason"], failure["phase"]) == ("Killed", "Failed")


def test_an_eviction_for_the_pods_own_limits_is_an_application_failure() -> None:
    """The kubelet sets the condition DisruptionTarget only when it evicts for the node."""
    message = 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi".'
    failure = lose_head(killed(make_head(), reason="Evicted", message=message))
    assert (failure["class"], failure["reason"], failure["phase"]) == ("Application", "Evicted", "Failed")
    assert message in failure["message"]


def evicted(times: int) -> dict[str, Any]:
    """The status of the attempt after those that the kubelet evicted."""
    end = {"class": "Infrastructure", "reason": "TerminationByKubelet", "completionTime": format_time(NOW)}
    listed = [make_attempt(number=number, **end) for number in range(1, times + 1)]
    return {"attempt": times + 1, "attempts": listed, "restarts": {"disruptions": times}}


@pytest.mark.parametrize(
    ("class_", "reason", "earlier", "delay"),
    [
        ("Preemption", "PreemptionByScheduler", ("Infrastructure", "PodDeleted"), 8),
        ("Infrastructure", "PodDeleted", ("Preemption", "PreemptionByScheduler"), 8),
        ("Preemption", "PreemptionByScheduler", ("Infrastructure", "Killed"), 2),  # which is no disruption
        ("Hardware", "GPUFailed", ("Hardware", "GPUFailed"), 8),
        ("Hardware", "GPUFailed", ("Application", "TrainFunctionRaised"), 2),
    ],
)
def test_the_delay_grows_with_the_attempts_that_were_lost_alike(
    class_: str, reason: str, earlier: tuple[str, str], delay: int
) -> None:
    """Disruptions of all kinds are alike, whatever row of attempts without progress another counter has."""
    end = {"class": earlier[0], "reason": earlier[1], "completionTime": format_time(NOW)}
    failure = {"class": class_, "reason": reason, "attempt": 3, "suspectNode": "node-9", "time": format_time(NOW)}
    listed = [make_attempt(number=number, **end) for number in (1, 2)]
    job = make_job(status={**RUNNING_STATUS, "attempt": 3, "attempts": listed, "failure": failure})
    assert job.status.failure is not None
    settlement = Settlement(job, job.status.failure, -1)
    assert settlement.next_attempt_at == NOW + timedelta(seconds=delay)


def test_the_third_termination_by_the_kubelet_in_a_row_is_an_application_failure() -> None:
    second = lose_head(killed(make_head(2), BY_KUBELET, reason="Evicted"), **evicted(1))
    assert (second["class"], second["phase"]) == ("Infrastructure", "Restarting")
    third = lose_head(killed(make_head(3), BY_KUBELET, reason="Evicted"), **evicted(2))
    assert (third["class"], third["reason"], third["phase"]) == ("Application", "TerminationByKubelet", "Failed")
    assert "(3 times in a row without a new checkpoint)" in third["message"]


def test_a_checkpoint_resets_the_count_of_terminations() -> None:
    committed = {"uri": "/runs/c7", "index": 7, "time": "t", "attempt": 2}
    failure = lose_head(
        killed(make_head(3), BY_KUBELET, reason="Evicted"),
        **evicted(2),
        checkpoint=committed,
    )
    assert (failure["class"], failure["phase"]) == ("Infrastructure", "Restarting")


def lose_worker(worker: PodView, *, limit: int | None = None, **status: Any) -> Plan:
    spec = make_spec(**NO_BUDGET, **({} if limit is None else {"disruptionLimit": limit}))
    return decide(make_head(), make_worker(0), worker, status={**RUNNING_STATUS, **status}, spec=spec)


def fields_of(wanted: Plan) -> dict[str, Any]:
    assert wanted.status is not None, wanted
    return dict(wanted.status.fields)


def test_a_worker_pod_lost_to_a_disruption_counts_as_a_disruption() -> None:
    fields = fields_of(lose_worker(killed(make_worker(1), PREEMPTED)))
    assert fields["restarts"]["disruptions"] == 1
    assert "restarts" not in fields_of(lose_worker(ended(make_worker(1), "Infrastructure")))


def test_the_third_termination_of_worker_pods_by_the_kubelet_ends_the_attempt() -> None:
    old = NOW - timedelta(hours=1)
    worker = killed(make_worker(1, round_=2), BY_KUBELET, finished_at=old, reason="Evicted")
    losses = {"rounds": 2, "ownFault": 2, "checkpoint": -1}
    failure = fields_of(lose_worker(worker, round=2, workerLosses=losses))["failure"]
    assert (failure["class"], failure["reason"]) == ("Application", "TerminationByKubelet")


@pytest.mark.parametrize("lost", [killed(make_worker(1), PREEMPTED), make_worker(7)], ids=["preempted", "gone"])
def test_the_disruption_limit_also_counts_worker_pods(lost: PodView) -> None:
    known = {"disruptions": 1}
    assert fields_of(lose_worker(lost, limit=2, restarts=known))["round"] == 1
    fields = fields_of(lose_worker(lost, limit=1, restarts=known))
    assert fields["phase"] == "Failed"
    assert "disruptionLimit 1 is reached" in next(c["message"] for c in fields["conditions"] if c["type"] == "Failed")


def test_only_backoff_bounds_disruptions_without_a_checkpoint() -> None:
    sim = Simulation(**NO_BUDGET)
    sim.run_until_training()
    delays = []
    for _ in range(10):
        sim.lose(sim.head.name)
        sim.settle()
        assert sim.last.wake_at is not None, sim.status
        delays.append(round((sim.last.wake_at - sim.now).total_seconds()))
        sim.now = sim.last.wake_at
        sim.settle()
        sim.start_pods()
        sim.settle()
    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert sim.status["attempt"] == 11
    assert sim.status["restarts"] == {"application": 0, "withoutProgress": 0, "disruptions": 10}
    assert sim.losses["infrastructure"] == 10


def test_a_checkpoint_resets_the_backoff_of_disruptions_but_not_their_number() -> None:
    sim = Simulation(**NO_BUDGET)
    for commit in (None, 0):
        sim.run_until_training()
        sim.report(checkpoint=commit)
        sim.lose(sim.head.name)
        sim.settle()
        sim.later(60)
        sim.settle()
    assert sim.status["restarts"]["disruptions"] == 2


def test_the_limit_counts_attempts_and_rounds_together() -> None:
    sim = Simulation(disruptionLimit=1)
    sim.run_until_training()
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.lose(worker)
    sim.run_until_training()
    assert (sim.status["round"], sim.status["restarts"]["disruptions"]) == (1, 1)
    sim.lose(sim.head.name)
    sim.settle()
    assert (sim.status["phase"], sim.status["failure"]["reason"]) == ("Failed", "PodGone")


def lose_attempts(sim: Simulation, kind: str, *, hours: float) -> int:
    """Each attempt trains for a minute, commits nothing and is lost; returns the number of attempts."""
    until = sim.now.timestamp() + hours * HOUR
    attempt = 0
    while sim.now.timestamp() < until and sim.status.get("phase") != "Failed":
        if sim.status.get("attempt", 0) == attempt:
            sim.later(10)
            sim.settle()
            continue
        attempt = sim.status["attempt"]
        sim.run_until_training()
        sim.later(60)
        sim.end_head(kind)
        sim.settle()
    return attempt


@pytest.mark.parametrize(
    ("kind", "attempts"),
    [("Application", 4), ("OutOfMemory", 4), ("Infrastructure", 4), ("Hang", 4), ("Hardware", 4), ("Configuration", 1)],
)
def test_a_job_that_always_fails_ends_after_a_few_attempts(kind: str, attempts: int) -> None:
    sim = Simulation()
    sim.settle()
    assert lose_attempts(sim, kind, hours=24) == attempts
    assert sim.status["phase"] == "Failed"


@pytest.mark.parametrize(("hours", "ends"), [(1, True), (7, False)])
def test_a_function_that_hangs_after_each_checkpoint_ends_unless_it_trains_for_long(hours: int, ends: bool) -> None:
    """backoffResetSeconds is 6 hours."""
    sim = Simulation()
    sim.settle()
    for number in range(8):
        if sim.status.get("phase") == "Failed":
            break
        sim.run_until_training()
        sim.later(hours * HOUR)
        sim.report(checkpoint=number)
        sim.later(HOUR)
        sim.end_head("Hang")
        sim.settle()
        sim.later(400)
        sim.settle()
    assert (sim.status["phase"] == "Failed") is ends
    if ends:
        assert sim.status["attempt"] == 4
        [message] = [c["message"] for c in sim.status["conditions"] if c["type"] == "Failed"]
        assert "4 attempts in a row committed no checkpoint or hung within backoffResetSeconds of training" in message


HOURS = pytest.mark.parametrize("hours", [2, pytest.param(6, marks=pytest.mark.slow)])  # the same for longer


@HOURS
def test_unlimited_disruptions_hold_the_gpus_a_sixth_of_the_time(hours: int) -> None:
    """An attempt of a minute, then five minutes without pods, apart from the first few."""
    sim = Simulation()
    sim.settle()
    attempts = lose_attempts(sim, "Preemption", hours=hours)
    assert hours * HOUR / 375 <= attempts <= hours * HOUR / 360 + 8
    assert sim.status["phase"] != "Failed", "only the user's limits end it: disruptionLimit, activeDeadlineSeconds"


@HOURS
def test_a_start_that_always_fails_releases_the_gpus_between_attempts(hours: int) -> None:
    """The user's startDeadlineSeconds is the price of each try."""
    sim = Simulation(startDeadlineSeconds=600)
    sim.settle()
    began, attempts = sim.now, sim.status["attempt"]
    while (sim.now - began).total_seconds() < hours * HOUR:
        sim.later(10)
        sim.settle()
    attempts = sim.status["attempt"] - attempts
    assert hours * HOUR / 660 <= attempts <= hours * HOUR / 640 + 3


@pytest.mark.parametrize(("gpus", "is_failed"), [(256, True), (1024, False)])
def test_the_budget_of_a_large_job_refills_earlier_but_not_without_progress(gpus: int, is_failed: bool) -> None:
    """A failure each two hours of training, with a newer checkpoint; then one right after another."""
    scaling = {"numWorkers": gpus, "workersPerPod": 64, "useGPU": True}
    sim = Simulation(scaling=scaling)
    for number in range(4):
        train(sim, hours=2, checkpoint=number)
        fail(sim)
    assert (sim.status["phase"] == "Failed") == is_failed
    sim = Simulation(scaling=scaling)
    train(sim, hours=2, checkpoint=0)
    for _ in range(4):
        fail(sim)
        train(sim, hours=2)
    assert sim.status["phase"] == "Failed", "no newer checkpoint: as many tries as a small job has"
