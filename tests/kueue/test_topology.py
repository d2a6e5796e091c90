"""Which nodes Kueue assigns, without an API server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kueue.client import GPU, build_pod_set
from tests.kueue.quota import DoesNotFit, assign
from tests.kueue.topology import GATE, HOST, MARKS, POD_SET, WORKLOAD, Nodes, find_ungated, list_nodes, place
from tests.kueue.workload import Object

RACK = "rack"
FLAVORS: dict[str, Object] = {"gpu": {"spec": {"nodeLabels": {"pool": "p"}, "topologyName": "racks"}}}
AMOUNTS = {"cpu": "8", "memory": "64Gi", GPU: "2"}
LEVELS = {"racks": {"spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}}}
QUOTAS = [{"name": name, "nominalQuota": "1000Gi"} for name in AMOUNTS]
GROUP = {"coveredResources": list(AMOUNTS), "flavors": [{"name": "gpu", "resources": QUOTAS}]}
ADMITTED = {"type": "Admitted", "status": "True"}


def make_nodes(**racks: str) -> Nodes:
    """Each rack with the names of its nodes, which have room for two GPUs."""
    places = [(rack, node) for rack, nodes in racks.items() for node in nodes.split()]
    labels = ({"name": node, "labels": {"pool": "p", RACK: rack}} for rack, node in places)
    return Nodes([{"metadata": each, "status": {"allocatable": AMOUNTS}} for each in labels], LEVELS)


def find_workload(nodes: Nodes, *pod_sets: Object, holders: tuple[Object, ...] = ()) -> Object:
    """The admitted Workload."""
    workload: Object = {"metadata": {"name": "job"}, "spec": {"podSets": list(pod_sets)}}
    found = assign(pod_sets, {"spec": {"resourceGroups": [GROUP]}}, FLAVORS, Counter())
    placed = place(found.pod_sets, workload, FLAVORS, nodes, holders)
    return {**workload, "status": {"admission": {"podSetAssignments": placed}, "conditions": [ADMITTED]}}


def find_nodes(workload: Object) -> dict[str, dict[str, int]]:
    return {each["name"]: dict(list_nodes(each)) for each in workload["status"]["admission"]["podSetAssignments"]}


def make_workers(count: int, **request: str) -> Object:
    return build_pod_set("workers", count=count, gpus=1, topologyRequest=request)


def test_pods_share_the_domain_that_they_require_and_others_keep_what_they_have() -> None:
    nodes = make_nodes(a="a1", b="b1 b2")
    first = find_workload(nodes, make_workers(4, required=RACK))
    assert find_nodes(first) == {"workers": {"b1": 2, "b2": 2}}
    second = find_workload(nodes, make_workers(2), holders=(first,))
    assert find_nodes(second) == {"workers": {"a1": 2}}
    with pytest.raises(DoesNotFit, match="TopologyPlacementFailed"):
        find_workload(nodes, make_workers(5, required=RACK))
    assert find_nodes(find_workload(nodes, make_workers(5, preferred=RACK)))["workers"].keys() == {"a1", "b1", "b2"}


def test_a_group_of_pod_sets_shares_one_domain() -> None:
    request = {"required": RACK, "podSetGroupName": "attempt"}
    head = build_pod_set("head", topologyRequest=request)
    assert find_nodes(find_workload(make_nodes(a="a1", b="b1 b2"), head, make_workers(3, **request))) == {
        "head": {"b1": 1},
        "workers": {"b1": 2, "b2": 1},
    }


def test_no_pod_gets_a_node_that_its_affinity_excludes() -> None:
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["a1"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    workers = make_workers(1)
    workers["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    assert find_nodes(find_workload(make_nodes(a="a1 a2"), workers)) == {"workers": {"a2": 1}}


def make_pod(name: str, *, node: str = "", annotations: Mapping[str, str] | None = None, phase: str = "") -> Object:
    """A worker pod of the job, gated unless it has a node."""
    marks = {WORKLOAD: "job", MARKS[0]: RACK}
    metadata = {
        "name": name,
        "labels": {POD_SET: "workers"},
        "annotations": marks if annotations is None else annotations,
    }
    spec: Any = {"nodeSelector": {HOST: node}} if node else {"schedulingGates": [{"name": GATE}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_gated_pods_get_the_nodes_that_are_left() -> None:
    workload = find_workload(make_nodes(a="a1 a2"), make_workers(3))
    assert find_nodes(workload) == {"workers": {"a1": 2, "a2": 1}}
    pods = [make_pod("w0", node="a1"), make_pod("old", node="a2", phase="Failed"), make_pod("w1"), make_pod("w2")]
    found = {pod["metadata"]["name"]: node for pod, node in find_ungated(workload, pods)}
    assert found == {"w1": "a1", "w2": "a2"}
    strangers = [make_pod("a", annotations={WORKLOAD: "job"}), make_pod("b", annotations={MARKS[0]: RACK})]
    assert not list(find_ungated(workload, strangers))
