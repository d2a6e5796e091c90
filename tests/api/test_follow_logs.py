"""`railhead logs -f` as a process, by a user with the least rights, over what an API server and a node do to it.

The API server is real and this file's own, because it is killed; the node has only the logs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import railhead
from railhead.api import crd, names
from railhead.json_object import Object
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from railhead.local.control_plane.servers import FIRST, write_kubeconfig
from tests.api.conftest import CRDS
from tests.api.log_node import LogNode, PodLog
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.trainjobs import PATH, make_job
from tests.conftest import echo
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
PODS = "/api/v1/namespaces/default/pods"
BURST, BURST_SECONDS = 50_000, 10.0
STOPPED_SECONDS = 60
USER = "reader"
RIGHTS = [
    {"apiGroups": ["railhead.dev"], "resources": ["trainjobs"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]


class World:
    """A control plane, a node with logs, and the jobs of one test each."""

    def __init__(self, plane: ControlPlane, node: LogNode, server: ApiServer) -> None:
        self.plane, self.node, self.server = plane, node, server
        self.kubeconfig = plane.folder / f"{USER}.kubeconfig"

    def create(self, path: str, body: Object) -> Object:
        answer = self.server.request("POST", path, body)
        assert answer.status in (201, 409), answer.message
        return answer.body

    def patch_status(self, path: str, **status: object) -> None:
        answer = self.server.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE_PATCH)
        assert answer.status == 200, answer.message

    def start_job(self, name: str) -> Job:
        job = make_job()
        job["metadata"]["name"] = name
        uid = str(self.create(PATH, job)["metadata"]["uid"])
        self.patch_status(f"{PATH}/{name}", phase="Running", attempt=1)
        return Job(self, name, uid)

    def restart_api_server(self) -> None:
        self.plane.stop_one("kube-apiserver")
        self.server.close()
        self.plane.start_one("kube-apiserver")
        self.plane.wait_ready()


class Job:
    """A TrainJob whose pods the test makes."""

    def __init__(self, world: World, name: str, uid: str) -> None:
        self._world, self.name, self._uid = world, name, uid

    def start_pod(self, name: str, *, slot: int = -1) -> PodLog:
        """The pod runs, and its log is empty."""
        place = {names.LABEL_ROLE: names.WORKER, names.LABEL_SLOT: str(slot)}
        place = {names.LABEL_ROLE: names.HEAD} if slot < 0 else place
        labels = {**place, names.LABEL_JOB_UID: self._uid, names.LABEL_ATTEMPT: "1"}
        spec = {
            "nodeName": "logs",
            "automountServiceAccountToken": False,
            "containers": [{"name": names.CONTAINER, "image": "none"}],
        }
        self._world.node.logs[name] = PodLog()
        self._world.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        state = {"name": names.CONTAINER, "ready": True, "image": "none", "imageID": "", "restartCount": 0}
        running = {"startedAt": "2026-01-01T00:00:00Z"}
        containers = [{**state, "containerID": "a://b", "state": {"running": running}}]
        self._world.patch_status(f"{PODS}/{name}", phase="Running", containerStatuses=containers)
        return self._world.node.logs[name]

    def end_pod(self, name: str) -> None:
        self._world.node.logs[name].has_ended = True
        self._world.patch_status(f"{PODS}/{name}", phase="Succeeded")

    def remove_pod(self, name: str) -> None:
        self._world.node.logs[name].has_ended = True
        assert self._world.server.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}).status == 200

    def succeed(self) -> None:
        complete = {"type": "Complete", "status": "True", "reason": "Succeeded"}
        times = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
        self._world.patch_status(f"{PATH}/{self.name}", phase="Succeeded", conditions=[{**complete, **times}])


class Follower:
    """The command."""

    def __init__(self, world: World, folder: Path, *arguments: str) -> None:
        self.out, self.err = folder / "out", folder / "err"
        command = [sys.executable, "-P", "-m", "railhead.cli", "logs", *arguments, "-f"]
        env = {**os.environ, "PYTHONPATH": str(Path(railhead.__file__).parents[1])}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, "--kubeconfig", str(world.kubeconfig)], env=env, stdout=out, stderr=err
            )

    @property
    def lines(self) -> list[str]:
        return self.out.read_text().splitlines()

    @property
    def remarks(self) -> list[str]:
        return self.err.read_text().splitlines()

    def wait_for(self, line: str) -> None:
        wait_until(f"the line {line}", lambda: line in self.lines, seconds=60, tell=self.err.read_text)

    def wait_end(self) -> None:
        try:
            assert self.process.wait(60) == 0, self.err.read_text()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the command does not end: {self.err.read_text()}") from None


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), binaries=resolve(echo))
    try:
        plane.start(FIRST)
        node = LogNode(plane.pki)
        with node.serve():
            server = ApiServer(plane)
            world = World(plane, node, server)
            world.create(CRDS, crd.build_crd())
            wait_until("TrainJobs are served", lambda: server.request("GET", PATH).status == 200)
            world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            make_user(world)
            world.create("/api/v1/nodes", {"metadata": {"name": "logs"}})
            place = {"type": "InternalIP", "address": "127.0.0.1"}
            port = {"kubeletEndpoint": {"Port": node.port}}
            world.patch_status("/api/v1/nodes/logs", addresses=[place], daemonEndpoints=port)
            yield world
            server.close()
    finally:
        plane.stop()


def make_user(world: World) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    world.create(accounts, {"metadata": {"name": USER}})
    world.create(f"{rbac}/roles", {"metadata": {"name": USER}, "rules": RIGHTS})
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER}
    world.create(f"{rbac}/rolebindings", {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]})
    token = world.create(f"{accounts}/{USER}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    write_kubeconfig(world.kubeconfig, server=world.plane.server, pki=world.plane.pki, token=token)


@contextmanager
def writing(log: PodLog, prefix: str, count: int, seconds: float) -> Iterator[None]:
    """Writes numbered lines evenly in a thread; the end waits for the last one."""

    def write() -> None:
        began, done = time.monotonic(), 0
        while done < count:
            due = min(count, int(count * (time.monotonic() - began) / seconds) + 1)
            log.write(
                [f"{prefix} {number} of a line as long as those of a training loop" for number in range(done, due)]
            )
            done = due
            time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join()


def read_numbers(lines: list[str], prefix: str) -> list[int]:
    found = [line.removeprefix(f"{prefix} ") for line in lines if line.startswith(f"{prefix} ")]
    return [int(number) if (number := line.partition(" ")[0]) else -1 for line in found]


def test_restarts_of_the_api_server_and_of_a_kubelet_and_a_replaced_pod_cost_no_line(
    world: World, tmp_path: Path
) -> None:
    job = world.start_job("restarts")
    head, worker = job.start_pod("restarts-head"), job.start_pod("restarts-w0-0", slot=0)
    follower = Follower(world, tmp_path, "restarts", "--all")
    with writing(head, "h", BURST, 2 * BURST_SECONDS):
        worker.write([f"w {number}" for number in range(100)])
        follower.wait_for("[w0] w 99")
        world.restart_api_server()
        job.remove_pod("restarts-w0-0")
        other = job.start_pod("restarts-w0-1", slot=0)
        other.write([f"w {number}" for number in range(100, 200)])
        follower.wait_for("[w0] w 199")
        world.node.break_streams()
        world.restart_api_server()
    job.end_pod("restarts-head")
    job.end_pod("restarts-w0-1")
    job.succeed()
    follower.wait_end()
    assert read_numbers(follower.lines, "[head] h") == list(range(BURST)), follower.remarks
    assert read_numbers(follower.lines, "[w0] w") == list(range(200)), follower.remarks
    assert any("is interrupted" in remark for remark in follower.remarks)
    assert not any("missing" in remark for remark in follower.remarks)


def test_a_command_that_is_stopped_for_a_minute_of_a_burst_continues_with_the_next_line(
    world: World, tmp_path: Path
) -> None:
    job = world.start_job("stopped")
    head = job.start_pod("stopped-head")
    follower = Follower(world, tmp_path, "stopped")
    with writing(head, "h", BURST, BURST_SECONDS):
        wait_until("the first lines", lambda: len(follower.lines) > 1000, tell=follower.err.read_text)
        follower.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
    time.sleep(max(0.0, STOPPED_SECONDS - (time.monotonic() - began)))  # the time itself is the subject
    assert len(follower.lines) < BURST
    follower.process.send_signal(signal.SIGCONT)
    job.end_pod("stopped-head")
    job.succeed()
    follower.wait_end()
    assert read_numbers(follower.lines, "h") == list(range(BURST)), follower.remarks
    assert [each for each in follower.remarks if "stood still" in each], follower.remarks


def test_a_rotation_while_the_log_is_read_costs_no_line(world: World, tmp_path: Path) -> None:
    job = world.start_job("rotated")
    head = job.start_pod("rotated-head")
    follower = Follower(world, tmp_path, "rotated")
    with writing(head, "h", BURST, BURST_SECONDS):
        for number in range(1, 5):
            wait_until("some lines", lambda: len(follower.lines) > 10_000 * number, tell=follower.err.read_text)  # noqa: B023
            head.rotate()
    job.end_pod("rotated-head")
    job.succeed()
    follower.wait_end()
    assert read_numbers(follower.lines, "h") == list(range(BURST)), follower.remarks
    assert not any("missing" in remark for remark in follower.remarks)


def test_what_a_node_has_thrown_away_meanwhile_is_said(world: World, tmp_path: Path) -> None:
    job = world.start_job("lost")
    head = job.start_pod("lost-head")
    follower = Follower(world, tmp_path, "lost")
    head.write(["h 0", "h 1"])
    follower.wait_for("h 1")
    head.write([])
    follower.process.send_signal(signal.SIGSTOP)
    world.node.break_streams()
    head.write(["h 2"])
    head.rotate()
    time.sleep(1.1)  # the kubelet's seconds
    head.write(["h 3", "h 4"])
    follower.process.send_signal(signal.SIGCONT)
    follower.wait_for("h 4")
    job.end_pod("lost-head")
    job.succeed()
    follower.wait_end()
    assert read_numbers(follower.lines, "h") in ([0, 1, 3, 4], [0, 1, 2, 3, 4])
    [remark] = [each for each in follower.remarks if "missing" in each]
    assert "lost-head" in remark


def test_an_answer_that_breaks_off_after_the_end_of_a_pod_is_asked_for_again(world: World, tmp_path: Path) -> None:
    job = world.start_job("ended")
    head = job.start_pod("ended-head")
    head.write([f"h {number}" for number in range(100)])
    head.breaks_after = 50
    job.end_pod("ended-head")
    job.succeed()
    follower = Follower(world, tmp_path, "ended")
    follower.wait_end()
    assert read_numbers(follower.lines, "h") == list(range(100)), follower.remarks
