"""Where worker pods run: turns `scaling.placementStrategy` and `scaling.rayLabelSelector` into scheduling rules. Pure.

Combined with the affinity in the user's podTemplate: our preferences give way to any of the
user's, our requirements are added to theirs. Ray's placement group gets the same strategy but
never decides: by then each pod has its node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from railhead.api import names
from railhead.api.scaling import Scaling
from railhead.resources.node_affinity import REQUIRED, get_items, require_nodes
from railhead.resources.owner import JobRef

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = re.compile(r"(!?)(?:in\((.*)\)|(.*))", re.DOTALL)


def place_worker(pod_spec: Mapping[str, Any], scaling: Scaling, *, job: JobRef, attempt: int) -> dict[str, Any]:
    """The worker pod's spec with scheduling rules; `pod_spec` already includes the user's templates."""
    placed = dict(pod_spec)
    others = {"matchLabels": _labels_of_workers(job, attempt=attempt)}
    affinity = placed.get("affinity") or {}
    if not isinstance(affinity, Mapping):
        return placed  # the API server rejects it with a better message
    affinity = dict(affinity)
    match scaling.placement_strategy:
        case "PACK" if not affinity.get("podAffinity") and not affinity.get("podAntiAffinity"):
            affinity["podAffinity"] = {PREFERRED: [_prefer(others, HOSTNAME, 100), _prefer(others, ZONE, 50)]}
        case "SPREAD":
            placed["topologySpreadConstraints"] = [*get_items(placed.get("topologySpreadConstraints")), _spread(others)]
        case "STRICT_SPREAD":
            term = {"labelSelector": others, "topologyKey": HOSTNAME}
            affinity["podAntiAffinity"] = _add_required(affinity.get("podAntiAffinity"), term)
    expressions = build_node_expressions(scaling.ray_label_selector or {})
    if expressions:
        affinity["nodeAffinity"] = require_nodes(affinity.get("nodeAffinity"), "matchExpressions", expressions)
    if affinity:
        placed["affinity"] = affinity
    return placed


def find_ray_labels(selector: Mapping[str, str] | None) -> dict[str, str]:
    """The labels that have one known value on every node that `selector` matches: those that Ray can be given."""
    parsed = {key: parse_selector(text) for key, text in (selector or {}).items()}
    return {key: values[0] for key, (operator, values) in parsed.items() if operator == "In" and len(values) == 1}


def build_node_expressions(selector: Mapping[str, str]) -> list[dict[str, Any]]:
    """matchExpressions of a node selector term."""
    parsed = {key: parse_selector(text) for key, text in sorted(selector.items())}
    return [{"key": key, "operator": operator, "values": values} for key, (operator, values) in parsed.items()]


def parse_selector(text: str) -> tuple[str, list[str]]:
    """Ray's `value`, `!value`, `in(a, b)` or `!in(a, b)` as (In or NotIn, values)."""
    match = _SELECTOR.fullmatch(text)
    assert match is not None  # the pattern matches any text; the API accepts valid ones only
    values = [match[3]] if match[2] is None else [value.strip() for value in match[2].split(",")]
    return ("NotIn" if match[1] else "In"), values


def _labels_of_workers(job: JobRef, *, attempt: int) -> dict[str, str]:
    """Of this attempt only: pods of an earlier one may still be terminating."""
    return {
        names.LABEL_JOB_UID: job.uid,
        names.LABEL_ROLE: names.WORKER,
        names.LABEL_ATTEMPT: str(attempt),
    }


def _prefer(others: dict[str, Any], topology: str, weight: int) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": {"labelSelector": others, "topologyKey": topology}}


def _spread(others: dict[str, Any]) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": others}


def _add_required(rules: Any, term: dict[str, Any]) -> Any:
    """Adds a required term to the user's: all of them must hold."""
    if rules is not None and not isinstance(rules, Mapping):
        return rules
    return {**(rules or {}), REQUIRED: [*get_items((rules or {}).get(REQUIRED)), term]}
