"""`decide(...)`: the plan for one job and its pods, for tests that read as tables of states and their plans.

States that no cluster can be in are refused, so that a test cannot pass on one. A stale view is possible: pods of an
attempt that the status does not know, or a status without its pods.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from railhead.api import names
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import OVER, PodView
from tests.unit.builders import UID, make_observed


def decide(*pods: PodView, status: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Returns the plan for a job with these pods and this status; `changes` are fields of `Observed`."""
    observed = make_observed(*pods, status=status, **changes)
    check_possible(observed)
    return plan(observed)


def check_possible(observed: Observed) -> None:
    """Raises AssertionError for a state that no cluster can be in."""
    for key in ("name", "uid"):
        found = Counter(getattr(pod, key) for pod in observed.pods)
        assert not found or max(found.values()) == 1, f"two pods have the same {key}: {found.most_common(1)}"
    for pod in observed.pods:
        assert pod.name == _find_name(pod), f"pod {pod.name} has the labels of {_find_name(pod)}"
        assert not pod.is_running or pod.phase == "Running", f"pod {pod.name} runs in phase {pod.phase}"
        assert not pod.is_running or pod.exit_code is None, f"pod {pod.name} runs and has an exit code"
        assert pod.phase not in OVER or not pod.is_up, f"pod {pod.name} is over and up"
        assert not pod.is_running or pod.node, f"pod {pod.name} runs on no node"


def _find_name(pod: PodView) -> str:
    if pod.role == names.HEAD:
        return names.head_name("digits", UID, pod.attempt)
    return names.worker_name("digits", UID, attempt=pod.attempt, slot=pod.slot, round_=pod.round)
