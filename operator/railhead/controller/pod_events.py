"""Why a pod does not start, from the Events about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.pod_view import Problem


def find_problem(events: Iterable[Mapping[str, Any]]) -> Problem | None:
    """The newest of a pod's Events that explains why it does not start."""
    relevant = [event for event in events if event.get("reason") in POD_EVENTS]
    newest = max(relevant, key=_time, default=None)
    return Problem(str(newest["reason"]), str(newest.get("message") or newest["reason"])) if newest else None


def _time(event: Mapping[str, Any]) -> str:
    """RFC 3339, whose texts sort like the times."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
