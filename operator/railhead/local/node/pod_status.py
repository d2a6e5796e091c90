"""The status of a pod: what the node assigns to it, the facts about its containers, and their publication.

A container is waiting, running or terminated. The pod is Pending until its containers have
started, Running while one runs or is to be restarted, and then Succeeded or Failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from railhead.contract.times import now_text
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, KubeError
from railhead.kube.kinds import POD
from railhead.local.addresses import NODE_ADDRESS

log = logging.getLogger(__name__)

# The API server may restart, which takes seconds; a machine may swap for a minute. After five minutes
# without success the controller manager considers the node lost and deletes its pods, whose status is of no use then.
PUBLISH_SECONDS = 300.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
ENVIRONMENT_NOTE = "not pulled: runs in the host's environment"


@dataclass(frozen=True)
class PodPlace:
    """The folder, address and GPUs that the node assigns to one pod."""

    folder: Path
    address: str
    hosts_file: Path
    gpus: tuple[int, ...]
    server: str = ""


@dataclass(frozen=True)
class ContainerFacts:
    """One container at one moment. Times are RFC 3339."""

    name: str
    image: str
    state: Literal["waiting", "running", "terminated"] = "waiting"
    reason: str = "ContainerCreating"
    message: str = ""
    started_at: str = ""
    finished_at: str = ""
    exit_code: int = 0
    restarts: int = 0
    is_init: bool = False
    is_ready: bool = True
    container_id: str = ""

    @property
    def has_ended_well(self) -> bool:
        return self.state == "terminated" and self.exit_code == 0


def exit_code_of(return_code: int) -> int:
    """Returns the code by a shell's convention: death by signal n is 128 + n."""
    if return_code < 0:
        return 128 - return_code
    return return_code


def must_restart(policy: str, exit_code: int, *, is_init: bool = False) -> bool:
    if policy == "Always" and not is_init:
        return True
    return policy != "Never" and exit_code != 0


def restart_delay_seconds(restarts: int) -> float:
    """Returns a kubelet's crash backoff: 10 s, doubled each time, at most 5 minutes."""
    if restarts > 0:
        return min(300.0, 10.0 * (1 << min(max(restarts - 1, 0), 6)))
    return 0.0


def pod_phase(containers: Sequence[ContainerFacts], *, policy: str) -> str:
    inits = [c for c in containers if c.is_init]
    mains = [c for c in containers if not c.is_init]
    failed_init = any(c.state == "terminated" and c.exit_code and not must_restart(policy, 1) for c in inits)
    if failed_init:
        return "Failed"
    is_initialized = all(c.has_ended_well for c in inits)
    has_to_start = any(c.state == "waiting" and not c.restarts for c in mains)
    if not is_initialized or has_to_start:
        return "Pending"
    if all(c.state == "terminated" and not must_restart(policy, c.exit_code) for c in mains):
        if all(c.exit_code == 0 for c in mains):
            return "Succeeded"
        return "Failed"
    return "Running"


def build_status(containers: Sequence[ContainerFacts], *, policy: str, address: str, start_time: str) -> Object:
    """Returns the pod's status, for a strategic merge patch (PodScheduled is the scheduler's and stays)."""
    mains = [c for c in containers if not c.is_init]
    phase = pod_phase(containers, policy=policy)
    are_ready = phase == "Running" and all(c.state == "running" and c.is_ready for c in mains)
    has_begun = all(c.has_ended_well for c in containers if c.is_init)
    status: Object = {
        "phase": phase,
        "startTime": start_time,
        "hostIP": NODE_ADDRESS,
        "hostIPs": [{"ip": NODE_ADDRESS}],
        "containerStatuses": [container_status(c) for c in mains],
        "conditions": [
            _condition("Initialized", has_begun, phase),
            _condition("ContainersReady", are_ready, phase),
            _condition("Ready", are_ready, phase),
        ],
    }
    if address:
        # Address lists are merged, and the address from an earlier agent must not stay.
        status |= {"podIP": address, "podIPs": [{"$patch": "replace"}, {"ip": address}]}
    inits = [container_status(c) for c in containers if c.is_init]
    if inits:
        status["initContainerStatuses"] = inits
    return status


def container_status(facts: ContainerFacts) -> Object:
    states: Mapping[str, Object] = {
        "waiting": {"reason": facts.reason, "message": facts.message},
        "running": {"startedAt": facts.started_at},
        "terminated": {
            "exitCode": facts.exit_code,
            "reason": facts.reason,
            "message": facts.message,
            "startedAt": facts.started_at,
            "finishedAt": facts.finished_at,
            "containerID": facts.container_id,
        },
    }
    state = {key: value for key, value in states[facts.state].items() if value != ""}
    return {
        "name": facts.name,
        "image": facts.image,
        "imageID": ENVIRONMENT_NOTE,
        "containerID": facts.container_id,
        "restartCount": facts.restarts,
        "ready": facts.state == "running" and facts.is_ready,
        "started": facts.state == "running",
        "state": {facts.state: state},
    }


