"""Avoided nodes are added to whatever a template requires of nodes, as the API server accepts it.

pkg/apis/core/validation: ValidateNodeFieldSelectorRequirement takes one value per requirement, and a selector term
without requirements matches no node.
"""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api import names
from railhead.resources.avoidance import avoid_nodes
from railhead.resources.node_affinity import REQUIRED

OURS = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("a", "b")]
MINE = {"key": "disk", "operator": "In", "values": ["ssd"]}


def avoid(affinity: Any, *nodes: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {} if affinity is None else {"affinity": affinity}
    return avoid_nodes({"metadata": {"annotations": annotations or {}}, "spec": spec}, nodes)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], [{"matchFields": OURS}]),
        ([{"matchExpressions": [MINE]}], [{"matchExpressions": [MINE], "matchFields": OURS}]),
        ([{"matchFields": [MINE]}, {}], [{"matchFields": [MINE, *OURS]}, {}]),
    ],
)
def test_each_of_the_templates_terms_gets_one_requirement_per_node(terms: list[Any], expected: list[Any]) -> None:
    affinity = {"podAffinity": {"x": 1}, "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}, "preferred": [1]}}
    found = avoid(affinity, "a", "b")["spec"]["affinity"]
    assert found["nodeAffinity"] == {REQUIRED: {"nodeSelectorTerms": expected}, "preferred": [1]}
    assert found["podAffinity"] == {"x": 1}
    assert avoid(None, "a", "b")["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchFields": OURS}
    ]


def test_a_pod_lists_what_it_avoids_whatever_its_template_says() -> None:
    given = {"mine": "1", names.AVOIDED_NODES: "x"}
    assert avoid(None, "a", "b", annotations=given)["metadata"]["annotations"] == {
        "mine": "1",
        names.AVOIDED_NODES: "a,b",
    }
    assert avoid(None, annotations=given) == {"metadata": {"annotations": {"mine": "1"}}, "spec": {}}


@pytest.mark.parametrize("affinity", ["text", {"nodeAffinity": "text"}])
def test_a_template_that_is_no_affinity_is_left_for_the_api_server_to_refuse(affinity: Any) -> None:
    assert avoid(affinity, "a")["spec"]["affinity"] == affinity
