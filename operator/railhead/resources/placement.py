"""Where pods run, as scheduling rules: the placement of workers, nodes to avoid, and tolerations. Pure.

`scaling.placementStrategy`, `scaling.rayLabelSelector` and `scheduling.topology` are combined with the affinity in the
user's podTemplate: PACK's preferences give way to any of the user's, the other rules are added to theirs. Ray's
placement group gets the same strategy but never decides: by then each pod has its node.

The nodes that a job avoids are also in an annotation: the affinity of a pod cannot be changed, and the annotation shows
whether it is out of date.

By default Kubernetes waits 300 s for a node that does not respond, in which a whole group of GPUs does nothing. Head
pods wait less: the fence in the run's storage keeps a head that still lives from committing. Worker pods keep the
default: a kubelet may be silent for a minute while training runs on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from railhead.api import names
from railhead.api.names import AVOIDED_NODES
from railhead.api.spec import TrainJobSpec
from railhead.api.topology import Topology
from railhead.json_object import Object
from railhead.resources.base import JobRef

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = re.compile(r"(!?)(?:in\((.*)\)|(.*))", re.DOTALL)
HEAD_SECONDS = 60
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def require_nodes(
    rules: object, kind: Literal["matchExpressions", "matchFields"], requirements: list[Object]
) -> object:
    """Returns the node affinity with these requirements.

    The user's terms are ORed, so each gets them; an empty one, which matches nothing, stays empty.
    """
    rules = {} if rules is None else rules
    if not isinstance(rules, Mapping):
        return rules
    required = rules.get(REQUIRED)
    if isinstance(required, Mapping):
        terms = get_items(required.get("nodeSelectorTerms"))
    else:
        terms = []
    both = [
        {**term, kind: [*get_items(term.get(kind)), *requirements]} if isinstance(term, Mapping) and term else term
        for term in terms
    ]
    return {**rules, REQUIRED: {"nodeSelectorTerms": both or [{kind: requirements}]}}


def get_items(value: object) -> list[object]:
    """Returns the items of a list in a template, which may hold any value there."""
    if isinstance(value, list):
        return value
    return []


def place_worker(pod_spec: Object, spec: TrainJobSpec, *, job: JobRef, attempt: int) -> Object:
    """Returns the worker pod's spec with scheduling rules; `pod_spec` already includes the user's templates."""
    placed = dict(pod_spec)
    scaling = spec.scaling
    # Of this attempt only: pods of an earlier one may still be terminating.
    labels = {names.LABEL_JOB_UID: job.uid, names.LABEL_ROLE: names.WORKER, names.LABEL_ATTEMPT: str(attempt)}
    others = {"matchLabels": labels}
    affinity = placed.get("affinity") or {}
    if not isinstance(affinity, Mapping):
        # The API server rejects it with a better message.
        return placed
    affinity = dict(affinity)
    match scaling.placement_strategy:
        case "PACK" if not affinity.get("podAffinity") and not affinity.get("podAntiAffinity"):
            affinity["podAffinity"] = {PREFERRED: [_prefer(others, HOSTNAME, 100), _prefer(others, ZONE, 50)]}
        case "SPREAD":
            placed["topologySpreadConstraints"] = [*get_items(placed.get("topologySpreadConstraints")), _spread(others)]
        case "STRICT_SPREAD":
            term = {"labelSelector": others, "topologyKey": HOSTNAME}
            affinity["podAntiAffinity"] = _add(affinity.get("podAntiAffinity"), REQUIRED, term)
    if spec.topology:
        affinity["podAffinity"] = _stay_together(affinity.get("podAffinity"), spec.topology, others)
    expressions = build_node_expressions(scaling.ray_label_selector or {})
    if expressions:
        affinity["nodeAffinity"] = require_nodes(affinity.get("nodeAffinity"), "matchExpressions", expressions)
    if affinity:
        placed["affinity"] = affinity
    return placed


def compute_ray_labels(selector: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the labels that have one known value on every node that `selector` matches: Ray can be given these."""
    labels = {}
    for key, text in (selector or {}).items():
        operator, values = parse_selector(text)
        if operator == "In" and len(values) == 1:
            labels[key] = values[0]
    return labels


def build_node_expressions(selector: Mapping[str, str]) -> list[Object]:
    """Returns the matchExpressions of a node selector term."""
    parsed = {key: parse_selector(text) for key, text in sorted(selector.items())}
    return [{"key": key, "operator": operator, "values": values} for key, (operator, values) in parsed.items()]


def parse_selector(text: str) -> tuple[str, list[str]]:
    """Returns Ray's `value`, `!value`, `in(a, b)` or `!in(a, b)` as (In or NotIn, values)."""
    match = _SELECTOR.fullmatch(text)
    # The pattern matches any text; the API accepts valid ones only.
    assert match is not None
    if match[2] is None:
        values = [match[3]]
    else:
        values = [value.strip() for value in match[2].split(",")]
    return ("NotIn" if match[1] else "In"), values


def _prefer(others: Object, topology: str, weight: int) -> Object:
    return {"weight": weight, "podAffinityTerm": {"labelSelector": others, "topologyKey": topology}}


def _spread(others: Object) -> Object:
    return {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": others}


def _stay_together(rules: object, topology: Topology, others: Object) -> object:
    """Keeps workers in one domain: the first pod selects itself, so it chooses; a replacement follows the others."""
    if topology.policy == "Preferred":
        return _add(rules, PREFERRED, _prefer(others, topology.key, 100))
    return _add(rules, REQUIRED, {"labelSelector": others, "topologyKey": topology.key})


def _add(rules: object, kind: str, term: Object) -> object:
    """Adds a term to those of this kind: all that are required must hold, and those that are preferred add up."""
    rules = {} if rules is None else rules
    if isinstance(rules, Mapping):
        return {**rules, kind: [*get_items(rules.get(kind)), term]}
    return rules


def avoid_nodes(pod: Object, nodes: Sequence[str]) -> Object:
    """Returns the pod with one requirement per node: the API server takes one value in each that names nodes."""
    metadata = pod["metadata"]
    spec = dict(pod["spec"])
    annotations = {key: value for key, value in metadata["annotations"].items() if key != AVOIDED_NODES}
    affinity = spec.get("affinity") or {}
    if nodes and isinstance(affinity, Mapping):
        fields = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in nodes]
        spec["affinity"] = {
            **affinity,
            "nodeAffinity": require_nodes(affinity.get("nodeAffinity"), "matchFields", fields),
        }
        annotations[AVOIDED_NODES] = ",".join(nodes)
    return {**pod, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def add_head_tolerations(given: Sequence[object]) -> list[object]:
    """Returns the template's tolerations, and the head's for the taints that the template does not name."""
    own = (
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": HEAD_SECONDS}
        for key in KEYS
        if not any(_covers(toleration, key) for toleration in given)
    )
    return [*given, *own]


def _covers(toleration: object, key: str) -> bool:
    """Returns whether it covers the taint. An empty key with Exists matches all taints, and an empty effect all
    effects."""
    if not isinstance(toleration, dict) or toleration.get("effect") not in (None, "", "NoExecute"):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    return toleration.get("key") == key
