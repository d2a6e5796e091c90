"""What a ResourceQuota's refusal of a pod says about the whole job, and whether the job asks for all of it first.

Jobs that share a quota know nothing of each other: no order is kept between them. A quota that has refused a pod is
first asked for all pods of the job together, by a dry run. So a job makes no pods while others have what it needs.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from railhead.api import names
from railhead.api.quantities import parse_quantity
from railhead.planning.facts.reasons import BY_QUOTA, EXCEEDS_QUOTA, QUOTA_EXCEEDED
from railhead.planning.job import Job
from railhead.planning.pod_view import Problem

WHOLE = 100
MOST_PERCENT = Decimal(10**6)  # however small the quota is
# plugin/pkg/admission/resourcequota/controller.go: checkRequest
_EXCEEDED = re.compile(r"exceeded quota: ([^\s,]+)(?:, requested: (\S+), used: \S+, limited: (\S+))?")


class Share(NamedTuple):
    """A quota, and what the job needs of it by itself in percent of its limit; 0 = not known."""

    quota: str
    percent: int


def find_share(job: Job, problem: Problem) -> Share | None:
    """Reads the share from the API server's message; None if no quota is exceeded."""
    found = _EXCEEDED.search(problem.message)
    if problem.reason != QUOTA_EXCEEDED or found is None:
        return None
    # The quota names no role, so the pod's name in front of its words tells which pod was refused.
    is_head = f"Pod {names.head_name(job.name, job.uid, job.attempt)} " in problem.message
    requested = _read(found[2])
    limited = _read(found[3])
    needed = {name: _count_pods(job, name, is_head=is_head) * amount for name, amount in requested.items()}
    # Of several resources the scarcest decides.
    percents = [_percent(needed[name], limited[name]) for name in needed.keys() & limited.keys()]
    return Share(found[1], max(percents, default=0))


def _count_pods(job: Job, resource: str, *, is_head: bool) -> int:
    """Returns how many pods request as much of it, as far as the rejected one tells."""
    if resource in ("pods", "count/pods"):
        return 1 + job.least_workers
    if is_head:
        return 1
    return job.least_workers


def _read(text: str | None) -> dict[str, Decimal]:
    pairs = (each.partition("=") for each in (text or "").split(",") if each)
    try:
        return {name: parse_quantity(amount) for name, _, amount in pairs}
    except ValueError:
        return {}


def _percent(needed: Decimal, limit: Decimal) -> int:
    # A quota of 0 is how administrators forbid a resource.
    if limit <= 0:
        if needed > 0:
            return WHOLE + 1
        return 0
    percent = min(needed / limit * WHOLE, MOST_PERCENT)
    return int(percent.to_integral_value(rounding=ROUND_CEILING))


def explain_rejection(job: Job, problem: Problem) -> Problem:
    """Returns the API server's words, with advice about a quota that is too small for the job alone."""
    share = find_share(job, problem)
    if share is None or share.percent <= WHOLE:
        return problem
    need = f"the job needs {share.percent} % of quota {share.quota}"
    advice = "raise the quota, or suspend the job and lower spec.scaling.resourcesPerWorker"
    return Problem(EXCEEDS_QUOTA, f"{problem.message}; {need}; {advice}")


def exceeds_quota(job: Job) -> bool:
    """Returns whether the job does not fit into the quota that rejected its pod, even alone."""
    share = None
    if job.rejection is not None:
        share = find_share(job, job.rejection.problem)
    return share is not None and share.percent > WHOLE


def was_refused(job: Job) -> bool:
    """Returns whether a quota has refused a pod of this attempt, or has ended the one before it.

    The status remembers the latter, so that another operator asks for the whole job first, too.
    """
    if job.rejection is not None and job.rejection.problem.reason == QUOTA_EXCEEDED:
        return True
    failure = job.status.failure
    return failure is not None and failure.reason in BY_QUOTA and failure.attempt >= job.attempt - 1
