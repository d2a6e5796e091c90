"""Which pods that the kubelet has ended count against the job: only one that was evicted, never one of a node that
shuts down. Texts and fields are those of Kubernetes 1.36."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.controller.observe import observe_pod
from railhead.planning.facts.disruptions import TERMINATION_BY_KUBELET, is_disruption
from railhead.planning.facts.failure_from_pod import classify_pod
from railhead.planning.pod_view import PodView
from tests.unit.controller.raws import make_container, make_pod
from tests.unit.planning.simulation import Simulation

# pkg/kubelet/nodeshutdown/nodeshutdown_manager.go: nodeShutdownReason, nodeShutdownMessage
SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
# pkg/kubelet/preemption/preemption.go: evictPodsToFreeRequests
PREEMPTED = ("Preempting", "Preempted in order to admit critical pod")
PREEMPTED_CONDITION = "Pod was preempted by Kubelet to accommodate a critical pod."
# pkg/kubelet/eviction/helpers.go: nodeLowMessageFmt, containerMessageFmt; eviction_manager.go: Reason, evictPod
LOW = (
    "Evicted",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container ray was using "
    "3145728Ki, request is 2Gi, has larger consumption of memory. ",
)
# eviction_manager.go: localStorageEviction, emptyDirMessageFmt; without a condition
EMPTY_DIR = ("Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ')


def end_pod(target: str, status: tuple[str, str], *, text: str = "", **ended: Any) -> PodView:
    """A worker that ran, after the kubelet has ended it. `target`: the reason of DisruptionTarget, "" = none."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": target, "message": text or status[1]}
    terminated = {"exitCode": 137, "reason": "Error", "startedAt": "x", "finishedAt": "2026-01-01T11:59:59Z", **ended}
    return observe_pod(
        make_pod(
            status={
                "phase": "Failed",
                "reason": status[0],
                "message": status[1],
                "conditions": [condition] if target else [],
                "containerStatuses": [make_container(terminated=terminated)],
            }
        )
    )


@pytest.mark.parametrize(
    ("pod", "reason", "disrupts", "is_own_fault"),
    [
        (end_pod(TERMINATION_BY_KUBELET, SHUTDOWN), "Terminated", True, False),
        (end_pod("", SHUTDOWN), "Terminated", True, False),
        (end_pod("", ("Shutdown", "Node is shutting, evicting pods")), "Shutdown", True, False),  # up to 1.21
        (end_pod(TERMINATION_BY_KUBELET, ("NodeShutdown", "Pod was rejected")), "NodeShutdown", True, False),
        (end_pod(TERMINATION_BY_KUBELET, PREEMPTED, text=PREEMPTED_CONDITION), "Preempting", True, False),
        (end_pod("", PREEMPTED), "Preempting", True, False),
        (end_pod(TERMINATION_BY_KUBELET, ("", "")), "Terminated", True, False),
        (end_pod(TERMINATION_BY_KUBELET, ("AddedLater", "why")), "Terminated", True, False),
        (end_pod(TERMINATION_BY_KUBELET, LOW), TERMINATION_BY_KUBELET, True, True),
        (end_pod(TERMINATION_BY_KUBELET, LOW, reason="OOMKilled"), TERMINATION_BY_KUBELET, True, True),
        (end_pod(TERMINATION_BY_KUBELET, SHUTDOWN, reason="ContainerStatusUnknown"), "Terminated", True, False),
        (end_pod("", SHUTDOWN, reason="ContainerStatusUnknown"), "Terminated", True, False),
        (end_pod("", EMPTY_DIR), "Evicted", False, True),
        (end_pod("PreemptionByScheduler", LOW), "PreemptionByScheduler", True, False),
        (end_pod("DeletionByTaintManager", SHUTDOWN), "DeletionByTaintManager", True, False),
        (end_pod("EvictionByEvictionAPI", ("", "")), "EvictionByEvictionAPI", True, False),
    ],
)
def test_only_an_eviction_by_the_kubelet_is_the_jobs_own_fault(
    pod: PodView, reason: str, disrupts: bool, is_own_fault: bool
) -> None:
    failure = classify_pod(pod)
    assert failure.reason == reason
    assert is_disruption(failure.class_, failure.reason) == disrupts
    assert (failure.reason in (TERMINATION_BY_KUBELET, "Evicted")) == is_own_fault


