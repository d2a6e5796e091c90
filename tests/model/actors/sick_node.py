"""A node that is sick for minutes to hours, and that the scheduler likes as much as any other: it cannot start
containers, its GPU breaks under each group, or it reboots again and again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from railhead.api import names
from railhead.contract.times import format_time
from tests.model.actors.actor import Actor, Range, node_of
from tests.model.api_server import Object
from tests.model.nodes import needs_gpus
from tests.model.world import NAMESPACE, World, name_of, place_of

# Reasons of a waiting container (pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime/kuberuntime_container.go), and of
# the kubelet's Events for a pod whose status tells nothing.
IN_STATUS = (
    ("ImagePullBackOff", 'Back-off pulling image "example/train:1": no space left on device'),
    ("ErrImagePull", "failed to pull and unpack image: dial tcp 10.0.0.9:443: i/o timeout"),
    ("ErrImageNeverPull", 'Container image "example/train:1" is not present with pull policy of Never'),
    ("CreateContainerError", "failed to reserve container name"),
)
IN_EVENTS = (
    ("FailedCreatePodSandBox", "Failed to create pod sandbox: plugin type=calico failed (add): connection refused"),
    (
        "FailedPrepareDynamicResources",
        "Failed to prepare dynamic resources: DRA driver gpu.nvidia.com is not registered",
    ),
    ("FailedCreatePodContainer", "unable to ensure pod container exists: cgroup: no space left on device"),
    ("NetworkNotReady", "network is not ready: container runtime network not ready: cni plugin not initialized"),
    ("FailedMount", 'MountVolume.SetUp failed for volume "data": driver name csi.example.com not found in the list'),
)
UNKNOWN = (
    {"exitCode": 255, "reason": "Unknown"},  # containerd
    {"exitCode": 255, "reason": "Error"},  # CRI-O
    {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"},
)


class SickNode(Actor):
    """One after the other, or those of a test.

    Attributes:
        nodes: that are sick now.
    """

    last_for: Range = (120, 3600)

    def __init__(self, world: World, random: Random) -> None:
        self.nodes: set[str] = set()
        super().__init__(world, random)

    def fall_ill(self, nodes: Iterable[str]) -> None:
        self.nodes = set(nodes)

    def act(self) -> Range:
        if self.nodes:
            self.leave()
            return 5, 600
        node = self.choose_node()
        if not node:
            return 5, 60
        self.fall_ill([node])
        return self.last_for

    def leave(self) -> None:
        self.nodes = set()

    def has(self, pod: Object) -> bool:
        return node_of(pod) in self.nodes and pod["metadata"]["namespace"] == NAMESPACE


class UnstartingNode(SickNode):
    """It admits pods and cannot start their containers: a full disk, no registry, no network or no storage driver."""

    def begin(self) -> None:
        self.trouble = self.random.choice((*IN_STATUS, *IN_EVENTS))
        self.world.kubelets.append(self.start)

    def fall_ill(self, nodes: Iterable[str]) -> None:
        super().fall_ill(nodes)
        self.trouble = self.random.choice((*IN_STATUS, *IN_EVENTS))

    def start(self, pod: Object) -> bool:
        if not self.has(pod):
            return True
        reason, message = self.trouble
        if self.trouble in IN_EVENTS:
            self.world.report_event(pod, reason, message)
            return False
        state = {"waiting": {"reason": reason, "message": message}}
        self.change_status(pod, phase="Pending", containerStatuses=[{"name": names.CONTAINER, "state": state}])
        return False


class BusyNode(SickNode):
    """One whose actors wait until a pod runs there for a while."""

    after: Range = (20, 60)

    def __init__(self, world: World, random: Random) -> None:
        self._until: datetime | None = None
        self._due: dict[str, datetime] = {}
        super().__init__(world, random)

    def act(self) -> Range:
        if self.nodes and self._until is not None and self.world.now < self._until:
            self.strike()
            return 1, 5
        wait = super().act()
        if not self.nodes:
            return wait
        self._until = self.world.now + timedelta(seconds=self.random.uniform(*wait))
        return 1, 5

    def leave(self) -> None:
        super().leave()
        self._due.clear()

    def strike(self) -> None:
        """Does what is due now to pods on the sick nodes."""
        raise NotImplementedError

    def is_due(self, key: str) -> bool:
        """Whether this has been seen for long enough, once."""
        due = self._due.setdefault(key, self.world.now + timedelta(seconds=self.random.uniform(*self.after)))
        return due <= self.world.now


class DeadGPU(BusyNode):
    """The GPU fails with an uncorrectable error soon after each start of a group that uses it."""

    def strike(self) -> None:
        for pod in filter(self.has, self.pods(names.WORKER)):
            head, driver = self.world.find_driver_of(pod)
            if head is None or driver is None or driver.state != "RUNNING" or not needs_gpus(pod):
                continue
            if self.is_due(f"{pod['metadata']['uid']} {driver.attempt} {driver.groups}"):
                self.disturb(pod)
                self.disturb(head)
                self.world.fail_gpu(head, pod, in_place=self.random.random() < 0.5)
                return


class RebootingNode(BusyNode):
    """It reboots soon after a pod has started there, too fast for the node lifecycle controller, and in no order."""

    def strike(self) -> None:
        for node in sorted(self.nodes):
            pods = [pod for pod in self.pods() if node_of(pod) == node and self.has(pod)]
            if not any(self.is_due(pod["metadata"]["uid"]) for pod in pods):
                continue
            for pod in pods:
                self.reboot(pod)

    def reboot(self, pod: Object) -> None:
        at, end = format_time(self.world.now), dict(self.random.choice(UNKNOWN))
        if end["exitCode"] == 255:
            end |= {"startedAt": format_time(self.world.now - timedelta(minutes=2)), "finishedAt": at}
        others = [each["name"] for each in pod["spec"]["containers"] if each["name"] != names.CONTAINER]
        statuses = [{"name": name, "state": {"terminated": end}} for name in (names.CONTAINER, *others)]
        not_ready = [
            {"type": type_, "status": "False", "reason": "PodFailed", "lastTransitionTime": at}
            for type_ in ("Ready", "ContainersReady")
        ]
        self.change_status(pod, phase="Failed", containerStatuses=statuses, conditions=not_ready)


class KillingNode(BusyNode):
    """It runs out of memory soon after a pod has started there, and the kernel kills that pod's first process.

    Only a kill within the limit of the pod's own cgroup is reported as OOMKilled. It is always the same node. With a
    second one the job itself might be what needs too much memory: it avoids only one of them, and noProgressLimit
    bounds the heads that it loses on the other one.
    """

    def __init__(self, world: World, random: Random) -> None:
        self._node = ""
        super().__init__(world, random)

    def choose_node(self) -> str:
        self._node = self._node or super().choose_node()
        return self._node

    def strike(self) -> None:
        for pod in [pod for pod in self.pods() if self.has(pod)]:
            if self.is_due(pod["metadata"]["uid"]):
                self.disturb(pod)
                self.world.kill_pod(pod)


class ReadinessGate(Actor):
    """A load balancer's controller adds a readiness gate to all pods and never sets it. Heads are drained, and need all
    of their grace period.

    pkg/kubelet/status/generate.go: GeneratePodReadyCondition.
    """

    def begin(self) -> None:
        self.world.mutations.append(self.add_gate)
        self.world.kubelets.append(self.report)

    def add_gate(self, body: Object) -> Object:
        if body["metadata"].get("namespace", NAMESPACE) != NAMESPACE:
            return body
        return {**body, "spec": {**body["spec"], "readinessGates": [{"conditionType": "example.com/ready"}]}}

    def report(self, pod: Object) -> bool:
        """When its containers start."""
        if pod["spec"].get("readinessGates"):
            known = [each for each in pod["status"].get("conditions") or [] if each["type"] == "PodScheduled"]
            conditions = [
                *known,
                {"type": "ContainersReady", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"},
            ]
            self.world.api.patch(place_of(pod), {"status": {"conditions": conditions}}, subresource="status")
        return True

    def act(self) -> Range:
        pod = self.choose_pod(names.HEAD)
        if pod is not None:
            self.disturb(pod)
            self.world.slow.add(name_of(pod))
            self.world.api.delete(place_of(pod), {})
        return 60, 900

    def leave(self) -> None:
        self.world.mutations.remove(self.add_gate)
