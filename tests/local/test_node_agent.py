"""The node agent as a process, against a real control plane: a pod's state is visible through the API."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl, build_node_role
from railhead.local.processes import MARKER, Identity, end_child, end_marked, identify, is_alive, python_command, spawn
from tests.api.server import MERGE_PATCH, ApiServer
from tests.waiting import wait_until

Object = dict[str, Any]
NAMESPACE = "node-agent"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODE = "/api/v1/nodes/local"
GPU = "nvidia.com/gpu"
NUMBERS = itertools.count(1)
# Kubernetes expands $$$$ to $$: the shell's own pid.
DEAF = "trap 'echo asked > /out/said' TERM; echo $$$$ > /out/pid; while :; do sleep 0.1; done"
POLITE = "trap 'echo asked > /out/said; exit 0' TERM; echo $$$$ > /out/pid; while :; do sleep 0.1; done"


class RunningAgent:
    """The agent's process, as the supervisor starts it. It has four GPUs."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        self._plane = plane

    def start(self) -> None:
        plane = {"plane": self._plane.folder, "server": self._plane.server}
        options = {**plane, "dir": self.folder, "cpus": 16, "memory": 32 << 30, "gpus": 4}
        command = python_command("railhead.local.node", options)
        self.process = spawn(command, log=self.folder / "log", env={**os.environ, MARKER: str(self.folder)})

    def kill(self) -> None:
        """By SIGKILL: it cannot clean up its pods."""
        self.process.kill()
        self.process.wait()

    def clean(self) -> int:
        """As a session does after a crash; returns the number of processes that were left."""
        note = self.folder / "temp-folder"
        temp = Path(note.read_text()) if note.exists() else None
        count = end_marked(MARKER, str(self.folder), folder=temp)
        if temp is not None:
            shutil.rmtree(temp, ignore_errors=True)
        return count

    def stop(self) -> None:
        end_child(self.process, grace_seconds=5)
        self.clean()


