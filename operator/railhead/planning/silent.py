"""Pods that have a node, do not run and do not say why: the kubelet says it in an event about the pod only.

That event is looked for after 15 s, and again after twice the time, at most every 5 minutes,
for one pod of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from railhead.planning.observed import Observed
from railhead.planning.plan import Plan
from railhead.planning.pod_view import PodView, Problem

FIRST_SECONDS, MOST_SECONDS = 15, 300
# The kubelet's and the attach controller's; images and configuration are in the pod's status.
REASONS = frozenset({"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedCreatePodSandBox"})


def ask_about_silent(observed: Observed, decided: Plan) -> Plan:
    """The plan with the question, or with the time when it is due."""
    pod = _find_silent(observed)
    if pod is None or pod.created_at is None:
        return decided
    waited = (pod.asked_at - pod.created_at).total_seconds() if pod.asked_at else FIRST_SECONDS
    due = (pod.asked_at or pod.created_at) + timedelta(seconds=min(max(waited, FIRST_SECONDS), MOST_SECONDS))
    if due <= observed.now:
        return replace(decided, ask=pod)
    return replace(decided, wake_at=min(at for at in (decided.wake_at, due) if at is not None))


def _find_silent(observed: Observed) -> PodView | None:
    for pod in observed.not_started:
        if pod.node and (pod.problem is None or pod.problem.reason in REASONS):
            return pod
    return None


def find_words(events: Iterable[Mapping[str, Any]]) -> Problem | None:
    """The newest of a pod's events that tells why it does not start."""
    telling = [event for event in events if event.get("reason") in REASONS]
    newest = max(telling, key=_time, default=None)
    return Problem(str(newest["reason"]), str(newest.get("message") or newest["reason"])) if newest else None


def _time(event: Mapping[str, Any]) -> str:
    """RFC 3339, of which the texts sort as the times do."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
