"""The agent registers its node, keeps it alive by its Lease, watches its pods, keeps one runner for each, and serves
their logs.

The server of logs is the part of a kubelet's HTTPS API that `kubectl logs` needs. Only the API server's certificate is
accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from railhead.contract.times import now_text
from railhead.json_object import Object
from railhead.kube.bodies import keep_all
from railhead.kube.client import KubeClient, Scope
from railhead.kube.clock import micro_now
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.informer import Informer
from railhead.kube.kinds import LEASE, NODE, POD, SERVICE
from railhead.listener import Listener, serve_within
from railhead.local.addresses import NODE_ADDRESS, AddressPool
from railhead.local.control_plane.binaries import ARCHITECTURES, KUBERNETES_VERSION
from railhead.local.control_plane.servers import NODE_NAME
from railhead.local.node.container import PodStopped
from railhead.local.node.pod_runner import PodRunner
from railhead.local.node.pod_status import PodPlace
from railhead.local.session import TEMP_PREFIX, Capacity

log = logging.getLogger(__name__)

GPU = "nvidia.com/gpu"
LEASE_NAMESPACE = "kube-node-lease"
RENEW_SECONDS = 10.0
MAX_PODS = 250
FOLLOW_SECONDS = 0.2
CHUNK_BYTES = 65536
# On loopback another user of the machine may connect, and has no certificate.
MOST_STRANGERS = 64
STRANGER_SECONDS = 5.0


class Agent:
    """Runs the pods that are bound to this node."""

    def __init__(self, client: KubeClient, capacity: Capacity, *, server: str = "") -> None:
        """`server`: URL of the API server, for pods that talk to it."""
        self._client = client
        self._gpus = capacity.gpus
        self._server = server
        self._pool = AddressPool()
        # Short, because unix sockets are created below it.
        self.folder = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX))
        self._hosts = self.folder / "hosts"
        self._hosts.write_text("")
        self._written = ""
        self._number = 0
        self._is_closing = False
        self.runners: dict[str, PodRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        pods = Scope(POD, field_selector=f"spec.nodeName={NODE_NAME}")
        self.informer = Informer(client, pods, on_change=self._on_change, slim=keep_all)
        self.services = Informer(client, Scope(SERVICE), on_change=lambda old, new: self._write_hosts(), slim=keep_all)

    def find(self, namespace: str, name: str) -> PodRunner | None:
        return next((r for r in self.runners.values() if r.key == (namespace, name)), None)

    async def close(self) -> None:
        """Kills all pods' processes and removes the folder; the pods' objects stay."""
        self._is_closing = True
        for runner in self.runners.values():
            runner.stop(0)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._pool.close()

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or {}
        metadata = pod["metadata"]
        runner = self.runners.get(metadata["uid"])
        if new is None or metadata.get("deletionTimestamp"):
            if runner is not None:
                runner.stop(float(metadata.get("deletionGracePeriodSeconds") or 0) if new else 0)
            elif new is not None:
                self._begin(new, PodRunner.remove)
        elif runner is None:
            phase = (new.get("status") or {}).get("phase")
            if phase == "Running":
                self._begin(new, PodRunner.fail_lost)
            elif phase not in ("Succeeded", "Failed"):
                self._begin(new, PodRunner.run)

    def _begin(self, pod: Object, live: Callable[[PodRunner], Awaitable[None]]) -> None:
        uid = pod["metadata"]["uid"]
        self.runners[uid] = runner = PodRunner(self._client, pod, self._place(pod), on_change=self._write_hosts)
        self._write_hosts()
        task = asyncio.create_task(self._live(uid, runner, live))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
            # An ended pod keeps its logs until it is deleted.
            await runner.stopped()
            if not self._is_closing:
                await runner.delete()
        except KubeError as error:
            log.warning("pod %s/%s was not removed: %s", *runner.key, error)
        finally:
            self.runners.pop(uid, None)
            self._write_hosts()

    def _place(self, pod: Object) -> PodPlace:
        self._number += 1
        count = sum(
            int((c.get("resources") or {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"].get("containers") or []
        )
        held = {gpu for runner in self.runners.values() if runner.holds_devices for gpu in runner.place.gpus}
        gpus = tuple(gpu for gpu in range(self._gpus) if gpu not in held)[:count]
        return PodPlace(
            folder=self.folder / str(self._number),
            address=self._pool.take(),
            hosts_file=self._hosts,
            gpus=gpus,
            server=self._server,
        )

    def _release(self, runner: PodRunner) -> None:
        """Frees the address and GPUs of a terminated pod; the pod itself may stay for long."""
        runner.is_released = True
        self._pool.give_back(runner.place.address)
        self._write_hosts()

    def _write_hosts(self) -> None:
        """Writes what a cluster's DNS would resolve for the pods here: `address name` lines, replaced atomically."""
        text = "".join(f"{runner.place.address} {name}\n" for name, runner in self._list_names())
        if text == self._written:
            return
        self._written = text
        new = self._hosts.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self._hosts)

    def _list_names(self) -> Iterator[tuple[str, PodRunner]]:
        """Yields host names as a resolver in the same namespace finds them, and the names of Services with the ready
        pods behind them; ports are the pods' own."""
        for runner in self.runners.values():
            spec = runner.pod["spec"]
            if spec.get("hostname") and spec.get("subdomain") and not runner.is_released:
                yield f"{spec['hostname']}.{spec['subdomain']}", runner
        for service in self.services.items():
            metadata = service["metadata"]
            selector = service["spec"].get("selector") or {}
            for runner in self.runners.values():
                labels = runner.pod["metadata"].get("labels") or {}
                is_selected = bool(selector) and selector.items() <= labels.items()
                if is_selected and runner.is_served and runner.key[0] == metadata["namespace"]:
                    yield f"{metadata['name']}.{metadata['namespace']}.svc", runner