class Cluster:
    """One namespace of a cluster."""

    def __init__(self, server: ApiServer, kubectl: Kubectl) -> None:
        self.server = server
        self.kubectl = kubectl

    def create(self, kind: str, path: str, body: Object) -> None:
        answer = self.server.request("POST", path, {"apiVersion": "v1", "kind": kind, **body})
        assert answer.status in (201, 409), answer.message

    def run(self, script: str, *, volume: Object | None = None, gpus: int = 0, **spec: Any) -> str:
        """Creates a pod of one container with the volume at /out; returns its name."""
        name = f"pod-{next(NUMBERS)}"
        container: Object = {"name": "main", "image": "none", "command": ["sh", "-c", script]}
        if volume is not None:
            container["volumeMounts"] = [{"name": "out", "mountPath": "/out"}]
            spec["volumes"] = [{"name": "out", **volume}]
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}}
        spec = {"restartPolicy": "Never", "containers": [container], **spec}
        self.create("Pod", PODS, {"metadata": {"name": name}, "spec": spec})
        return name

    def status(self, pod: str) -> Object:
        answer = self.server.request("GET", f"{PODS}/{pod}")
        return dict(answer.body.get("status") or {}) if answer.status == 200 else {}

    def state(self, pod: str) -> Object:
        containers = self.status(pod).get("containerStatuses") or [{"state": {}}]
        return dict(containers[0]["state"])

    def wait_phase(self, pod: str, phase: str) -> None:
        wait_until(f"{pod} {phase}", lambda: self.status(pod).get("phase") == phase)

    def logs(self, pod: str, *options: str) -> str:
        return self.kubectl("logs", "-n", NAMESPACE, pod, *options)

    def delete(self, pod: str) -> float:
        """Returns the seconds until it is gone."""
        began = time.monotonic()
        assert self.server.request("DELETE", f"{PODS}/{pod}").status == 200
        wait_until(f"{pod} gone", lambda: self.server.request("GET", f"{PODS}/{pod}").status == 404)
        return time.monotonic() - began


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    kubectl = Kubectl(control_plane.binaries / "kubectl", control_plane.kubeconfig)
    kubectl.apply(build_node_role("local"))
    server = ApiServer(control_plane)
    cluster = Cluster(server, kubectl)
    cluster.create("Namespace", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    wait_until("the service account", lambda: server.request("GET", account).status == 200)
    yield cluster
    server.close()


@pytest.fixture(scope="module")
def agent(
    control_plane: ControlPlane, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningAgent]:
    agent = RunningAgent(control_plane, tmp_path_factory.mktemp("node"))
    agent.start()
    try:
        wait_until("the node", lambda: cluster.server.request("GET", NODE).status == 200)
        yield agent
    finally:
        agent.stop()
        cluster.server.request("DELETE", PODS, gracePeriodSeconds="0")
        cluster.server.request("DELETE", NODE)


@pytest.fixture(autouse=True)
def each_test_has_an_agent_and_no_pods(agent: RunningAgent, cluster: Cluster) -> None:
    assert agent.process.poll() is None
    assert cluster.server.request("DELETE", PODS, gracePeriodSeconds="0").status == 200
    wait_until("no pods", lambda: not cluster.server.request("GET", PODS).body["items"])


@pytest.fixture
def out(tmp_path: Path) -> Object:
    """A folder of this machine, as a volume."""
    return {"hostPath": {"path": str(tmp_path)}}


def read_process(path: Path) -> Identity:
    """The process that writes its pid into this file."""
    wait_until(str(path), lambda: path.exists() and path.read_text().endswith("\n"))
    found = identify(int(path.read_text()))
    assert found is not None
    return found


def test_a_pod_succeeds_and_its_log_is_kept(cluster: Cluster) -> None:
    pod = cluster.run("echo first; echo second >&2")
    cluster.wait_phase(pod, "Succeeded")
    assert cluster.state(pod)["terminated"]["exitCode"] == 0
    assert cluster.logs(pod) == "first\nsecond\n"
    assert cluster.logs(pod, "--tail=1") == "second\n"


def test_a_log_is_followed_to_its_end(cluster: Cluster, out: Object, tmp_path: Path) -> None:
    pod = cluster.run("echo before; while ! test -e /out/go; do sleep 0.05; done; echo after", volume=out)
    cluster.wait_phase(pod, "Running")
    command = [*cluster.kubectl._command, "logs", "-f", "-n", NAMESPACE, pod]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "before\n"
            (tmp_path / "go").touch()
            assert follower.communicate(timeout=30)[0] == "after\n"
        finally:
            follower.kill()


def test_a_pod_fails_with_its_exit_code_and_termination_message(cluster: Cluster) -> None:
    pod = cluster.run("echo 'no such data' > /dev/termination-log; exit 3")
    cluster.wait_phase(pod, "Failed")
    ended = cluster.state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "no such data\n")


def test_a_deleted_pod_may_exit_by_itself(cluster: Cluster, out: Object, tmp_path: Path) -> None:
    pod = cluster.run(POLITE, volume=out, terminationGracePeriodSeconds=600)
    process = read_process(tmp_path / "pid")
    cluster.delete(pod)
    assert (tmp_path / "said").read_text() == "asked\n"
    assert not is_alive(process)


def test_a_deleted_pod_that_does_not_exit_is_killed_after_its_grace_period(
    cluster: Cluster, out: Object, tmp_path: Path
) -> None:
    pod = cluster.run(DEAF, volume=out, terminationGracePeriodSeconds=1)
    process = read_process(tmp_path / "pid")
    assert cluster.delete(pod) >= 1
    assert (tmp_path / "said").read_text() == "asked\n"
    assert not is_alive(process), "it ends before its pod is removed from the API"


