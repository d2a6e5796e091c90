"""A node whose kubelet refuses pods costs a job neither its attempt nor a budget, and few pods.

Reasons and messages are those of Kubernetes 1.36; kubelet.go: rejectPod sets phase, reason and message only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from railhead.api import names
from railhead.controller.observe import observe_pod
from railhead.planning.facts.pod_failure import classify_pod
from railhead.planning.pod_view import PodView
from tests.slow_cases import slow_after
from tests.unit.controller.raws import make_container, make_pod
from tests.unit.planning.simulation import Simulation

SICK = "node-sick"
REFUSALS = [
    # pkg/kubelet/lifecycle/predicate.go: Admit
    ("UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu"),
    ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 4000, used: 6000, capacity: 8000"),
    ("UnexpectedAdmissionError", "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"),
    ("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 0, capacity: 7"),
    ("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
    # pkg/kubelet/nodeshutdown/nodeshutdown_manager.go: nodeShutdownNotAdmittedReason
    ("NodeShutdown", "Pod was rejected as the node is shutting down."),
    # pkg/kubelet/eviction/eviction_manager.go: Admit
    ("Evicted", "The node had condition: [DiskPressure]. "),
]
HOUR = 3600
# For an hour of passes. That a pod with any of the others is refused is tested of one pod each.
FEW_REFUSALS = slow_after(2, REFUSALS)


def refuse(sim: Simulation, name: str, refusal: tuple[str, str] = REFUSALS[0]) -> None:
    """At admission, also at that of a running pod when its kubelet has restarted."""
    if not sim.pods[name].node:
        sim.api.bind(name, SICK, namespace="default")
    message = f"Pod was rejected: {refusal[1]}"
    status = {"phase": "Failed", "reason": refusal[0], "message": message, "containerStatuses": None}
    sim.api.patch(("pods", "default", name), {"status": status}, subresource="status")


def play(sim: Simulation, seconds: float, *, is_sick: Callable[[PodView], bool], refusal: tuple[str, str]) -> None:
    """The scheduler puts these pods on the sick node; all others start."""
    end = sim.now.timestamp() + seconds
    while sim.now.timestamp() < end:
        for pod in sim.pods.values():
            if pod.is_live and not pod.node and is_sick(pod):
                refuse(sim, pod.name, refusal)
            elif pod.is_live and not pod.is_running:
                sim.start_pod(pod.name)
        sim.reconcile()
        if sim.last.wake_at is not None and sim.last.wake_at > sim.now and not sim.last.creates:
            sim.now = sim.last.wake_at
        else:
            sim.later(1)


def raw_refused(refusal: tuple[str, str], **status: Any) -> PodView:
    return observe_pod(make_pod(status={"phase": "Failed", "reason": refusal[0], "message": refusal[1], **status}))


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_pod_that_its_node_refused_is_nobodys_fault(refusal: tuple[str, str]) -> None:
    pod = raw_refused(refusal)
    failure = classify_pod(pod)
    assert pod.is_refused
    assert (failure.class_.value, failure.reason) == ("Startup", "NodeRefusedPod")
    assert refusal[0] in failure.message and refusal[1] in failure.message and "node-1" in failure.message


CONDITION = {"type": "DisruptionTarget", "status": "True", "message": "why"}


@pytest.mark.parametrize(
    ("status", "is_refused"),
    [
        ({}, True),
        ({"containerStatuses": [make_container(waiting={"reason": "ContainerCreating"})]}, True),
        ({"conditions": [{**CONDITION, "reason": "TerminationByKubelet"}]}, True),  # evicted while it started
        ({"conditions": [{**CONDITION, "reason": "DeletionByPodGC"}]}, False),
        ({"containerStatuses": [make_container(terminated={"exitCode": 137})]}, False),
        ({"initContainerStatuses": [make_container(terminated={"exitCode": 0})]}, False),
        ({"reason": ""}, False),
        ({"phase": "Pending"}, False),
    ],
)
def test_a_refused_pod_has_failed_without_a_container_that_ran(status: dict[str, Any], is_refused: bool) -> None:
    assert raw_refused(REFUSALS[-1], **status).is_refused == is_refused


@pytest.mark.parametrize(
    ("reason", "message", "is_refused"),
    [
        ("StartError", "failed to create shim task: nvidia-container-cli: initialization error: nvml error", True),
        ("StartError", "failed to create shim task: CDI device injection failed: unresolvable CDI devices", True),
        ("ContainerCannotRun", "error gathering device information while adding custom device", True),
        ("StartError", 'OCI runtime create failed: exec: "python": executable file not found in $PATH', False),
        ("StartError", 'chdir to cwd ("/code") set in config.json failed: no such file or directory', False),
        ("StartError", "unable to find user ray: no matching entries in passwd file", False),
        ("StartError", "executable file `python` not found in $PATH: No such file or directory", False),
        ("StartError", "container init was OOM-killed (memory limit too low?)", False),
        ("StartError", "not a directory: Are you trying to mount a directory onto a file (or vice-versa)?", False),
        ("Error", "nvidia-container-cli", False),
    ],
)
@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
def test_a_node_that_cannot_start_our_container_has_refused_the_pod(
    kind: str, reason: str, message: str, is_refused: bool
) -> None:
    """Not if the image or the template is at fault, which fails alike on each node."""
    container = make_container(terminated={"exitCode": 128, "reason": reason, "message": message})
    pod = observe_pod(make_pod(status={"phase": "Failed", kind: [container]}))
    assert pod.is_refused == is_refused
    assert (classify_pod(pod).reason == "NodeRefusedPod") == is_refused
    assert not is_refused or message in classify_pod(pod).message


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("refusal", FEW_REFUSALS)
def test_one_refusing_node_of_8_costs_a_rigid_job_no_attempt_and_few_pods(
    refusal: tuple[str, str], commits: bool
) -> None:
    sim = Simulation(scaling={"numWorkers": 8}, backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    sim.run_until_training()
    if commits:
        sim.report(checkpoint=1)
    healthy = {pod.uid for pod in sim.pods.values() if pod.slot != 3}
    refuse(sim, next(pod.name for pod in sim.pods.values() if pod.slot == 3), refusal)
    created = sim.count_created("pods")
    play(sim, HOUR, is_sick=lambda pod: pod.slot == 3, refusal=refusal)
    assert sim.count_created("pods") - created <= 8 + HOUR / 60
    assert healthy <= {pod.uid for pod in sim.pods.values()}
    assert (sim.status["attempt"], sim.status["phase"]) == (1, "Restarting")
    assert (sim.status["workerLosses"]["rounds"], sim.status["workerLosses"]["ownFault"]) == (0, 0)
    assert sim.status["workerLosses"]["refused"] == sim.status["round"] > 60
    assert {"restarts", "budget", "failure"}.isdisjoint(sim.status)
    assert "NodeRefusedPod" in sim.events and "WorkerReplaced" not in sim.events
    message = next(c["message"] for c in sim.status["conditions"] if c["type"] == "Reconciling")
    assert SICK in message and refusal[1] in message
    play(sim, 61, is_sick=lambda pod: False, refusal=refusal)
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_an_elastic_job_trains_and_commits_while_a_node_refuses_its_pod() -> None:
    scaling = {"minWorkers": 4, "maxWorkers": 8, "desiredWorkers": 8}
    sim = Simulation(scaling=scaling)
    sim.run_until_training()
    refuse(sim, next(pod.name for pod in sim.pods.values() if pod.slot == 3))
    created = sim.count_created("pods")
    for number in range(60):
        play(sim, 60, is_sick=lambda pod: pod.slot == 3, refusal=REFUSALS[0])
        sim.report(checkpoint=number, joined=7)
        sim.settle()
    assert sim.count_created("pods") - created <= 8 + HOUR / 60
    assert (sim.status["attempt"], sim.status["phase"]) == (1, "Running")


def test_the_backoff_begins_again_after_all_pods_were_up() -> None:
    sim = Simulation(scaling={"numWorkers": 8})
    sim.run_until_training()
    refuse(sim, next(pod.name for pod in sim.pods.values() if pod.slot == 3))
    play(sim, 600, is_sick=lambda pod: pod.slot == 3, refusal=REFUSALS[0])
    play(sim, 61, is_sick=lambda pod: False, refusal=REFUSALS[0])
    sim.run_until_training()
    created = sim.count_created("pods")
    refuse(sim, next(pod.name for pod in sim.pods.values() if pod.slot == 3 and pod.is_live))
    sim.settle()
    assert sim.count_created("pods") == created + 1
    assert sim.status["workerLosses"]["refused"] == 1


@pytest.mark.parametrize("refusal", FEW_REFUSALS)
def test_a_refused_head_spends_nothing_and_its_attempts_back_off(refusal: tuple[str, str]) -> None:
    sim = Simulation(backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    sim.settle()
    play(sim, HOUR, is_sick=lambda pod: pod.role == names.HEAD, refusal=refusal)
    assert len(sim.heads) <= 8 + HOUR / 60
    assert sim.losses == {"startup": len(sim.heads) - 1} and len(sim.heads) > 61
    assert not any(sim.status.get("restarts", {}).values()) and "budget" not in sim.status
    assert sim.status["failure"]["reason"] == "NodeRefusedPod" and sim.status["failure"]["node"] == SICK
    assert "NodeRefusedPod" in sim.events
    play(sim, 61, is_sick=lambda pod: False, refusal=refusal)
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_a_pod_that_ran_counts_although_another_was_refused_in_the_same_round() -> None:
    sim = Simulation(scaling={"numWorkers": 8})
    sim.run_until_training()
    refuse(sim, next(pod.name for pod in sim.pods.values() if pod.slot == 3))
    sim.end_pod(next(pod.name for pod in sim.pods.values() if pod.slot == 5), "Infrastructure")
    sim.settle()
    assert sim.status["workerLosses"] == {"rounds": 1, "ownFault": 0, "refused": 1, "checkpoint": -1}
    assert sim.losses["infrastructure"] == 1 and "WorkerReplaced" in sim.events
