"""Disruptions spend no failure budget, keep their true reason, and are bounded only by spec.disruptionLimit."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import Disruption, PodView
from tests.unit.builders import NOW, RUNNING_STATUS, ended, make_head, make_observed, make_spec, make_worker
from tests.unit.planning.simulation import Simulation

BY_KUBELET = Disruption("TerminationByKubelet", "The node was low on resource: memory.")
PREEMPTED = Disruption("PreemptionByScheduler", "preempting to accommodate a higher priority pod")
NO_BUDGET: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0}


def lose_head(head: PodView, **status: Any) -> dict[str, Any]:
    """The failure that ends the attempt of this head; nothing was committed, and no budget is left."""
    wanted = plan(make_observed(head, status={**RUNNING_STATUS, **status}, spec=make_spec(**NO_BUDGET)))
    assert wanted.status is not None
    failure: dict[str, Any] = wanted.status.fields["failure"]
    return {**failure, "phase": wanted.status.fields["phase"]}


def killed(pod: PodView, disruption: Disruption | None = None, **changes: Any) -> PodView:
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
    failure = lose_head(killed(make_head(), Disruption(reason, "because of it"), reason=of_pod))
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


def test_the_third_termination_by_the_kubelet_in_a_row_is_an_application_failure() -> None:
    head = killed(make_head(), BY_KUBELET, reason="Evicted")
    second = lose_head(head, disruptions={"total": 1, "attempts": 1, "byKubelet": 1})
    assert (second["class"], second["phase"]) == ("Infrastructure", "Restarting")
    third = lose_head(head, disruptions={"total": 2, "attempts": 2, "byKubelet": 2})
    assert (third["class"], third["reason"], third["phase"]) == ("Application", "TerminationByKubelet", "Failed")
    assert "(3 times in a row without a new checkpoint)" in third["message"]


def test_a_checkpoint_resets_the_count_of_terminations() -> None:
    committed = {"uri": "/runs/c7", "index": 7, "time": "t", "attempt": 1}
    failure = lose_head(
        killed(make_head(), BY_KUBELET, reason="Evicted"),
        disruptions={"total": 2, "attempts": 2, "byKubelet": 2},
        checkpoint=committed,
    )
    assert (failure["class"], failure["phase"]) == ("Infrastructure", "Restarting")


def lose_worker(worker: PodView, *, limit: int | None = None, **status: Any) -> Plan:
    spec = make_spec(**NO_BUDGET, **({} if limit is None else {"disruptionLimit": limit}))
    return plan(make_observed(make_head(), make_worker(0), worker, status={**RUNNING_STATUS, **status}, spec=spec))


def fields_of(wanted: Plan) -> dict[str, Any]:
    assert wanted.status is not None, wanted
    return dict(wanted.status.fields)


def test_a_worker_pod_lost_to_a_disruption_counts_as_a_disruption() -> None:
    fields = fields_of(lose_worker(killed(make_worker(1), PREEMPTED)))
    assert fields["disruptions"] == {"total": 1, "attempts": 0, "byKubelet": 0}
    assert "disruptions" not in fields_of(lose_worker(ended(make_worker(1), "Infrastructure")))


def test_the_third_termination_of_worker_pods_by_the_kubelet_ends_the_attempt() -> None:
    old = NOW - timedelta(hours=1)
    worker = killed(make_worker(1, round_=2), BY_KUBELET, finished_at=old, reason="Evicted")
    losses = {"rounds": 2, "ownFault": 2, "checkpoint": -1}
    failure = fields_of(lose_worker(worker, round=2, workerLosses=losses))["failure"]
    assert (failure["class"], failure["reason"]) == ("Application", "TerminationByKubelet")


@pytest.mark.parametrize("lost", [killed(make_worker(1), PREEMPTED), make_worker(7)], ids=["preempted", "gone"])
def test_the_disruption_limit_also_counts_worker_pods(lost: PodView) -> None:
    known = {"total": 1, "attempts": 0, "byKubelet": 0}
    assert fields_of(lose_worker(lost, limit=2, disruptions=known))["round"] == 1
    fields = fields_of(lose_worker(lost, limit=1, disruptions=known))
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
    assert sim.status["disruptions"] == {"total": 10, "attempts": 10, "byKubelet": 0}
    assert sim.status["restarts"] == {
        "application": 0,
        "infrastructure": 10,
        "withoutProgress": 0,
        "startup": 0,
        "inPlace": 0,
    }


def test_a_checkpoint_resets_the_consecutive_count_but_not_the_total() -> None:
    sim = Simulation(**NO_BUDGET)
    for commit in (None, 0):
        sim.run_until_training()
        sim.report(checkpoint=commit)
        sim.lose(sim.head.name)
        sim.settle()
        sim.later(60)
        sim.settle()
    assert sim.status["disruptions"] == {"total": 2, "attempts": 0, "byKubelet": 0}


def test_the_limit_counts_attempts_and_rounds_together() -> None:
    sim = Simulation(disruptionLimit=1)
    sim.run_until_training()
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.lose(worker)
    sim.run_until_training()
    assert (sim.status["round"], sim.status["disruptions"]["total"]) == (1, 1)
    sim.lose(sim.head.name)
    sim.settle()
    assert (sim.status["phase"], sim.status["failure"]["reason"]) == ("Failed", "PodGone")
