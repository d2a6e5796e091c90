"""Gangs on Kubernetes' own scheduler: a real kube-scheduler with its feature gates places real PodGroups.

The test plays the nodes, each with one GPU, and no kubelet: a pod holds its GPU from the moment it has a node.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from railhead.local.control_plane.gangs import find_gang_options
from tests.api.server import MERGE_PATCH, ApiServer
from tests.operator.cluster import Cluster
from tests.operator.conftest import make_cluster, run_operator
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
GPUS = 8
RACK = "example.com/rack"
RACKS = {f"gpu-{number}": "small" if number < 3 else "large" for number in range(GPUS)}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    binaries = resolve(lambda text: print(text, file=sys.stderr))
    options = find_gang_options(binaries)
    plane = ControlPlane(
        tmp_path_factory.mktemp("gangs"),
        binaries=binaries,
        api_server_options=options.api_server,
        client_options=options.clients,
        disabled_controllers=["node-lifecycle", "pod-garbage-collector"],  # nodes have no kubelet
    )
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="module")
def gang_server(plane: ControlPlane) -> Iterator[ApiServer]:
    server = ApiServer(plane)
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for name in ("cpus", *RACKS):
        own = amounts if name == "cpus" else {**amounts, "nvidia.com/gpu": "1"}
        status = {"capacity": own, "allocatable": own, "conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "labels": {RACK: RACKS[name]} if name in RACKS else {}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        make_node(server, node)
    yield server
    server.close()


def make_node(server: ApiServer, node: dict[str, Any]) -> None:
    assert server.request("POST", "/api/v1/nodes", node).status == 201
    clear = {"spec": {"taints": None}}  # a new node counts as not ready
    server.request("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", clear, content_type=MERGE_PATCH)


@pytest.fixture(scope="module")
def gang_operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningOperator]:
    yield from run_operator(plane, tmp_path_factory.mktemp("operator"))


@pytest.fixture
def cluster(gang_server: ApiServer, gang_operator: RunningOperator) -> Cluster:
    gang_operator.wake()
    return make_cluster(gang_server, gang_operator)


def apply(cluster: Cluster, name: str, *, gpus: int, **scheduling: Any) -> None:
    scaling = {"numWorkers": gpus, "useGPU": True, "workersPerPod": 1}
    cluster.apply(name, scaling=scaling, scheduling={"gangScheduler": "PodGroup", **scheduling})


def count_placed(cluster: Cluster, job: str) -> int:
    """The job's pods that have a node."""
    return sum(bool(pod["spec"].get("nodeName")) for pod in cluster.pods(job).values())


def end(cluster: Cluster, job: str) -> None:
    """The API server removes pods without a node by itself as soon as they are deleted."""
    cluster.delete(job)

    def is_gone() -> bool:
        pods = cluster.pods(job).values()
        for pod in pods:
            if pod["spec"].get("nodeName"):
                cluster.remove_pod(pod)
        return not pods

    wait_until(f"{job} without pods", is_gone)


def list_groups(cluster: Cluster) -> list[str]:
    versions = cluster.server.request("GET", "/apis/scheduling.k8s.io").body["versions"]
    [served] = [each["groupVersion"] for each in versions if each["version"] != "v1"]  # v1 has no groups
    path = f"/apis/{served}/namespaces/{cluster.namespace}/podgroups"
    return [item["metadata"]["labels"]["railhead.dev/job-name"] for item in cluster.server.list(path)]


def test_of_two_jobs_that_do_not_fit_together_one_runs_and_the_other_holds_no_gpu(cluster: Cluster) -> None:
    jobs = ("a", "b")
    for job in jobs:
        apply(cluster, job, gpus=6)
    first = wait_until(
        "a gang with all its nodes", lambda: next((j for j in jobs if count_placed(cluster, j) == 7), "")
    )
    [second] = set(jobs) - {first}
    cluster.wait_pods(second, 7)

    def find_reason() -> str:
        conditions = {each["type"]: each for each in cluster.status(second).get("conditions", ())}
        found = conditions.get("Reconciling", {})
        return str(found.get("message", "")) if found.get("reason") == "Unschedulable" else ""

    assert "pod group" in wait_until("the scheduler's reason", find_reason)
    assert count_placed(cluster, second) == 0
    end(cluster, first)
    wait_until("its turn", lambda: count_placed(cluster, second) == 7)
    wait_until("no group is left behind", lambda: list_groups(cluster) == [second])
    end(cluster, second)


def test_twenty_jobs_of_any_size_all_get_their_turn(cluster: Cluster) -> None:
    sizes = {f"job-{number}": random.Random(number).randint(1, GPUS) for number in range(20)}
    for job, gpus in sizes.items():
        apply(cluster, job, gpus=gpus)
    left = dict(sizes)
    while left:
        complete = wait_until(
            f"one of {sorted(left)}", lambda: [j for j in left if count_placed(cluster, j) == left[j] + 1], seconds=60
        )
        for job in complete:
            end(cluster, job)
            del left[job]


