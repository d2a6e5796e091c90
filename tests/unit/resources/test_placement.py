"""Where pods run: the placement of workers, nodes to avoid, tolerations of the head."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.resources.placement import (
    KEYS,
    PREFERRED,
    REQUIRED,
    add_head_tolerations,
    avoid_nodes,
    compute_ray_labels,
    parse_selector,
)
from tests.unit.resources.test_pod_builder import build

Object = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def spec_of(
    role: str = "worker", *, template: Object | None = None, topology: Object | None = None, **scaling: Any
) -> Object:
    """A pod's spec; `template` is the user's PodSpec, and `topology` that of spec.scheduling."""
    changes: Object = {"scaling": {"numWorkers": 2, **scaling}}
    if topology is not None:
        changes["scheduling"] = {"topology": topology}
    if template is not None:
        changes["worker"] = {"podTemplate": {"spec": template}}
    return dict(build(role, **changes)["spec"])


def test_pack_prefers_nodes_and_zones_of_the_jobs_other_workers() -> None:
    found = spec_of(placementStrategy="PACK")["affinity"]
    terms = found["podAffinity"][PREFERRED]
    assert [(t["podAffinityTerm"]["topologyKey"], t["weight"]) for t in terms] == [(HOST, 100), (ZONE, 50)]
    assert set(found) == {"podAffinity"} and set(found["podAffinity"]) == {PREFERRED}


def test_spread_schedules_anyway_if_nodes_are_missing() -> None:
    found = spec_of(placementStrategy="SPREAD")
    [constraint] = found["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["whenUnsatisfiable"], constraint["maxSkew"]) == (
        HOST,
        "ScheduleAnyway",
        1,
    )
    assert "affinity" not in found


def test_strict_spread_requires_anti_affinity() -> None:
    found = spec_of(placementStrategy="STRICT_SPREAD")["affinity"]
    [term] = found["podAntiAffinity"][REQUIRED]
    assert term["topologyKey"] == HOST


def test_a_single_pod_has_no_constraints() -> None:
    found = spec_of(placementStrategy="STRICT_PACK", workersPerPod=2)
    assert "affinity" not in found and "topologySpreadConstraints" not in found


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_SPREAD"])
def test_a_strategy_selects_the_workers_of_this_attempt(strategy: str) -> None:
    pod = build("worker", attempt=4, scaling={"numWorkers": 2, "placementStrategy": strategy})
    selectors = find_selectors(pod["spec"])
    assert selectors
    for selector in selectors:
        assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
        for other in (build("head", attempt=4), build("worker", attempt=3)):
            assert not selector["matchLabels"].items() <= other["metadata"]["labels"].items()


def find_selectors(node: Any) -> list[Object]:
    if isinstance(node, list):
        return [s for item in node for s in find_selectors(item)]
    if not isinstance(node, dict):
        return []
    found = [node["labelSelector"]] if "labelSelector" in node else []
    return found + [s for value in node.values() for s in find_selectors(value)]


def test_workers_of_an_attempt_share_a_domain_beside_the_strategy() -> None:
    found = spec_of(topology={"key": "rack"}, placementStrategy="PACK")["affinity"]["podAffinity"]
    assert [term["topologyKey"] for term in found[REQUIRED]] == ["rack"]
    assert len(found[PREFERRED]) == 2, "close to each other within the domain"
    spread = spec_of(topology={"key": "rack"}, placementStrategy="STRICT_SPREAD")["affinity"]
    assert [spread[kind][REQUIRED][0]["topologyKey"] for kind in ("podAffinity", "podAntiAffinity")] == ["rack", HOST]


def test_a_preferred_domain_adds_to_other_preferences() -> None:
    topology = {"key": "rack", "policy": "Preferred"}
    found = spec_of(topology=topology, placementStrategy="PACK")["affinity"]["podAffinity"]
    keys = [term["podAffinityTerm"]["topologyKey"] for term in found[PREFERRED]]
    assert (keys, set(found)) == ([HOST, ZONE, "rack"], {PREFERRED})


@pytest.mark.parametrize(("policy", "kind"), [("Required", REQUIRED), ("Preferred", PREFERRED)])
def test_a_domain_is_added_to_the_templates_affinity(policy: str, kind: str) -> None:
    mine = {"weight": 1}
    template = {"affinity": {"podAffinity": {REQUIRED: [mine], PREFERRED: [mine]}}}
    found = spec_of(topology={"key": "rack", "policy": policy}, template=template)["affinity"]["podAffinity"]
    other = PREFERRED if kind == REQUIRED else REQUIRED
    assert (len(found[kind]), found[kind][0], found[other]) == (2, mine, [mine])


@pytest.mark.parametrize("policy", ["Required", "Preferred"])
def test_a_domain_is_that_of_the_workers_of_this_attempt(policy: str) -> None:
    scheduling = {"topology": {"key": "rack", "policy": policy}}
    scaling = {"numWorkers": 2, "placementStrategy": "SPREAD"}
    pod = build("worker", attempt=4, scaling=scaling, scheduling=scheduling)
    [selector] = find_selectors(pod["spec"]["affinity"])
    assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items(), "the first pod selects itself"
    for other in (build("head", attempt=4), build("worker", attempt=3)):
        assert not selector["matchLabels"].items() <= other["metadata"]["labels"].items()
    assert "affinity" not in build("head", scaling=scaling, scheduling=scheduling)["spec"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_head_has_no_constraints(strategy: str) -> None:
    per_pod = 2 if strategy == "STRICT_PACK" else 1
    found = spec_of("head", placementStrategy=strategy, workersPerPod=per_pod, rayLabelSelector={"pool": "a"})
    assert "affinity" not in found and "topologySpreadConstraints" not in found


@pytest.mark.parametrize(
    ("text", "operator", "values"),
    [
        ("a", "In", ["a"]),
        ("!a", "NotIn", ["a"]),
        ("in(a)", "In", ["a"]),
        ("in(a,b.c)", "In", ["a", "b.c"]),
        ("!in(a, b)", "NotIn", ["a", "b"]),
        ("in", "In", ["in"]),
        ("!inside", "NotIn", ["inside"]),
    ],
)
def test_translates_a_label_selector_to_node_affinity(text: str, operator: str, values: list[str]) -> None:
    assert parse_selector(text) == (operator, values)
    affinity = spec_of(rayLabelSelector={"pool": text})["affinity"]["nodeAffinity"]
    expression = {"key": "pool", "operator": operator, "values": values}
    assert affinity == {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_ray_receives_labels_with_one_value() -> None:
    selector = {"a": "x", "b": "in(y)", "c": "in(x, y)", "d": "!x", "e": "!in(x)"}
    assert compute_ray_labels(selector) == {"a": "x", "b": "y"}
    assert compute_ray_labels(None) == {}


def test_adds_the_selector_to_each_of_the_users_terms() -> None:
    mine = {"key": "disk", "operator": "In", "values": ["ssd"]}
    terms = [{"matchExpressions": [mine]}, {"matchFields": [{"key": "metadata.name"}]}, {}]
    template = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}, PREFERRED: [{"weight": 1}]}}}
    found = spec_of(template=template, rayLabelSelector={"pool": "a"})["affinity"]["nodeAffinity"]
    ours = {"key": "pool", "operator": "In", "values": ["a"]}
    assert found[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [mine, ours]},
        {"matchFields": [{"key": "metadata.name"}], "matchExpressions": [ours]},
        {},
    ]
    assert found[PREFERRED] == [{"weight": 1}]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_the_users_preference_replaces_ours(kind: str) -> None:
    template = {"affinity": {kind: {PREFERRED: [{"weight": 1}]}}}
    assert spec_of(template=template)["affinity"] == template["affinity"]


def test_our_requirement_is_added_to_the_users() -> None:
    mine = {"topologyKey": "rack"}
    template = {"affinity": {"podAntiAffinity": {REQUIRED: [mine]}, "podAffinity": {PREFERRED: []}}}
    found = spec_of(template=template, placementStrategy="STRICT_SPREAD")["affinity"]
    assert [t["topologyKey"] for t in found["podAntiAffinity"][REQUIRED]] == ["rack", HOST]
    assert found["podAffinity"] == {PREFERRED: []}
    spread = {"topologySpreadConstraints": [{"topologyKey": "rack"}]}
    both = spec_of(template=spread, placementStrategy="SPREAD")["topologySpreadConstraints"]
    assert [c["topologyKey"] for c in both] == ["rack", HOST]


odd = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from([REQUIRED, PREFERRED, "nodeSelectorTerms", "matchExpressions", "a"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(
    affinity=odd
    | st.fixed_dictionaries({}, optional={"nodeAffinity": odd, "podAffinity": odd, "podAntiAffinity": odd}),
    constraints=odd,
    strategy=st.sampled_from(["PACK", "SPREAD", "STRICT_SPREAD"]),
    policy=st.sampled_from(["Required", "Preferred"]),
)
def test_builds_a_pod_from_any_template(affinity: Any, constraints: Any, strategy: str, policy: str) -> None:
    """The API server rejects invalid values, with the pod's own field."""
    template = {"affinity": affinity, "topologySpreadConstraints": constraints}
    topology = {"key": "rack", "policy": policy}
    found = spec_of(template=template, topology=topology, placementStrategy=strategy, rayLabelSelector={"pool": "a"})
    assert found["containers"]


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


OWN = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60} for key in KEYS]
NOT_READY, UNREACHABLE = KEYS


def test_only_heads_have_tolerations() -> None:
    assert build("head")["spec"]["tolerations"] == OWN
    assert "tolerations" not in build("worker")["spec"], "Kubernetes' own five minutes"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], OWN),
        ([{"key": "gpu", "operator": "Exists"}], OWN),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900}], OWN[1:]),
        ([{"key": UNREACHABLE, "operator": "Exists"}], OWN[:1]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], OWN),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], OWN),
        (["nonsense"], OWN),
    ],
)
def test_a_templates_toleration_replaces_ours_for_the_same_taint(given: list[Any], added: list[Any]) -> None:
    assert add_head_tolerations(given) == [*given, *added]


def test_reads_the_jobs_template_too() -> None:
    toleration = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    job: dict[str, Any] = {"podTemplate": {"spec": {"tolerations": [toleration]}}}
    assert build("head", **job)["spec"]["tolerations"] == [toleration, OWN[1]]
