"""One container of a pod as processes on this machine: environment, start, readiness, stop, end, restart.

It has its own session, one log file and one exit code. When its first process ends, all other
processes of the container are killed, as in a PID namespace; daemonised ones are found by the
marker in their environment, or by their working folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import aiohttp

from railhead.contract.times import now_text
from railhead.json_object import Object
from railhead.local import in_pods
from railhead.local.node.container_env import MissingReference, build_command, build_environment, field_value
from railhead.local.node.input_files import rewrite_input
from railhead.local.node.pod_status import PodPlace, PodStatus, exit_code_of, must_restart, restart_delay_seconds
from railhead.local.node.volumes import VolumeMaker, give_identity, mount_map
from railhead.local.processes import MARKER, die_with_parent, end_marked

CONTAINER_MARKER = "RAILHEAD_LOCAL_CONTAINER"
REFERENCE_PAUSE_SECONDS = 5.0  # until the next look-up of a missing ConfigMap or Secret
MESSAGE_BYTES = 4096
CANNOT_START = 128
# What a container inherits from the agent's own environment: nothing that could be a secret.
# The session's marker identifies it even after the agent has crashed.
INHERITED = (MARKER, "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
# The API reserves them for us; the driver adds its own values.
IN_PODS = {
    "PYTHONPATH": str(Path(in_pods.__file__).parent),
    "RAY_TRAIN_CALLBACKS": "lightgbm_loopback.LoopbackCallback",
}
Report = Callable[[bool], Awaitable[None]]


def base_environment() -> dict[str, str]:
    """Returns the host's environment in place of the image's: this interpreter comes first on PATH."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]
    return {"HOME": os.environ.get("HOME", "/"), **kept, "PATH": os.pathsep.join(path)}


class PodStopped(Exception):
    """The pod was stopped while it waited for something."""


