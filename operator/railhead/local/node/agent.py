"""The agent: watches the pods of its node and keeps one runner for each."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from railhead.api.base import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.informer import Informer
from railhead.kube.kinds import POD, SERVICE
from railhead.kube.types import keep_all
from railhead.local.addresses import AddressPool
from railhead.local.node.container import PodStopped
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import Place

log = logging.getLogger(__name__)

GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class NodeConfig:
    """Identity and capacity of this node."""

    name: str
    address: str
    cpus: int
    memory_bytes: int
    gpus: int
    server: str = ""  # URL of the API server, for pods that talk to it


class Agent:
    """Runs the pods that are bound to this node."""

    def __init__(self, client: KubeClient, config: NodeConfig) -> None:
        self._client = client
        self._config = config
        self._pool = AddressPool()
        # Short, because unix sockets are created below it.
        self.folder = Path(tempfile.mkdtemp(prefix="rh-"))
        self._hosts = self.folder / "hosts"
        self._hosts.write_text("")
        self._written: list[str] = []
        self._number = 0
        self._is_closing = False
        self.runners: dict[str, PodRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.informer = Informer(
            client, POD, on_change=self._on_change, slim=keep_all, field_selector=f"spec.nodeName={config.name}"
        )
        self.services = Informer(client, SERVICE, on_change=lambda old, new: self._write_hosts(), slim=keep_all)

    def find(self, namespace: str, name: str) -> PodRunner | None:
        return next((r for r in self.runners.values() if r.key == (namespace, name)), None)

    async def close(self) -> None:
        """Kills all pods' processes and removes the folder; the pods' objects stay."""
        self._is_closing = True
        for runner in self.runners.values():
            runner.stop(0)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._pool.close()

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            uid = (old or {})["metadata"]["uid"]
            if uid in self.runners:
                self.runners[uid].stop(0)
            return
        uid, metadata = new["metadata"]["uid"], new["metadata"]
        if metadata.get("deletionTimestamp"):
            grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
            if uid in self.runners:
                self.runners[uid].stop(grace)
            elif uid not in self._tasks:
                self._begin(new, PodRunner.remove)
        elif uid not in self._tasks:
            phase = (new.get("status") or {}).get("phase")
            if phase == "Running":
                self._begin(new, PodRunner.fail_lost)
            elif phase not in ("Succeeded", "Failed"):
                self._begin(new, PodRunner.run)

    def _begin(self, pod: Object, live: Callable[[PodRunner], Awaitable[None]]) -> None:
        uid = pod["metadata"]["uid"]
        runner = PodRunner(self._client, pod, self._place(pod), on_change=self._write_hosts)
        self.runners[uid] = runner
        self._write_hosts()
        self._tasks[uid] = asyncio.create_task(self._live(uid, runner, live))

    async def _live(self, uid: str, runner: PodRunner, live: Callable[[PodRunner], Awaitable[None]]) -> None:
        """Runs the pod, keeps it until it is deleted, then removes it."""
        try:
            try:
                await live(runner)
            except PodStopped:
                pass
            except Exception:
                log.exception("pod %s/%s", *runner.key)
            self._release(runner)
            await runner.stopped()  # an ended pod keeps its logs until somebody deletes it
            if not self._is_closing:
                await runner.delete()
        except KubeError as error:
            log.warning("pod %s/%s was not removed: %s", *runner.key, error)
        finally:
            self.runners.pop(uid, None)
            self._tasks.pop(uid, None)
            self._write_hosts()

    def _place(self, pod: Object) -> Place:
        self._number += 1
        count = sum(
            int((c.get("resources") or {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"].get("containers") or []
        )
        held = {gpu for runner in self.runners.values() if runner.holds_devices for gpu in runner.place.gpus}
        gpus = tuple(gpu for gpu in range(self._config.gpus) if gpu not in held)[:count]
        return Place(
            folder=self.folder / str(self._number),
            address=self._pool.take(),
            node_address=self._config.address,
            hosts_file=self._hosts,
            gpus=gpus,
            server=self._config.server,
        )

    def _release(self, runner: PodRunner) -> None:
        """Frees the address and GPUs of a terminated pod; the pod itself may stay for long."""
        runner.is_released = True
        self._pool.give_back(runner.place.address)
        self._write_hosts()

    def _write_hosts(self) -> None:
        """What a cluster's DNS would resolve for the pods here: `address name` lines, replaced atomically."""
        lines = []
        for runner in self.runners.values():
            spec = runner.pod["spec"]
            if spec.get("hostname") and spec.get("subdomain") and not runner.is_released:
                name = f"{spec['hostname']}.{spec['subdomain']}"  # as a resolver in the same namespace finds it
                lines.append(f"{runner.place.address} {name}\n")
        lines += [f"{runner.place.address} {name}\n" for name, runner in self._served()]
        if lines == self._written:
            return
        self._written = lines
        new = self._hosts.with_suffix(".new")
        new.write_text("".join(lines))
        os.replace(new, self._hosts)

    def _served(self) -> Iterator[tuple[str, PodRunner]]:
        """Names of Services with the ready pods behind them; ports are the pods' own."""
        for service in self.services.items():
            metadata, selector = service["metadata"], service["spec"].get("selector") or {}
            for runner in self.runners.values():
                labels = runner.pod["metadata"].get("labels") or {}
                is_selected = bool(selector) and selector.items() <= labels.items()
                if is_selected and runner.key[0] == metadata["namespace"] and self._takes_part(runner):
                    yield f"{metadata['name']}.{metadata['namespace']}.svc", runner

    @staticmethod
    def _takes_part(runner: PodRunner) -> bool:
        return runner.is_ready and not runner.is_released and not runner.is_stopping
