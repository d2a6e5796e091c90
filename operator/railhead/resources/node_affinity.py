"""Adds requirements of nodes to those that a user's template has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def require_nodes(
    rules: Any, kind: Literal["matchExpressions", "matchFields"], requirements: list[dict[str, Any]]
) -> Any:
    """The node affinity with these. The user's terms are ORed, so each gets them; an empty one, which matches nothing,
    stays empty."""
    if rules is not None and not isinstance(rules, Mapping):
        return rules
    required = (rules or {}).get(REQUIRED)
    terms = get_items(required.get("nodeSelectorTerms")) if isinstance(required, Mapping) else []
    both = [
        {**term, kind: [*get_items(term.get(kind)), *requirements]} if isinstance(term, Mapping) and term else term
        for term in terms
    ]
    return {**(rules or {}), REQUIRED: {"nodeSelectorTerms": both or [{kind: requirements}]}}


def get_items(value: Any) -> list[Any]:
    """Of a list in a template, which may hold anything."""
    return value if isinstance(value, list) else []