class StopRequest:
    """The request to stop a pod's containers, made once; later ones can only shorten the grace period."""

    def __init__(self) -> None:
        self._made = asyncio.Event()
        self._shortened = asyncio.Event()
        self._deadline = 0.0

    @property
    def is_made(self) -> bool:
        return self._made.is_set()

    def make(self, grace_seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + grace_seconds
        if not self.is_made or deadline < self._deadline:
            self._deadline = deadline
            self._shortened.set()
        self._made.set()

    async def wait(self) -> None:
        await self._made.wait()

    async def wait_grace(self) -> None:
        """Waits until the grace period of the request is over."""
        while (seconds := self._deadline - asyncio.get_running_loop().time()) > 0:
            self._shortened.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._shortened.wait(), seconds)

    async def pause(self, seconds: float) -> None:
        """Raises PodStopped as soon as the request is made."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._made.wait(), seconds)
        if self.is_made:
            raise PodStopped


@dataclass(frozen=True)
class PodContext:
    """What the containers of one pod share."""

    pod: Object
    place: PodPlace
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
        status = self._context.status
        stop = self._context.stop
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
            process = await self._start(container_id)
        except (OSError, MissingReference) as error:
            message = f"cannot start: {error}"
            status.end(self._name, code=CANNOT_START, message=message, container_id=container_id, reason="StartError")
            await status.publish()
            return CANNOT_START
        # From its start on, as the API server may be unavailable when its state is published.
        ending = asyncio.create_task(self._end_when_stopped(process))
        try:
            is_ready = not self._container.get("readinessProbe")
            facts = replace(facts, state="running", reason="", message="", is_ready=is_ready)
            status.facts[self._name] = replace(facts, started_at=now_text(), container_id=container_id)
            await status.publish()
            code = await self._wait(process, container_id)
        finally:
            ending.cancel()
        status.end(self._name, code=code, message=self._read_message(), container_id=container_id)
        await status.publish()
        return code

    async def _start(self, container_id: str) -> asyncio.subprocess.Process:
        """Starts the first process of the container, in its private folder. Raises OSError, MissingReference."""
        mounts = mount_map(self._container, self._folders)
        mounts[self._container.get("terminationMessagePath") or "/dev/termination-log"] = str(self._message_file)
        env = await self._environment(mounts)
        command = build_command(self._container, mounts=mounts, values=env)
        log_file = self._context.log_file(self._name)
        log_file.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        with log_file.open("ab") as out:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**base_environment(), **env, CONTAINER_MARKER: container_id},
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    async def _wait(self, process: asyncio.subprocess.Process, container_id: str) -> int:
        """Returns its exit code, after everything that it started has ended; readiness is published meanwhile."""
        address = self._context.place.address
        watching = asyncio.create_task(watch_readiness(self._container, address=address, report=self._publish_ready))
        try:
            code = await process.wait()
            await asyncio.to_thread(end_marked, CONTAINER_MARKER, container_id, folder=self._folder)
            return exit_code_of(code)
        finally:
            watching.cancel()

    async def _publish_ready(self, is_ready: bool) -> None:
        """Publishes the result of a readiness probe."""
        status = self._context.status
        status.facts[self._name] = replace(status.facts[self._name], is_ready=is_ready)
        await status.publish()

    async def _end_when_stopped(self, process: asyncio.subprocess.Process) -> None:
        """Sends SIGTERM when the pod is stopped, and SIGKILL after its grace period."""
        with contextlib.suppress(ProcessLookupError):
            await self._context.stop.wait()
            process.terminate()
            await self._context.stop.wait_grace()
            process.kill()

    def _read_message(self) -> str:
        if not self._message_file.exists():
            return ""
        return self._message_file.read_bytes()[:MESSAGE_BYTES].decode(errors="replace")

    async def _environment(self, mounts: Mapping[str, str]) -> dict[str, str]:
        """Waits (CreateContainerConfigError) until everything that it refers to exists."""
        while True:
            try:
                return await self._build_environment(mounts)
            except MissingReference as error:
                await self._context.status.wait_for("CreateContainerConfigError", str(error), only=self._name)
            await self._context.stop.pause(REFERENCE_PAUSE_SECONDS)

    async def _build_environment(self, mounts: Mapping[str, str]) -> dict[str, str]:
        pod = self._context.pod
        place = self._context.place
        env = await build_environment(
            self._container,
            mounts=mounts,
            fields=partial(field_value, pod, address=place.address),
            lookup=self._context.volumes.data,
        )
        env |= rewrite_input(env, mounts, folder=place.folder / f"{self._name}.input")
        # A device plugin decides this, whatever the pod specifies; without GPUs the pod's value stays.
        if place.gpus:
            gpus = ",".join(map(str, place.gpus))
            env |= {"CUDA_VISIBLE_DEVICES": gpus, "NVIDIA_VISIBLE_DEVICES": gpus}
        else:
            env.setdefault("CUDA_VISIBLE_DEVICES", "")
        env |= give_identity(self._container, mounts, folder=place.folder, server=place.server)
        return {**env, **IN_PODS, "RAILHEAD_HOSTS_FILE": str(place.hosts_file)}


async def watch_readiness(container: Object, *, address: str, report: Report) -> None:
    """Runs the HTTP readiness probe as a kubelet does, and reports each change, starting from not ready, until it is
    cancelled. Returns at once without a probe: the container is ready when it runs.

    A probe that is not supported here (a command, a TCP port, gRPC) counts as ready.
    """
    probe = container.get("readinessProbe")
    if not probe:
        return
    if "httpGet" not in probe:
        await report(True)
        return
    url = build_url(container, probe["httpGet"], address=address)
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    is_ready = False
    good = 0
    bad = 0
    timeout = aiohttp.ClientTimeout(total=probe.get("timeoutSeconds") or 1)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=False)) as session:
        while True:
            good, bad = (good + 1, 0) if await _answers(session, url) else (0, bad + 1)
            was_ready = is_ready
            if good >= (probe.get("successThreshold") or 1):
                is_ready = True
            elif bad >= (probe.get("failureThreshold") or 3):
                is_ready = False
            if is_ready != was_ready:
                await report(is_ready)
            await asyncio.sleep(probe.get("periodSeconds") or 10)


def build_url(container: Object, get: Object, *, address: str) -> str:
    """Returns the probe's URL; a named port is one of the container's."""
    ports = {p.get("name"): p["containerPort"] for p in container.get("ports") or []}
    port = ports.get(get["port"], get["port"])
    scheme = (get.get("scheme") or "HTTP").lower()
    host = get.get("host") or address
    path = get.get("path") or "/"
    return f"{scheme}://{host}:{port}{path}"


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, allow_redirects=False) as response:
            return 200 <= response.status < 400
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
