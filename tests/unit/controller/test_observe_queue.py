"""What the operator reads from Kueue's objects."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.api.queue import Toleration
from railhead.controller.observe_queue import observe_flavor, observe_priority, observe_workload
from railhead.json_object import Object
from railhead.planning.queue_view import PodSetUpdate
from tests.unit.builders import UID
from tests.unit.kueue import make_raw

KEY = JobKey("default", "digits")


def test_a_workload_becomes_a_view() -> None:
    (key, uid), view = observe_workload(make_raw())
    assert (key, uid, view.digest, view.queue, view.cluster_queue) == (KEY, UID, "d1", "team-a", "all")
    assert [(each.pod_set, each.flavors, each.count) for each in view.assignments] == [("workers", ("spot",), 2)]
    assert view.has("Admitted") and view.has_finalizer and view.is_active


def test_a_view_has_what_admission_checks_add() -> None:
    update = {"name": "workers", "labels": {"a": "1"}, "nodeSelector": {"pool": "x"}, "tolerations": [{"key": "k"}]}
    checks = [{"name": "prov", "podSetUpdates": [update, 3]}, {"name": "other", "podSetUpdates": None}]
    status = {"admissionChecks": checks, "reclaimablePods": [{"name": "workers", "count": 2}]}
    _, view = observe_workload(make_raw(status=status))
    expected = PodSetUpdate("prov", "workers", {"a": "1"}, {}, {"pool": "x"}, (Toleration(key="k"),))
    assert view.updates == (expected,)
    assert view.reclaimed_workers == 2


@pytest.mark.parametrize(
    "raw",
    [
        {"metadata": {"name": "x", "namespace": "default", "uid": "u"}},
        make_raw(spec=None, status=[]),
        make_raw(status={"conditions": [1, {"type": 3}], "admission": {"podSetAssignments": {"a": 1}}}),
        make_raw(metadata={"labels": None, "annotations": 3, "ownerReferences": "?"}),
    ],
)
def test_no_content_of_a_workload_ends_the_watch(raw: Object) -> None:
    observe_workload(raw)


def find_nodes(*slices: Any, levels: Any = ("rack", "kubernetes.io/hostname")) -> dict[str, int] | None:
    """The pods by node of a TopologyAssignment, None without one."""
    topology = {"levels": list(levels), "slices": list(slices)} if levels else None
    assignment = {"name": "workers", "topologyAssignment": topology}
    _, view = observe_workload(make_raw(status={"admission": {"podSetAssignments": [assignment]}}))
    [found] = view.assignments
    return dict(found.nodes) if found.has_topology else None


def test_a_topology_assignment_is_read_with_all_its_abbreviations() -> None:
    one = {"domainCount": 1, "valuesPerLevel": [{"universal": "b"}], "podCounts": {"universal": 2}}
    individual = {"prefix": "a-", "roots": ["1", "2"], "suffix": ".test"}
    two = {"domainCount": 2, "valuesPerLevel": [{"individual": individual}], "podCounts": {"individual": [1, 3]}}
    three = {"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": ["x", "y"]}}], "podCounts": {"universal": 4}}
    nodes = find_nodes(one, two, three, levels=["kubernetes.io/hostname"])
    assert nodes == {"b": 2, "a-1.test": 1, "a-2.test": 3, "x": 4, "y": 4}
    assert find_nodes(one, levels=["rack"]) == {}, "its domains are racks"
    assert find_nodes(levels=None) is None


@pytest.mark.parametrize(
    "each",
    [
        3,
        {},
        {"valuesPerLevel": [{"individual": {"roots": 3}}], "podCounts": 1},
        {"valuesPerLevel": {"a": 1}, "podCounts": {"individual": {"a": 1}}},
    ],
)
def test_no_topology_assignment_ends_the_watch(each: Any) -> None:
    assert find_nodes(each) == {}


def test_flavors_and_priority_classes_are_read() -> None:
    flavor = observe_flavor(
        {
            "metadata": {"name": "spot"},
            "spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}, 3]},
        }
    )
    assert (flavor.name, flavor.node_labels) == ("spot", {"pool": "spot"})
    assert [(each.key, each.operator) for each in flavor.tolerations] == [("spot", "Exists")]
    assert observe_priority({"metadata": {"name": "high"}, "value": 10}) == ("high", 10)
