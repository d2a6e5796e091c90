"""The lifecycle of one pod on this node: volumes, init containers, containers, deletion."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from railhead.json_object import Object
from railhead.kube.bodies import build_event
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Gone, KubeError
from railhead.kube.kinds import EVENT, POD
from railhead.local.node.container import ContainerRunner, PodContext, StopRequest
from railhead.local.node.container_env import MissingReference, NotPossible
from railhead.local.node.pod_status import PodPlace, PodStatus, containers_of
from railhead.local.node.volumes import VolumeMaker

log = logging.getLogger(__name__)

# The Node authorizer learns of a new pod's references a moment after the pod is bound.
RETRY_SECONDS = 0.3
RETRY_LIMIT_SECONDS = 5.0


class PodRunner:
    """Runs one pod. `run()` ends when its containers have ended for good or the pod was stopped."""

    def __init__(self, client: KubeClient, pod: Object, place: PodPlace, *, on_change: Callable[[], None]) -> None:
        """`on_change` is called when the pod may have become ready or unready."""
        self._client = client
        self.status = PodStatus(client, pod, place, on_change=on_change)
        self._stop = StopRequest()
        volumes = VolumeMaker(client, pod, place.folder, address=place.address)
        self._context = PodContext(pod, place, self.status, self._stop, volumes)
        self.pod = pod
        self.place = place
        self.is_released = False  # the agent has freed its address and GPUs

    @property
    def key(self) -> tuple[str, str]:
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    def log_file(self, container: str) -> Path:
        return self._context.log_file(container)

    @property
    def holds_devices(self) -> bool:
        """False from its last status on: the next pod may be bound before that status is acknowledged."""
        return not self.is_released and self.status.phase not in ("Succeeded", "Failed")

    @property
    def is_served(self) -> bool:
        """Returns whether a Service leads to it."""
        return self.status.is_ready and not self.is_released and not self._stop.is_made

    def stop(self, grace_seconds: float) -> None:
        """Ends the containers: SIGTERM, then SIGKILL after the grace period. A second call may shorten it."""
        self._stop.make(grace_seconds)

    async def stopped(self) -> None:
        await self._stop.wait()

    async def run(self) -> None:
        """Starts everything and waits for its end; the last status is published. Raises PodStopped."""
        try:
            folders = await self._make_volumes()
            mains = []
            for is_init, container in containers_of(self.pod):
                runner = ContainerRunner(self._context, container, folders, is_init=is_init)
                if not is_init:
                    mains.append(runner)
                elif not await runner.run():
                    return
            # Waits for all of them: one that was stopped before it started must not leave another one running.
            ends = await asyncio.gather(*(runner.run() for runner in mains), return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
        finally:
            await self.status.publish()

    async def delete(self) -> None:
        """Removes the pod object after its processes have ended, and the pod's folder, but no volume elsewhere."""
        namespace, name = self.key
        with contextlib.suppress(Gone, Conflict):
            await self._client.delete(POD, name, namespace=namespace, uid=self.pod["metadata"]["uid"], grace_seconds=0)
        await asyncio.to_thread(shutil.rmtree, self.place.folder, ignore_errors=True)

    async def remove(self) -> None:
        """Ends a pod that was deleted before it was started here."""
        self.stop(0)

    async def fail_lost(self) -> None:
        """Fails a pod that an earlier agent process started: its processes ended with that agent."""
        message = "the node agent was restarted; the container ended with it"
        for name in self.status.facts:
            self.status.end(name, code=137, message=message, container_id="", reason="ContainerStatusUnknown")
        await self.status.publish()

    async def _make_volumes(self) -> dict[str, Path]:
        """Returns the volumes' folders by name; retries until everything that they refer to exists."""
        self.place.folder.mkdir(parents=True, exist_ok=True)
        delay = RETRY_SECONDS
        while True:
            try:
                return await self._context.volumes.make()
            except (MissingReference, KubeError, OSError) as error:
                if isinstance(error, NotPossible):
                    await self.status.wait_for("CreateContainerConfigError", str(error))
                elif delay > RETRY_SECONDS:
                    await warn_of_pod(self._client, self.pod, "FailedMount", str(error))
                await self._stop.pause(delay)
                delay = min(delay * 2, RETRY_LIMIT_SECONDS)


async def warn_of_pod(client: KubeClient, pod: Object, reason: str, message: str) -> None:
    """Posts an Event as a kubelet does, each message once: some reasons why a pod does not start appear nowhere else.

    A failure is only logged.
    """
    metadata = pod["metadata"]
    about = {"kind": "Pod", "apiVersion": "v1", **{key: metadata[key] for key in ("namespace", "name", "uid")}}
    event = build_event(about, type_="Warning", reason=reason, message=message, component="kubelet")
    try:
        await client.create(EVENT, event, namespace=metadata["namespace"])
    except Conflict:
        pass  # already posted
    except KubeError as error:
        log.warning("event %s of pod %s was not posted: %s", reason, metadata["name"], error)
