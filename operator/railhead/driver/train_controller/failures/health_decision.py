"""Translates what the health checks of a Ray newer than 2.60 decide (`RunConfig.health_config`, alpha).

Ray Train raises the decision into the failure policy. Reattempt restarts the worker group. Evict keeps the next group
away from some Ray nodes, by a label selector: with as many worker pods as the job wants, such a group has no place
until the pod of that node is replaced. The names are those that Ray has published; no released Ray raises them yet, and
tests/ray/test_contract.py compares them with the first one that does.
"""

from __future__ import annotations

from typing import Optional

from railhead.contract.failure import NODE_EVICTED, Failure, FailureClass
from railhead.driver.messages.exception_text import read_text
from railhead.driver.ray.nodes import name_hosts
from railhead.driver.train_controller.failures.classify_failure import FailureFacts, FailureOrigin

ERROR = "HealthDecisionError"
EVICT = "Evict"
# What an Evict may name as its cause that says nothing against a node. Newer drafts of Ray's have no cause.
_NOT_OF_NODES = ("APPLICATION", "NO_PROGRESS")


def translate_health_decision(error: BaseException) -> Optional[FailureFacts]:
    """Returns what a decision means; None for any other error. Neither decision is the application's fault."""
    decision = getattr(error, "decision", None)
    if type(error).__name__ != ERROR or decision is None:
        return None
    text = " ".join(str(getattr(decision, "reason", "") or read_text(error)).split())
    reattempt = Failure(FailureClass.INFRASTRUCTURE, "HealthReattempt", f"Ray Train's health checks: {text}")
    if type(decision).__name__ != EVICT:
        return FailureFacts(FailureOrigin.WORKERS, text=text, refusal=reattempt)
    pods = name_hosts(decision.target_nodes)
    if not pods:
        return FailureFacts(FailureOrigin.WORKERS, text=text, refusal=reattempt)
    cause = getattr(getattr(decision, "cause", None), "name", "")
    if cause in _NOT_OF_NODES:
        return FailureFacts(FailureOrigin.WORKERS, text=text, refusal=reattempt, lost_pods=pods)
    suspect, *others = pods
    message = f"pod {suspect}: Ray Train's health checks evict its node: {text}"
    failure = Failure(FailureClass.HARDWARE, NODE_EVICTED, message, suspect_pod=suspect)
    return FailureFacts(FailureOrigin.WORKERS, text=text, refusal=failure, lost_pods=tuple(others))
