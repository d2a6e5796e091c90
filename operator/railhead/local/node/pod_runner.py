"""The life of one pod on this node: volumes, init containers, containers, exit, deletion.

Facts go to `pod_state.build_status`; what it says is patched into the pod's status.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, KubeError
from railhead.kube.kinds import POD
from railhead.local.node.container import RunningContainer, start_container
from railhead.local.node.environment import MissingReference, NotPossible, build_command, build_environment, field_value
from railhead.local.node.events import warn_of_pod
from railhead.local.node.identity import give_identity
from railhead.local.node.pod_state import (
    ContainerFacts,
    build_status,
    exit_code_of,
    must_restart,
    pod_phase,
    restart_delay_seconds,
)
from railhead.local.node.readiness import watch_readiness
from railhead.local.node.volumes import VolumeMaker, mount_map, remove_folder

log = logging.getLogger(__name__)

Object = dict[str, Any]
RETRY_SECONDS = 0.3  # the Node authorizer learns of a new pod's references a moment after the pod is bound
RETRY_LIMIT_SECONDS = 5.0
MESSAGE_BYTES = 4096


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Place:
    """What the node gives a pod."""

    folder: Path
    address: str
    node_address: str
    hosts_file: Path
    gpus: tuple[int, ...]
    server: str = ""


class PodRunner:
    """Runs one pod. `run()` ends when its containers have ended for good or the pod was stopped."""

    def __init__(
        self, client: KubeClient, pod: Object, place: Place, *, on_ready: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self.pod = pod
        self.place = place
        self._policy = pod["spec"].get("restartPolicy", "Always")
        self._start_time = now_text()
        self._facts = {c["name"]: self._initial(c, is_init=i) for i, c in _containers(pod["spec"])}
        self._running: dict[str, RunningContainer] = {}
        self._conditions: dict[str, Object] = {}
        self._stopping = asyncio.Event()
        self._grace = 30.0
        self._publish_lock = asyncio.Lock()
        self._on_ready = on_ready  # called when it has become ready, or is no longer
        self.is_released = False  # the agent has taken back what the node gave it

    @property
    def key(self) -> tuple[str, str]:
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    def log_file(self, container: str) -> Path:
        return self.place.folder / "logs" / f"{container}.log"

    def has_ended(self, container: str) -> bool:
        facts = self._facts.get(container)
        return facts is None or (facts.state == "terminated" and not must_restart(self._policy, facts.exit_code))

    @property
    def holds_devices(self) -> bool:
        """No longer from its last status on: the next pod may be bound before that one is acknowledged."""
        phase = pod_phase(list(self._facts.values()), policy=self._policy)
        return not self.is_released and phase not in ("Succeeded", "Failed")

    @property
    def is_ready(self) -> bool:
        """Do all its containers run, and say so where they have a readiness probe?"""
        mains = [facts for facts in self._facts.values() if not facts.is_init]
        return all(facts.state == "running" and facts.is_ready for facts in mains)

    def stop(self, grace_seconds: float) -> None:
        """Ends the containers: SIGTERM, then after the grace SIGKILL. A second call may shorten the grace."""
        self._grace = min(self._grace, grace_seconds) if self._stopping.is_set() else grace_seconds
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def stopped(self) -> None:
        await self._stopping.wait()

    async def run(self) -> None:
        """Starts everything and waits for its end; the last status is published."""
        stopper = asyncio.create_task(self._stop_when_told())
        try:
            volumes = await self._prepare()
            for is_init, container in _containers(self.pod["spec"]):
                if is_init and not await self._run_container(container, volumes, is_init=True):
                    return
            mains = [c for is_init, c in _containers(self.pod["spec"]) if not is_init]
            lives = (self._run_container(c, volumes, is_init=False) for c in mains)
            # The end of all is waited for: one that was stopped before it began must not leave another one behind.
            ends = await asyncio.gather(*lives, return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
        finally:
            stopper.cancel()
            await self._publish()

    async def delete(self) -> None:
        """Removes the pod object after its processes have ended, and the pod's folder."""
        namespace, name = self.key
        with contextlib.suppress(Gone, Conflict):
            await self._client.delete(POD, name, namespace=namespace, uid=self.pod["metadata"]["uid"], grace_seconds=0)
        await asyncio.to_thread(remove_folder, self.place.folder)

    async def remove(self) -> None:
        """For a pod that was deleted before it was started here."""
        self.stop(0)

    async def fail_lost(self) -> None:
        """For a pod that another agent process had started: its processes ended with that agent."""
        for name, facts in self._facts.items():
            words = "the node agent was restarted; the container ended with it"
            self._set(
                name,
                replace(
                    facts,
                    state="terminated",
                    exit_code=137,
                    reason="ContainerStatusUnknown",
                    message=words,
                    finished_at=now_text(),
                ),
            )
        await self._publish()

    async def _prepare(self) -> dict[str, Path]:
        """The volumes, tried again until everything that they refer to is there."""
        self.place.folder.mkdir(parents=True, exist_ok=True)
        maker = VolumeMaker(
            self._client,
            self.pod,
            self.place.folder,
            address=self.place.address,
            node_address=self.place.node_address,
        )
        self._maker = maker
        delay = RETRY_SECONDS
        while True:
            try:
                return await maker.make()
            except (MissingReference, KubeError, OSError) as error:
                if isinstance(error, NotPossible):
                    await self._wait_for("CreateContainerConfigError", str(error))
                elif delay > RETRY_SECONDS:
                    await warn_of_pod(self._client, self.pod, "FailedMount", str(error))
                await self._pause(delay)
                delay = min(delay * 2, RETRY_LIMIT_SECONDS)

    async def _run_container(self, container: Object, volumes: Mapping[str, Path], *, is_init: bool) -> bool:
        """Runs it, again where the policy says so; whether it ended well."""
        name = container["name"]
        while True:
            code = await self._run_once(container, volumes)
            if self._stopping.is_set() or not must_restart(self._policy, code, is_init=is_init):
                return code == 0
            facts = self._facts[name]
            restarts = facts.restarts + 1
            delay = restart_delay_seconds(restarts - 1)
            words = f"back-off {delay:.0f}s restarting failed container"
            self._set(
                name, replace(facts, state="waiting", reason="CrashLoopBackOff", message=words, restarts=restarts)
            )
            await self._publish()
            await self._pause(delay)

    async def _run_once(self, container: Object, volumes: Mapping[str, Path]) -> int:
        name = container["name"]
        message_file = self.place.folder / f"{name}.end"
        message_file.unlink(missing_ok=True)
        facts = self._facts[name]
        container_id = f"local://{self.pod['metadata']['uid']}/{name}/{facts.restarts}"
        try:
            mounts = mount_map(container, volumes)
            mounts[container.get("terminationMessagePath") or "/dev/termination-log"] = str(message_file)
            env = await self._environment(container, mounts)
            command = build_command(container, mounts=mounts, values=env)
            running = await start_container(
                command, env=env, marker=container_id, folder=self.place.folder / name, log=self.log_file(name)
            )
        except (OSError, MissingReference) as error:
            self._end(name, code=128, message=f"cannot start: {error}", container_id=container_id, reason="StartError")
            await self._publish()
            return 128
        self._running[name] = running
        probe = container.get("readinessProbe")
        facts = replace(facts, state="running", reason="", message="", is_ready=not probe)
        self._set(name, replace(facts, started_at=now_text(), container_id=container_id))
        if self._stopping.is_set():
            running.terminate()
        await self._publish()
        tell = partial(self._tell_ready, name)
        watching = asyncio.create_task(watch_readiness(container, address=self.place.address, tell=tell))
        try:
            code = exit_code_of(await running.wait())
        finally:
            watching.cancel()
        del self._running[name]
        message = message_file.read_bytes()[:MESSAGE_BYTES].decode(errors="replace") if message_file.exists() else ""
        self._end(name, code=code, message=message, container_id=container_id)
        await self._publish()
        return code

    async def _environment(self, container: Object, mounts: Mapping[str, str]) -> dict[str, str]:
        """Waits (CreateContainerConfigError) until everything that it refers to is there."""
        place = self.place
        gpus = ",".join(map(str, place.gpus))
        while True:
            needed = _references(container)
            data = {(kind, name): await self._maker.data(kind, name) for kind, name in needed}
            try:
                env = build_environment(
                    container,
                    mounts=mounts,
                    fields=lambda path: field_value(
                        self.pod, path, address=place.address, node_address=place.node_address
                    ),
                    lookup=lambda kind, name, data=data: data.get((kind, name)),  # type: ignore[misc]
                )
            except MissingReference as error:
                await self._wait_for("CreateContainerConfigError", str(error), only=container["name"])
                await self._pause(RETRY_LIMIT_SECONDS)
                continue
            # A device plugin decides this, whatever the pod says; without GPUs the pod's word stands.
            if place.gpus:
                env |= {"CUDA_VISIBLE_DEVICES": gpus, "NVIDIA_VISIBLE_DEVICES": gpus}
            else:
                env.setdefault("CUDA_VISIBLE_DEVICES", "")
            env |= give_identity(container, mounts, folder=place.folder, server=place.server)
            return {**env, "RAILHEAD_HOSTS_FILE": str(place.hosts_file)}

    async def _tell_ready(self, name: str, is_ready: bool) -> None:
        """What a readiness probe has found out."""
        self._set(name, replace(self._facts[name], is_ready=is_ready))
        await self._publish()

    async def _stop_when_told(self) -> None:
        await self._stopping.wait()
        for running in list(self._running.values()):
            running.terminate()
        while self._grace > 0:
            step = min(self._grace, 0.1)
            self._grace -= step
            await asyncio.sleep(step)
        while True:
            for running in list(self._running.values()):
                running.kill()
            await asyncio.sleep(0.5)

    async def _pause(self, seconds: float) -> None:
        """A pause that ends when the pod is stopped; then the runner ends too."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        if self._stopping.is_set():
            raise Stopped

    async def _wait_for(self, reason: str, message: str, *, only: str = "") -> None:
        for name, facts in self._facts.items():
            if facts.state == "waiting" and (not only or only == name):
                self._set(name, replace(facts, reason=reason, message=message[:1000]))
        await self._publish()

    def _initial(self, container: Object, *, is_init: bool) -> ContainerFacts:
        return ContainerFacts(name=container["name"], image=container.get("image", ""), is_init=is_init)

    def _set(self, name: str, facts: ContainerFacts) -> None:
        self._facts[name] = facts

    def _end(self, name: str, *, code: int, message: str, container_id: str, reason: str = "") -> None:
        facts = self._facts[name]
        self._facts[name] = replace(
            facts,
            state="terminated",
            exit_code=code,
            reason=reason or ("Completed" if code == 0 else "Error"),
            message=message,
            finished_at=now_text(),
            started_at=facts.started_at or now_text(),
            container_id=container_id,
        )

    async def _publish(self) -> None:
        """Patches the status; what cannot be written now is written with the next change."""
        namespace, name = self.key
        self._on_ready()
        async with self._publish_lock:
            status = build_status(
                list(self._facts.values()),
                policy=self._policy,
                address=self.place.address,
                node_address=self.place.node_address,
                start_time=self._start_time,
                now=now_text(),
            )
            for condition in status["conditions"]:
                old = self._conditions.get(condition["type"])
                if old is not None and old["status"] == condition["status"]:
                    condition["lastTransitionTime"] = old["lastTransitionTime"]
                self._conditions[condition["type"]] = condition
            body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
            for attempt in range(60):
                try:
                    await self._client.patch(
                        POD, name, body, type_="strategic", namespace=namespace, subresource="status"
                    )
                    return
                except (Gone, Conflict, Denied) as error:
                    log.info("status of %s/%s was not taken: %s", namespace, name, error)
                    return
                except KubeError as error:
                    log.warning("status of %s/%s: %s", namespace, name, error)
                    await asyncio.sleep(min(0.2 * (1 << min(attempt, 5)), 5.0))


class Stopped(Exception):
    """The pod was stopped while it waited for something."""


def _containers(spec: Object) -> list[tuple[bool, Object]]:
    return [*((True, c) for c in spec.get("initContainers") or []), *((False, c) for c in spec["containers"])]


def _references(container: Object) -> set[tuple[str, str]]:
    found = set()
    for item in container.get("env") or []:
        source = item.get("valueFrom") or {}
        if "configMapKeyRef" in source:
            found.add(("ConfigMap", source["configMapKeyRef"]["name"]))
        if "secretKeyRef" in source:
            found.add(("Secret", source["secretKeyRef"]["name"]))
    for source in container.get("envFrom") or []:
        if "configMapRef" in source:
            found.add(("ConfigMap", source["configMapRef"]["name"]))
        if "secretRef" in source:
            found.add(("Secret", source["secretRef"]["name"]))
    return found