def build_node_status(capacity: Capacity, *, port: int, now: str) -> Object:
    """Returns the node's status as a kubelet would report it."""
    resources = {
        "cpu": str(capacity.cpus),
        "memory": f"{capacity.memory // 1024}Ki",
        "pods": str(MAX_PODS),
        **({GPU: str(capacity.gpus)} if capacity.gpus else {}),
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "AgentReady",
        "message": "pods run as processes on this machine; images are not pulled",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [ready],
        "addresses": [
            {"type": "InternalIP", "address": NODE_ADDRESS},
            {"type": "Hostname", "address": NODE_NAME},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "operatingSystem": "linux",
            "kubeletVersion": f"v{KUBERNETES_VERSION}-railhead-local",
            "containerRuntimeVersion": "railhead://processes",
            "kernelVersion": platform.release(),
            "osImage": platform.system(),
            "bootID": "",
            "machineID": "",
            "systemUUID": "",
            "kubeProxyVersion": "",
        },
    }


async def register(client: KubeClient, capacity: Capacity, *, port: int) -> None:
    """Creates the Node, or takes over an earlier agent's."""
    labels = {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME, "labels": labels}}
    with contextlib.suppress(Conflict):
        await client.create(NODE, node)
    now = now_text()
    body = {"status": build_node_status(capacity, port=port, now=now)}
    await client.patch(NODE, NODE_NAME, body, is_strategic=True, subresource="status")


async def keep_alive(client: KubeClient, capacity: Capacity, *, port: int) -> None:
    """Renews the Lease that tells the control plane that the node is alive; runs until it is cancelled."""
    while True:
        try:
            await _renew_lease(client)
            await _be_ready(client, capacity, port=port)
        except KubeError as error:
            log.warning("the node's Lease could not be renewed: %s", error)
        await asyncio.sleep(RENEW_SECONDS)


async def _renew_lease(client: KubeClient) -> None:
    spec = {"holderIdentity": NODE_NAME, "leaseDurationSeconds": 40, "renewTime": micro_now()}
    metadata = {"name": NODE_NAME, "namespace": LEASE_NAMESPACE}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    try:
        await client.create(LEASE, lease, namespace=LEASE_NAMESPACE)
    except Conflict:
        await client.patch(LEASE, NODE_NAME, {"spec": spec}, namespace=LEASE_NAMESPACE)


async def _be_ready(client: KubeClient, capacity: Capacity, *, port: int) -> None:
    """Reports the node as ready again: after 40 s of silence, as in a restart of the API server, it stays Unknown."""
    node = await client.get(NODE, NODE_NAME)
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    if conditions.get("Ready") != "True":
        await register(client, capacity, port=port)
        log.warning("the node was considered lost, and is ready again")


def tail_offset(path: Path, lines: int) -> int:
    """Returns where the last `lines` lines begin, in bytes."""
    with path.open("rb") as file:
        found = file.readlines()
    return sum(map(len, found[: max(0, len(found) - lines)]))


async def _stream(
    response: web.StreamResponse, runner: PodRunner, container: str, *, offset: int, follow: bool
) -> None:
    path = runner.log_file(container)
    with path.open("rb") as file:
        file.seek(offset)
        while True:
            # Checked before the read, so that nothing is missed.
            has_ended = runner.status.has_ended(container)
            while data := file.read(CHUNK_BYTES):
                await response.write(data)
            if not follow or has_ended or not path.exists():
                return
            await asyncio.sleep(FOLLOW_SECONDS)


def build_app(agent: Agent, listener: Listener) -> web.Application:
    """Serves /containerLogs/{namespace}/{pod}/{container}."""

    async def container_logs(request: web.Request) -> web.StreamResponse:
        # It has a certificate of the session, and may follow a log for hours.
        listener.keep(request)
        info = request.match_info
        query = request.query
        runner = agent.find(info["namespace"], info["pod"])
        if runner is None:
            raise web.HTTPNotFound(text="no such pod on this node\n")
        path = runner.log_file(info["container"])
        if not path.exists():
            raise web.HTTPBadRequest(text=f"container {info['container']} of pod {info['pod']} has not started\n")
        lines = query.get("tailLines", "")
        offset = tail_offset(path, int(lines)) if lines.isdigit() else 0
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        follow = query.get("follow", "") in ("true", "1")
        await _stream(response, runner, info["container"], offset=offset, follow=follow)
        await response.write_eof()
        return response

    app = web.Application()
    app.add_routes([web.get("/containerLogs/{namespace}/{pod}/{container}", container_logs)])
    return app


@asynccontextmanager
async def serve_logs(agent: Agent, *, pki: Path) -> AsyncIterator[int]:
    """Serves while the context lasts; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "node.crt", pki / "node.key")
    context.load_verify_locations(pki / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    listener = Listener(context, most=MOST_STRANGERS, seconds=STRANGER_SECONDS)
    with socket.create_server((NODE_ADDRESS, 0), backlog=MOST_STRANGERS) as listening:
        async with serve_within(listener, build_app(agent, listener), listening):
            yield int(listening.getsockname()[1])