def run_all(cluster: Cluster, job: str, workers: int) -> None:
    """Waits until all pods have a node, and starts them as kubelets do."""
    wait_until("all nodes", lambda: count_placed(cluster, job) == workers + 1)
    for pod in cluster.pods(job).values():
        cluster.run_pod(pod)
    wait_until("all pods are known to run", lambda: cluster.status(job).get("workers", {}).get("ready") == workers)


def test_auto_makes_the_same_gang(cluster: Cluster) -> None:
    apply(cluster, "auto", gpus=GPUS + 1, gangScheduler="Auto")
    cluster.wait_pods("auto", GPUS + 2)
    assert cluster.status("auto")["gangScheduler"] == "PodGroup"
    assert list_groups(cluster) == ["auto"]
    apply(cluster, "fits", gpus=GPUS, gangScheduler="Auto")
    wait_until("the gang that fits", lambda: count_placed(cluster, "fits") == GPUS + 1)
    assert count_placed(cluster, "auto") == 0, "one GPU too many for the nodes"
    for job in ("auto", "fits"):
        end(cluster, job)


def find_node(cluster: Cluster, job: str, suffix: str) -> str:
    """The node of the job's pod whose name ends so; "" while it has none."""
    pods = cluster.pods(job).items()
    return next((pod["spec"].get("nodeName", "") for name, pod in pods if name.endswith(suffix)), "")


def test_a_lost_worker_pod_is_replaced_within_its_gang(cluster: Cluster) -> None:
    apply(cluster, "lossy", gpus=3)
    run_all(cluster, "lossy", 3)
    [lost] = [pod for name, pod in cluster.pods("lossy").items() if name.endswith("-w1-0")]
    cluster.remove_pod(lost)
    assert wait_until("the replacement has a node", lambda: find_node(cluster, "lossy", "-w1-1"))
    assert len(list_groups(cluster)) == 1
    end(cluster, "lossy")


def test_the_workers_of_a_gang_and_a_replacement_share_a_rack_with_room_for_all(cluster: Cluster) -> None:
    for number in range(3):  # placed pod by pod, a gang's first pod would choose the small rack now and then
        job = f"racks-{number}"
        apply(cluster, job, gpus=4, topology={"key": RACK})
        run_all(cluster, job, 4)
        nodes = [find_node(cluster, job, suffix) for suffix in ("-head", *(f"-w{slot}-0" for slot in range(4)))]
        assert {RACKS.get(node) for node in nodes} == {"large"}
        [lost] = [pod for name, pod in cluster.pods(job).items() if name.endswith("-w1-0")]
        cluster.remove_pod(lost)
        replaced_on = wait_until("the replacement has a node", partial(find_node, cluster, job, "-w1-1"))
        assert RACKS[replaced_on] == "large"
        end(cluster, job)


def test_a_gang_that_lost_a_node_holds_nothing_until_the_node_is_back(cluster: Cluster, gang_server: ApiServer) -> None:
    job, path = "broken", "/api/v1/nodes/gpu-7"
    scaling = {"numWorkers": GPUS, "useGPU": True}
    scheduling = {"gangScheduler": "PodGroup"}
    cluster.apply(job, scaling=scaling, scheduling=scheduling, partialStartDeadlineSeconds=5)
    run_all(cluster, job, GPUS)
    node = gang_server.request("GET", path).body
    lost = [pod for pod in cluster.pods(job).values() if pod["spec"]["nodeName"] == "gpu-7"]
    assert gang_server.request("DELETE", path).status == 200
    for pod in lost:
        cluster.remove_pod(pod)  # as the garbage collector of pods
    wait_until("a replacement in the gang", lambda: cluster.status(job).get("round") == 1)

    def release() -> bool:
        """Plays the kubelets: a pod that is asked to go goes."""
        for pod in cluster.pods(job).values():
            if pod["metadata"].get("deletionTimestamp"):
                cluster.remove_pod(pod)
        return bool(cluster.status(job).get("attempt") == 2)

    wait_until("the next attempt", release, seconds=60)
    cluster.wait_pods(job, GPUS + 1)
    wait_until("one group", lambda: len(list_groups(cluster)) == 1)
    assert count_placed(cluster, job) == 0
    del node["metadata"]["resourceVersion"], node["metadata"]["uid"], node["metadata"]["creationTimestamp"]
    make_node(gang_server, node)
    wait_until("its turn", lambda: count_placed(cluster, job) == GPUS + 1, seconds=60)
    end(cluster, job)