def shut_down(sim: Simulation, name: str, **ended: Any) -> None:
    """The kubelet of the pod's node ends it for the shutdown of the node."""
    raw = end_pod(TERMINATION_BY_KUBELET, SHUTDOWN)
    assert raw.disruption is not None
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": raw.disruption.reason,
        "message": raw.disruption.message,
    }
    sim.end_pod(name, "Preemption", raw="", code=ended.get("code", 137))
    status = {"reason": SHUTDOWN[0], "message": SHUTDOWN[1], "conditions": [condition]}
    sim.api.patch(("pods", "default", name), {"status": status}, subresource="status")


@pytest.mark.parametrize("code", [137, 68], ids=["killed", "ended by SIGTERM"])
@pytest.mark.parametrize("every", [3, 1000], ids=["some commits", "no commit"])
def test_300_node_shutdowns_never_fail_a_job_and_each_pod_is_replaced_at_once(every: int, code: int) -> None:
    sim = Simulation(scaling={"numWorkers": 8}, backoffLimit=0, noProgressLimit=0)
    sim.run_until_training()
    for number in range(300):
        sim.later(600)
        worker = next(pod for pod in sim.pods.values() if pod.slot == number % 8 and pod.is_live)
        others = {pod.uid for pod in sim.pods.values()} - {worker.uid}
        attempt, created = sim.status["attempt"], sim.count_created("pods")
        shut_down(sim, worker.name, code=code)
        sim.settle()
        if sim.status["attempt"] == attempt and sim.status["phase"] == "Restarting" and "failure" not in sim.status:
            assert sim.count_created("pods") == created + 1, number
            assert others <= {pod.uid for pod in sim.pods.values()}
        sim.later(301)  # an attempt lost after 20 rounds without a checkpoint backs off
        sim.run_until_training()
        if number % every == 0:
            sim.report(checkpoint=number)
        assert sim.status["phase"] == "Running", sim.status
    restarts = sim.status["restarts"]
    assert (restarts["application"], restarts["withoutProgress"]) == (0, 0)
    assert "budget" not in sim.status


def test_a_shutdown_while_the_group_still_starts_delays_nothing() -> None:
    sim = Simulation(scaling={"numWorkers": 8})
    sim.run_until_training()
    for number in range(4):
        worker = next(pod for pod in sim.pods.values() if pod.slot == 3 and pod.is_live)
        created = sim.count_created("pods")
        shut_down(sim, worker.name, code=68)
        sim.settle()
        assert sim.count_created("pods") == created + 1, number


def test_an_evicted_head_whose_machine_goes_away_holds_the_group_for_two_minutes() -> None:
    """`kubectl drain` or a termination handler evicts the head; the machine is off 30 s later, and Kubernetes marks its
    pods 50 s after that."""
    sim = Simulation()
    sim.run_until_training()
    head = sim.head.name
    sim.evict(head, gone_in=620)
    sim.later(30)
    sim.settle()
    cut = sim.now
    sim.later(50)
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    sim.api.patch(("pods", "default", head), {"status": {"conditions": conditions}}, subresource="status")
    while sim.status["attempt"] == 1:
        sim.reconcile()
        if sim.status["attempt"] == 1:
            assert sim.last.wake_at is not None
            sim.now = max(sim.last.wake_at, sim.now + timedelta(seconds=1))
    assert (sim.now - cut).total_seconds() <= 150
    assert sim.status["restarts"]["application"] == 0
