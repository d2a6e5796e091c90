"""Jobs whose pods Kueue assigns to nodes (Topology Aware Scheduling), with the stand-in or with Kueue's own program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from railhead.resources.placement import HOSTNAME
from railhead.resources.queues.kueue_topology import REQUIRED_TOPOLOGY, UNCONSTRAINED_TOPOLOGY
from tests.kueue.workload import Object
from tests.operator.queue_stage import Stage
from tests.operator.racks import RACK, Racks, find_node
from tests.operator.served_kueue import needs_real

IN_ONE_RACK = {"metadata": {"annotations": {REQUIRED_TOPOLOGY: RACK}}}


@pytest.fixture
def racks(stage: Stage) -> Iterator[Racks]:
    racks = Racks(stage)
    yield racks
    racks.remove()


def test_all_pods_get_nodes_of_the_one_rack_that_has_room(stage: Stage, racks: Racks) -> None:
    racks.make(a="a1", b="b1 b2")
    stage.submit("job", gpus=4, podTemplate=IN_ONE_RACK)
    nodes = racks.wait_nodes("job", 5)
    assert sorted(nodes[str(slot)] for slot in range(4)) == ["b1", "b1", "b2", "b2"]
    assert nodes["head"].startswith("b"), "the pod sets are a group"
    assert stage.cluster.status("job")["admission"]["podSets"][1]["topologyAware"] is True
    assert not [each for each in stage.cluster.events("job") if each["reason"] == "SchedulingGated"]


def test_a_job_that_no_rack_has_room_for_waits_with_kueues_reason(stage: Stage, racks: Racks) -> None:
    racks.make(a="a1", b="b1 b2")
    stage.submit("job", gpus=5, podTemplate=IN_ONE_RACK)
    assert "fit" in stage.wait_reason("job", "TopologyPlacementFailed")
    stage.submit("smaller", gpus=4, podTemplate=IN_ONE_RACK)
    stage.wait_pods("smaller", 5)


def test_a_replacement_gets_the_node_of_the_pod_that_was_lost(stage: Stage, racks: Racks) -> None:
    """The job asks for no topology: the queue has no other nodes."""
    racks.make(a="a1", b="b1")
    stage.submit("job", gpus=3)
    before = racks.wait_nodes("job", 4)
    stage.start("job", 4)
    lost = find_worker(stage, "2")
    assert lost["metadata"]["annotations"][UNCONSTRAINED_TOPOLOGY] == "true"
    stage.cluster.remove_pod(lost)
    name = lost["metadata"]["name"].replace("-w2-0", "-w2-1")
    stage.until("a replacement", lambda: name in stage.cluster.pods("job"))
    assert racks.wait_nodes("job", 4) == before


def test_a_job_asks_for_other_nodes_than_the_one_that_refused_its_pod(stage: Stage, racks: Racks) -> None:
    racks.make(a="a1", b="b1")
    stage.submit("job", gpus=2)
    nodes = racks.wait_nodes("job", 3)
    bad = nodes["0"]
    workload = stage.workload("job")["metadata"]["uid"]
    for pod in stage.cluster.pods("job").values():
        stage.cluster.bind_pod(pod, pod["spec"]["nodeSelector"][HOSTNAME])
    stage.cluster.refuse_pod(find_worker(stage, "0"))
    stage.until("Kueue is told", lambda: stage.reason("job", "Evicted") == "True: NodeFailures")

    def has_moved() -> bool:
        for pod in stage.cluster.pods("job").values():
            if pod["metadata"].get("deletionTimestamp"):
                stage.cluster.remove_pod(pod)
        return stage.cluster.status("job").get("attempt") == 2

    stage.until("the second attempt", has_moved)
    assert stage.workload("job")["metadata"]["uid"] != workload
    other = racks.wait_nodes("job", 3, attempt=2)
    assert bad not in other.values()
    avoided = [each["name"] for each in stage.cluster.status("job")["avoidedNodes"]]
    assert [name.rpartition("-")[2] for name in avoided] == [bad]


def find_worker(stage: Stage, slot: str) -> Object:
    pods = stage.cluster.pods("job").values()
    return next(pod for pod in pods if pod["metadata"]["labels"].get("railhead.dev/slot") == slot)


def test_a_rule_that_kueue_does_not_see_keeps_the_pods_from_starting(stage: Stage, racks: Racks) -> None:
    racks.make(a="a1", b="b1")
    stage.submit("job", gpus=2, scheduling={"queueName": "team", "topology": {"key": RACK}}, queue="")
    words = stage.wait_reason("job", "FailedToStart")
    assert f"set annotation {REQUIRED_TOPOLOGY}: {RACK} in spec.podTemplate" in words
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))
    stage.cluster.change("job", podTemplate=IN_ONE_RACK)
    racks.wait_nodes("job", 3)


@pytest.mark.slow
@needs_real
def test_a_lost_node_is_replaced_without_an_eviction(stage: Stage, racks: Racks) -> None:
    """By Workload.status.unhealthyNodes, which Kueue itself writes; the job keeps its quota and its other pods."""
    racks.make(a="a1 a2", b="b1")
    stage.submit("job", gpus=3)
    nodes = racks.wait_nodes("job", 4)
    lost = next(node for slot, node in sorted(nodes.items()) if slot != "head" and node != nodes["head"])
    stage.start("job", 4)
    workload = stage.workload("job")["metadata"]["uid"]
    racks.lose(lost)
    for pod in stage.cluster.pods("job").values():
        if find_node(pod)[1] == lost:
            stage.cluster.remove_pod(pod)
    stage.until(
        "other nodes", lambda: len(stage.cluster.pods("job")) == 4 and lost not in racks.wait_nodes("job", 4).values()
    )
    assert stage.workload("job")["metadata"]["uid"] == workload
    assert stage.reason("job", "Evicted") == ""