def _condition(type_: str, is_true: bool, phase: str) -> Object:
    condition = {"type": type_, "status": "True" if is_true else "False"}
    if not is_true:
        condition["reason"] = "ContainersNotReady"
        if phase in ("Succeeded", "Failed"):
            condition["reason"] = "PodCompleted"
    return condition


class PodStatus:
    """The state of one pod's containers, by name; `publish` writes it.

    Attributes:
        facts: the runner of a container changes its facts and then publishes them.
        policy: the pod's restartPolicy.
    """

    def __init__(self, client: KubeClient, pod: Object, place: PodPlace, *, on_change: Callable[[], None]) -> None:
        """`on_change` is called before each publication."""
        self._client = client
        self._metadata = pod["metadata"]
        self._place = place
        self._on_change = on_change
        self._start_time = now_text()
        self._transitions: dict[str, tuple[str, str]] = {}  # by condition: its status, and since when
        self._lock = asyncio.Lock()
        self._changes = 0
        self._written = 0
        self.policy = str(pod["spec"].get("restartPolicy", "Always"))
        self.facts = {
            container["name"]: ContainerFacts(container["name"], container.get("image", ""), is_init=is_init)
            for is_init, container in containers_of(pod)
        }

    @property
    def phase(self) -> str:
        return pod_phase(list(self.facts.values()), policy=self.policy)

    @property
    def is_ready(self) -> bool:
        """Returns whether all its containers run and pass their readiness probes, if any."""
        mains = [facts for facts in self.facts.values() if not facts.is_init]
        return all(facts.state == "running" and facts.is_ready for facts in mains)

    def has_ended(self, container: str) -> bool:
        """Returns whether it has ended for good; true of a container that the pod does not have."""
        facts = self.facts.get(container)
        return facts is None or (facts.state == "terminated" and not must_restart(self.policy, facts.exit_code))

    def end(self, name: str, *, code: int, message: str, container_id: str, reason: str = "") -> None:
        facts = self.facts[name]
        self.facts[name] = replace(
            facts,
            state="terminated",
            exit_code=code,
            reason=reason or ("Completed" if code == 0 else "Error"),
            message=message,
            finished_at=now_text(),
            started_at=facts.started_at or now_text(),
            container_id=container_id,
        )

    async def wait_for(self, reason: str, message: str, *, only: str = "") -> None:
        """Publishes what the waiting containers, or one of them, wait for."""
        for name, facts in self.facts.items():
            if facts.state == "waiting" and only in ("", name):
                self.facts[name] = replace(facts, reason=reason, message=message[:1000])
        await self.publish()

    async def publish(self) -> None:
        """Patches the status. What the API server rejects, or does not accept in time, goes with the next change."""
        self._on_change()
        self._changes += 1
        number = self._changes
        # One after the other, or an older status could come last.
        async with self._lock:
            # Otherwise an earlier call that was still retrying has written this change too.
            if self._written < number:
                await self._write()

    async def _write(self) -> None:
        """Sends the facts until the API server answers; each try sends the latest."""
        namespace = self._metadata["namespace"]
        name = self._metadata["name"]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PUBLISH_SECONDS
        pause = FIRST_PAUSE_SECONDS
        while True:
            number = self._changes
            body = {"metadata": {"uid": self._metadata["uid"]}, "status": self._build()}
            try:
                await self._client.patch(POD, name, body, is_strategic=True, namespace=namespace, subresource="status")
                break
            except (Gone, Conflict, Denied) as error:
                log.info("status of %s/%s was not accepted: %s", namespace, name, error)
                break
            except KubeError as error:
                log.warning("status of %s/%s: %s", namespace, name, error)
                if loop.time() >= deadline:
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._written = number

    def _build(self) -> Object:
        facts = list(self.facts.values())
        address = self._place.address
        status = build_status(facts, policy=self.policy, address=address, start_time=self._start_time)
        now = now_text()
        for condition in status["conditions"]:
            before, since = self._transitions.get(condition["type"], ("", now))
            condition["lastTransitionTime"] = since if before == condition["status"] else now
            self._transitions[condition["type"]] = condition["status"], condition["lastTransitionTime"]
        return status


def containers_of(pod: Object) -> list[tuple[bool, Object]]:
    """Returns each container with whether it is an init container; init containers come first."""
    spec = pod["spec"]
    inits = [(True, container) for container in spec.get("initContainers") or []]
    return inits + [(False, container) for container in spec["containers"]]
