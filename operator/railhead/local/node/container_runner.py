"""The lifecycle of one container of a pod: environment, start, readiness, end, restart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from railhead.contract.times import now_text
from railhead.kube.types import Object
from railhead.local import in_pods
from railhead.local.node.container import RunningContainer, start_container
from railhead.local.node.environment import MissingReference, build_command, build_environment, field_value
from railhead.local.node.identity import give_identity
from railhead.local.node.place import Place
from railhead.local.node.pod_state import exit_code_of, must_restart, restart_delay_seconds
from railhead.local.node.pod_status import PodStatus
from railhead.local.node.readiness import watch_readiness
from railhead.local.node.stop import StopRequest
from railhead.local.node.volumes import VolumeMaker, mount_map

REFERENCE_PAUSE_SECONDS = 5.0  # until the next look-up of a missing ConfigMap or Secret
MESSAGE_BYTES = 4096
CANNOT_START = 128
# The API reserves them for us; the driver adds its own values.
IN_PODS = {
    "PYTHONPATH": str(Path(in_pods.__file__).parent),
    "RAY_TRAIN_CALLBACKS": "lightgbm_loopback.LoopbackCallback",
}


@dataclass(frozen=True)
class PodContext:
    """What the containers of one pod share."""

    pod: Object
    place: Place
    status: PodStatus
    stop: StopRequest
    volumes: VolumeMaker

    def log_file(self, container: str) -> Path:
        return self.place.folder / "logs" / f"{container}.log"


class ContainerRunner:
    """Runs one container until it has ended for good, or the pod is stopped."""

    def __init__(self, context: PodContext, container: Object, folders: Mapping[str, Path], *, is_init: bool) -> None:
        """`folders` are the pod's volumes, by name."""
        self._context = context
        self._container = container
        self._folders = folders
        self._is_init = is_init
        self._name = str(container["name"])
        self._folder = context.place.folder / self._name
        self._message_file = context.place.folder / f"{self._name}.end"

    async def run(self) -> bool:
        """Runs it, and restarts it as the policy demands; returns whether it succeeded."""
        status, stop = self._context.status, self._context.stop
        while True:
            code = await self._run_once()
            if stop.is_made or not must_restart(status.policy, code, is_init=self._is_init):
                return code == 0
            facts = status.facts[self._name]
            delay = restart_delay_seconds(facts.restarts)
            message = f"back-off {delay:.0f}s restarting failed container"
            status.facts[self._name] = replace(
                facts, state="waiting", reason="CrashLoopBackOff", message=message, restarts=facts.restarts + 1
            )
            await status.publish()
            await stop.pause(delay)

    async def _run_once(self) -> int:
        status = self._context.status
        facts = status.facts[self._name]
        container_id = f"local://{self._context.pod['metadata']['uid']}/{self._name}/{facts.restarts}"
        self._message_file.unlink(missing_ok=True)
        try:
            running = await self._start(container_id)
        except (OSError, MissingReference) as error:
            message = f"cannot start: {error}"
            status.end(self._name, code=CANNOT_START, message=message, container_id=container_id, reason="StartError")
            await status.publish()
            return CANNOT_START
        # From its start on, as the API server may be unavailable when its state is published.
        ending = asyncio.create_task(self._end_when_stopped(running))
        try:
            is_ready = not self._container.get("readinessProbe")
            facts = replace(facts, state="running", reason="", message="", is_ready=is_ready)
            status.facts[self._name] = replace(facts, started_at=now_text(), container_id=container_id)
            await status.publish()
            code = await self._wait(running)
        finally:
            ending.cancel()
        status.end(self._name, code=code, message=self._read_message(), container_id=container_id)
        await status.publish()
        return code

    async def _start(self, container_id: str) -> RunningContainer:
        mounts = mount_map(self._container, self._folders)
        mounts[self._container.get("terminationMessagePath") or "/dev/termination-log"] = str(self._message_file)
        env = await self._environment(mounts)
        command = build_command(self._container, mounts=mounts, values=env)
        log_file = self._context.log_file(self._name)
        return await start_container(command, env=env, marker=container_id, folder=self._folder, log=log_file)

    async def _wait(self, running: RunningContainer) -> int:
        """Its exit code; readiness is published meanwhile."""
        address = self._context.place.address
        watching = asyncio.create_task(watch_readiness(self._container, address=address, report=self._publish_ready))
        try:
            return exit_code_of(await running.wait())
        finally:
            watching.cancel()

    async def _publish_ready(self, is_ready: bool) -> None:
        """Publishes the result of a readiness probe."""
        status = self._context.status
        status.facts[self._name] = replace(status.facts[self._name], is_ready=is_ready)
        await status.publish()

    async def _end_when_stopped(self, running: RunningContainer) -> None:
        """SIGTERM when the pod is stopped, and SIGKILL after its grace period."""
        await self._context.stop.wait()
        running.terminate()
        await self._context.stop.wait_grace()
        running.kill()

    def _read_message(self) -> str:
        if not self._message_file.exists():
            return ""
        return self._message_file.read_bytes()[:MESSAGE_BYTES].decode(errors="replace")

    async def _environment(self, mounts: Mapping[str, str]) -> dict[str, str]:
        """Waits (CreateContainerConfigError) until everything that it refers to exists."""
        while True:
            needed = _references(self._container)
            data = {(kind, name): await self._context.volumes.data(kind, name) for kind, name in needed}
            try:
                return self._build_environment(mounts, data)
            except MissingReference as error:
                await self._context.status.wait_for("CreateContainerConfigError", str(error), only=self._name)
            await self._context.stop.pause(REFERENCE_PAUSE_SECONDS)

    def _build_environment(
        self, mounts: Mapping[str, str], data: Mapping[tuple[str, str], Mapping[str, str] | None]
    ) -> dict[str, str]:
        pod, place = self._context.pod, self._context.place
        env = build_environment(
            self._container,
            mounts=mounts,
            fields=lambda path: field_value(pod, path, address=place.address, node_address=place.node_address),
            lookup=lambda kind, name: data.get((kind, name)),
        )
        # A device plugin decides this, whatever the pod specifies; without GPUs the pod's value stays.
        if place.gpus:
            gpus = ",".join(map(str, place.gpus))
            env |= {"CUDA_VISIBLE_DEVICES": gpus, "NVIDIA_VISIBLE_DEVICES": gpus}
        else:
            env.setdefault("CUDA_VISIBLE_DEVICES", "")
        env |= give_identity(self._container, mounts, folder=place.folder, server=place.server)
        return {**env, **IN_PODS, "RAILHEAD_HOSTS_FILE": str(place.hosts_file)}


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
