"""Pods of an attempt that is not whole: when the API server refuses the others, nobody's GPUs are held for them.

After 30 s in which training was kept waiting by a refusal, all pods of the attempt are given
back. The next attempt follows with a growing delay, and no budget counts it; of two jobs that
each hold half of a quota, one will find all that it needs.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.planning.classify import STARTUP
from railhead.planning.deadlines import build_failure
from railhead.planning.loss import lose_attempt
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan
from railhead.planning.status_write import parse_time

HOLD_SECONDS = 30


def decide_release(observed: Observed) -> Plan | None:
    """Has the attempt waited long enough for a pod that was refused?"""
    due = release_due(observed)
    if due is None or due > observed.now or observed.refusal is None:
        return None
    problem = observed.refusal.problem
    held = sum(pod.attempt == observed.attempt for pod in observed.acting_pods)
    message = f"{problem.message}; the {held} pods that there are were given back after {HOLD_SECONDS} s"
    failure = build_failure(observed, kind=STARTUP, reason=problem.reason, message=message)
    return lose_attempt(observed, failure, head=observed.head)


def release_due(observed: Observed) -> datetime | None:
    """None while nothing is held for a refused pod. Counts from the first pod of the attempt, or from the loss."""
    refusal, waiting = observed.refusal, observed.status.waiting
    if refusal is None or waiting is None or observed.is_attempt_lost:
        return None
    head = observed.head
    is_whole = head is not None and len(observed.live_workers) >= observed.least_workers
    held = [pod for pod in observed.pods if pod.is_live and pod.attempt == observed.attempt]
    if is_whole or not held:
        return None
    waited = parse_time(waiting.since) or observed.now
    first = min((pod.created_at for pod in held if pod.created_at), default=observed.now)
    return min(max(waited, first), observed.now) + timedelta(seconds=HOLD_SECONDS)