def test_gpus_are_allocated_and_pods_without_one_wait(cluster: Cluster) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES; exec sleep 600"
    pods = [cluster.run(script, gpus=2, terminationGracePeriodSeconds=1) for _ in range(2)]
    for pod in pods:
        wait_until(f"log of {pod}", lambda pod=pod: cluster.state(pod).get("running") and cluster.logs(pod))  # type: ignore[misc]
    devices = {pod: cluster.logs(pod).strip() for pod in pods}
    assert sorted(devices.values()) == ["0,1", "2,3"]
    third = cluster.run(script, gpus=2)
    [condition] = wait_until("scheduler's condition", lambda: cluster.status(third).get("conditions"))
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert GPU in condition["message"]
    assert cluster.status(third)["phase"] == "Pending"
    cluster.delete(pods[0])
    cluster.wait_phase(third, "Running")
    assert wait_until("log", lambda: cluster.logs(third).strip()) == devices[pods[0]]


def test_the_containers_of_a_killed_agent_are_killed_too(
    cluster: Cluster, agent: RunningAgent, out: Object, tmp_path: Path
) -> None:
    """The kernel kills each first process; its children are found by the session's marker."""
    pod = cluster.run("sleep 600 & echo $! > /out/child; echo $$$$ > /out/pid; wait", volume=out)
    processes = [read_process(tmp_path / name) for name in ("pid", "child")]
    cluster.wait_phase(pod, "Running")
    agent.kill()
    try:
        wait_until("its end", lambda: not is_alive(processes[0]))
        assert agent.clean() == 1
        assert not is_alive(processes[1])
    finally:
        agent.clean()
        agent.start()
    cluster.wait_phase(pod, "Failed")
    ended = cluster.state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert "the node agent was restarted" in ended["message"]


def test_a_pod_reports_a_missing_volume_and_starts_once_it_exists(cluster: Cluster) -> None:
    name = f"late-{next(NUMBERS)}"
    pod = cluster.run("cat /out/word", volume={"configMap": {"name": name}})
    about = f"involvedObject.name={pod},reason=FailedMount"
    events = f"/api/v1/namespaces/{NAMESPACE}/events"
    [event] = wait_until("an event", lambda: cluster.server.list(events, fieldSelector=about))
    assert (event["type"], event["message"]) == ("Warning", f"ConfigMap {name} does not exist")
    assert cluster.status(pod)["phase"] == "Pending"
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    cluster.create("ConfigMap", path, {"metadata": {"name": name}, "data": {"word": "here"}})
    cluster.wait_phase(pod, "Succeeded")
    assert cluster.logs(pod) == "here"


def test_a_claim_is_a_folder_that_outlives_its_pods(cluster: Cluster, agent: RunningAgent) -> None:
    name = f"claim-{next(NUMBERS)}"
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = "local-directory"
    path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    cluster.create("PersistentVolumeClaim", path, {"metadata": {"name": name}, "spec": spec})
    volume = {"persistentVolumeClaim": {"claimName": name}}
    writer = cluster.run("echo kept > /out/file", volume=volume)
    cluster.wait_phase(writer, "Succeeded")
    cluster.delete(writer)
    reader = cluster.run("cat /out/file", volume=volume)
    cluster.wait_phase(reader, "Succeeded")
    assert cluster.logs(reader) == "kept\n"
    assert (agent.folder / "volumes" / NAMESPACE / name / "file").read_text() == "kept\n"


def test_a_node_marked_as_lost_becomes_ready_again_and_runs_pods(cluster: Cluster) -> None:
    """As the controller manager marks a node whose Lease was not renewed for 40 seconds."""
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "stopped posting"}
    lost = {"status": {"conditions": [ready]}}
    assert cluster.server.request("PATCH", f"{NODE}/status", lost, content_type=MERGE_PATCH).status == 200

    def is_ready() -> bool:
        node = cluster.server.request("GET", NODE).body
        return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])

    # Only the agent's own report makes the node ready. A pod proves nothing before that: the scheduler may bind it
    # in the moment before it sees the taint.
    wait_until("the agent's report", is_ready)
    cluster.wait_phase(cluster.run("echo here"), "Succeeded")
