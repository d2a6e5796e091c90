"""What an admission gives the pods of a role, and what keeps them from having it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api.queue import MAX_ANNOTATION, MAX_LABELS, MAX_TOLERATIONS, PodSetAdmission, Toleration
from railhead.json_object import Object
from railhead.planning.facts.pod_sets import CannotStart, check_start, merge_pod_set
from railhead.planning.queue_view import Assignment, PodSetUpdate
from tests.unit.kueue import SPOT, make_admitted, served

TOLERATION = Toleration(key="gpu", operator="Exists")


def make_pod(*, labels: Object | None = None, selector: Any = None, annotations: Object | None = None) -> Object:
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeSelector": selector} if selector else {}}


def merge(*updates: PodSetUpdate, name: str = "workers") -> PodSetAdmission:
    workload = make_admitted(updates=updates)
    return merge_pod_set(served(workload), workload, name, count=2)


def find_problem(*updates: PodSetUpdate, worker: Object | None = None, **changes: Any) -> str:
    """What keeps the pods from starting; empty if nothing does."""
    workload = make_admitted(updates=updates, **changes)
    try:
        check_start(served(workload), workload, head=make_pod(), worker=worker or make_pod())
    except CannotStart as error:
        return str(error)
    return ""


def test_a_pod_set_has_what_its_flavors_and_the_checks_give_it() -> None:
    update = PodSetUpdate("prov", "workers", {"a": "1"}, {"b": "2"}, {"c": "3"}, (TOLERATION, *SPOT.tolerations))
    found = merge(update)
    assert (found.labels, found.annotations) == ({"a": "1"}, {"b": "2"})
    assert found.node_selector == {"pool": "spot", "c": "3"}
    assert [each.key for each in found.tolerations] == ["spot", "gpu"], "once each"
    assert merge(update, name="head").labels == {}, "of its own pod set only"


@pytest.mark.parametrize("what", ["labels", "annotations", "node_selector"])
def test_a_check_must_not_change_what_another_one_has_set(what: str) -> None:
    one: dict[str, Any] = {what: {"key": "1"}}
    other: dict[str, Any] = {what: {"key": "2"}}
    first, second = PodSetUpdate("first", "workers", **one), PodSetUpdate("second", "workers", **other)
    assert find_problem(first, replace(first, check="second")) == "", "the same value"
    problem = find_problem(first, second)
    assert "second" in problem and "key=2" in problem and "key=1" in problem


@pytest.mark.parametrize(
    ("update", "pod"),
    [
        ({"labels": {"railhead.dev/role": "head"}}, make_pod(labels={"railhead.dev/role": "worker"})),
        ({"labels": {"kueue.x-k8s.io/podset": "main"}}, make_pod()),
        ({"annotations": {"key": "2"}}, make_pod(annotations={"key": "1"})),
        ({"node_selector": {"zone": "b"}}, make_pod(selector={"zone": "a"})),
        ({"node_selector": {"pool": "b"}}, make_pod()),  # of the flavor
        ({"labels": {f"key-{number}": "1" for number in range(17)}}, make_pod()),
        ({"annotations": {"key": "x" * 1025}}, make_pod()),
        ({"tolerations": tuple(Toleration(key=f"key-{number}") for number in range(17))}, make_pod()),
    ],
)
def test_pods_do_not_start_with_less_than_a_check_has_asked_for(update: Any, pod: Object) -> None:
    assert find_problem(PodSetUpdate("prov", "workers", **update), worker=pod)
    assert not find_problem(worker=pod)


RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def find_conflict(worker: Object, *, nodes: dict[str, int], has_topology: bool = True) -> str:
    """What keeps worker pods from starting that Kueue has assigned to these nodes."""
    workers = Assignment("workers", ("spot",), 2, has_topology, nodes)
    return find_problem(worker=worker, assignments=(Assignment("head", ("spot",), 1, has_topology), workers))


@pytest.mark.parametrize(
    ("rules", "annotation", "nodes", "words"),
    [
        ({}, "", {"a": 2}, ""),
        ({"podAffinity": {REQUIRED: [{"topologyKey": RACK}]}}, "", {"a": 1, "b": 1}, f"share one {RACK}"),
        ({"podAffinity": {REQUIRED: [{"topologyKey": RACK}]}}, HOST, {"a": 1, "b": 1}, f"share one {RACK}"),
        ({"podAffinity": {REQUIRED: [{"topologyKey": RACK}]}}, RACK, {"a": 1, "b": 1}, ""),
        ({"podAffinity": {"preferred": [{"topologyKey": RACK}]}}, "", {"a": 1, "b": 1}, ""),
        ({"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST}]}}, "", {"a": 1, "b": 1}, ""),
        ({"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST}]}}, "", {"a": 1, "b": 2}, "2 pods of pod set workers"),
        ({"podAntiAffinity": {REQUIRED: [{"topologyKey": RACK}]}}, "", {"a": 2}, ""),
        ("near", "", {"a": 2}, ""),
        ({"podAffinity": 3, "podAntiAffinity": {REQUIRED: "x"}}, "", {"a": 2}, ""),
    ],
)
def test_kueue_assigns_nodes_without_regard_to_affinity_between_pods(
    rules: Any, annotation: str, nodes: dict[str, int], words: str
) -> None:
    worker = make_pod(annotations={"kueue.x-k8s.io/podset-required-topology": annotation} if annotation else {})
    worker["spec"]["affinity"] = rules
    problem = find_conflict(worker, nodes=nodes)
    assert words in problem and bool(problem) == bool(words)
    assert not find_conflict(worker, nodes=nodes, has_topology=False)


def test_a_pod_set_is_topology_aware_if_kueue_assigned_it() -> None:
    workload = make_admitted(assignments=(Assignment("head"), Assignment("workers", (), 2, has_topology=True)))
    found = [merge_pod_set(served(workload), workload, name, count=1).topology_aware for name in ("head", "workers")]
    assert found == [False, True]


def test_a_template_that_holds_anything_still_has_an_answer() -> None:
    assert not find_problem(PodSetUpdate("prov", "workers", node_selector={"a": "b"}), worker=make_pod(selector=3))


@pytest.mark.parametrize(
    "given",
    [
        {"labels": {f"key-{number}": "1" for number in range(MAX_LABELS)}},
        {"annotations": {"key": "x" * MAX_ANNOTATION}},
        {"tolerations": tuple(Toleration(key=f"key-{number}") for number in range(MAX_TOLERATIONS - 1))},
    ],
    ids=["labels", "annotations", "tolerations"],
)
def test_pods_start_with_as_much_as_the_status_can_hold(given: Any) -> None:
    """The flavor of the pod set has one toleration as well."""
    assert find_problem(PodSetUpdate("prov", "workers", **given)) == ""


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"labels": {f"key-{number}": "1" for number in range(MAX_LABELS + 1)}},
            f"The admission has {MAX_LABELS + 1} labels, and the pods can have at most {MAX_LABELS}",
        ),
        (
            {"annotations": {"key": "x" * (MAX_ANNOTATION + 1)}},
            f"Admission check prov sets annotations key to more than {MAX_ANNOTATION} bytes",
        ),
        (
            {"tolerations": tuple(Toleration(key=f"key-{number}") for number in range(MAX_TOLERATIONS))},
            f"The admission has {MAX_TOLERATIONS + 1} tolerations for workers, and the pods can have at most "
            f"{MAX_TOLERATIONS}",
        ),
    ],
    ids=["labels", "annotations", "tolerations"],
)
def test_the_user_reads_what_an_admission_has_too_much_of(given: Any, problem: str) -> None:
    assert find_problem(PodSetUpdate("prov", "workers", **given)) == problem


def test_a_pod_set_without_an_assignment_gets_what_the_checks_add() -> None:
    workload = make_admitted(updates=[PodSetUpdate("prov", "workers", {"a": "1"})], assignments=[])
    found = merge_pod_set(served(workload), workload, "workers", count=2)
    assert (found.name, found.count, found.flavors, found.labels) == ("workers", 2, [], {"a": "1"})
