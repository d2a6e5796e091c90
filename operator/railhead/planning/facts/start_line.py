"""Who may create pods, of the jobs of a namespace that a quota rejected or that released pods for lack of nodes.

One at a time: the earliest, until all its pods have a node, for at most 5 minutes; then it goes to the end. Jobs that
fit into the same quota beside it create too. Each quota has its line, and so have the jobs that lack nodes: of these
it is not known what fits beside what. The line is what the jobs' statuses say, so that every leader finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple

from railhead.api import names
from railhead.api.quantities import parse_quantity
from railhead.api.status import Phase, StartLine
from railhead.contract.text import format_time
from railhead.planning.facts.reasons import EXCEEDS_QUOTA, QUOTA_EXCEEDED
from railhead.planning.facts.settlement import released_delay_seconds
from railhead.planning.job import Job
from railhead.planning.observed import Place, find_place
from railhead.planning.pod_view import Problem

TURN_SECONDS = 300
WHOLE = 100
# plugin/pkg/admission/resourcequota/controller.go: checkRequest
_EXCEEDED = re.compile(r"exceeded quota: ([^\s,]+)(?:, requested: (\S+), used: \S+, limited: (\S+))?")


class Share(NamedTuple):
    """A quota, and what the job needs of it by itself in percent of its limit; 0 = not known."""

    quota: str
    percent: int


def find_share(job: Job, problem: Problem) -> Share | None:
    """What the API server's message says about it; None if no quota is exceeded."""
    found = _EXCEEDED.search(problem.message)
    if problem.reason != QUOTA_EXCEEDED or found is None:
        return None
    is_head = f"Pod {names.head_name(job.name, job.uid, job.attempt)} " in problem.message
    requested, limited = _read(found[2]), _read(found[3])
    needed = {name: _count_pods(job, name, is_head=is_head) * amount for name, amount in requested.items()}
    percents = [_percent(needed[name], limited[name]) for name in needed.keys() & limited.keys()]
    return Share(found[1], max(percents, default=0))


def _count_pods(job: Job, resource: str, *, is_head: bool) -> int:
    """How many pods request as much of it, as far as the rejected one tells."""
    if resource in ("pods", "count/pods"):
        return 1 + job.least_workers
    return 1 if is_head else job.least_workers


def _read(text: str | None) -> dict[str, Decimal]:
    pairs = (each.partition("=") for each in (text or "").split(",") if each)
    try:
        return {name: parse_quantity(amount) for name, _, amount in pairs}
    except ValueError:
        return {}


def _percent(needed: Decimal, limit: Decimal) -> int:
    if limit <= 0:
        return WHOLE + 1 if needed > 0 else 0
    return int(min(needed / limit * WHOLE, Decimal(10**6)).to_integral_value(rounding=ROUND_CEILING))


def find_line(job: Job) -> tuple[Place, ...]:
    """The places of this job and of the others that the same quota, or a lack of nodes, holds up; empty if this one has
    none."""
    own = find_place(job.name, job.uid, job.status)
    return (own, *(each for each in job.line if each.quota == own.quota)) if own is not None else ()


def find_creators(line: Sequence[Place], now: datetime) -> tuple[Place, ...]:
    """Returns the jobs that may create pods: first by turn, then smaller ones for which its quota has room beside it. A
    larger one beside a small one would only take what that one needs."""
    come = [each for each in line if each.since <= now and turn_end(each, now) > now]
    order = sorted(come, key=lambda each: (each.turn_since is None, each.since, each.uid))
    if not order:
        return ()
    first = order[0].percent or WHOLE
    creators, room = [order[0]], WHOLE - first
    for each in order[1:]:
        if 0 < each.percent <= min(room, first):
            creators.append(each)
            room -= each.percent
    return tuple(creators)


def find_rivals(line: Sequence[Place], uid: str, now: datetime) -> list[Place]:
    """The others of the line whose pods this job may wait for: those that must release theirs before it does."""
    creators = [each.uid for each in find_creators(line, now)]
    later = creators[creators.index(uid) + 1 :] if uid in creators else []
    return [each for each in line if each.uid != uid and each.uid not in later]


def turn_end(place: Place, now: datetime) -> datetime:
    return min(place.turn_since or now, now) + timedelta(seconds=TURN_SECONDS)


def may_create(job: Job) -> bool:
    """The job is in the line, and it is its turn, or it fits beside the one whose turn it is."""
    return any(each.uid == job.uid for each in find_creators(find_line(job), job.now))


def find_turn(job: Job) -> Place | None:
    """The job whose turn it is, if this one must wait for it."""
    creators = find_creators(find_line(job), job.now)
    return creators[0] if creators and all(each.uid != job.uid for each in creators) else None


def explain_rejection(job: Job, problem: Problem) -> Problem:
    """Returns the API server's words, with advice about a quota that is too small for the job alone."""
    share = find_share(job, problem)
    if share is None or share.percent <= WHOLE:
        return problem
    need = f"the job needs {share.percent} % of quota {share.quota}"
    advice = "raise the quota, or suspend the job and lower spec.scaling.resourcesPerWorker"
    return Problem(EXCEEDS_QUOTA, f"{problem.message}; {need}; {advice}")


def exceeds_quota(job: Job) -> bool:
    """The job does not fit into the quota that rejected its pod, even alone."""
    share = find_share(job, job.rejection.problem) if job.rejection is not None else None
    return share is not None and share.percent > WHOLE


def has_exceeded_quota(job: Job) -> bool:
    """The same, by what the status remembers of the last refusal too."""
    known = job.status.start_line
    return exceeds_quota(job) or (known is not None and bool(known.quota) and known.percent > WHOLE)


def join(job: Job) -> StartLine | None:
    """The place after the rejection of a pod; None if the job stays without one."""
    known = job.status.start_line
    share = find_share(job, job.rejection.problem) if job.rejection is not None else None
    if share is None:
        return known
    entry = known or StartLine()
    since = entry.since or format_time(job.now)
    return entry.model_copy(update={"since": since, "quota": share.quota, "percent": share.percent})


def release(job: Job) -> StartLine | None:
    """The place after the job has released its pods: at the end if it was its turn, otherwise the same."""
    entry = join(job)
    return _release(job, entry) if entry is not None else None


def release_nodes(job: Job) -> StartLine:
    """Returns the place after pods found no nodes: in the line without a quota."""
    entry = job.status.start_line or StartLine()
    return _release(job, entry.model_copy(update={"quota": "", "percent": 0}))


def _release(job: Job, entry: StartLine) -> StartLine:
    times = entry.released + 1
    moved = entry.model_copy(update={"released": times, "turn_time": None})
    is_waiting = entry.since is not None and entry.turn_time is None and find_turn(job) is not None
    if is_waiting and not exceeds_quota(job):
        return moved
    after = timedelta(seconds=released_delay_seconds(job, times))
    return moved.model_copy(update={"since": format_time(job.now + after)})


def move(job: Job) -> StartLine | None:
    """The place of a job that waits for pods: it takes its turn, or goes to the end when that has ended."""
    entry, own = join(job), find_place(job.name, job.uid, job.status)
    line = find_line(job)
    if entry is None or own is None or len(line) == 1:
        return entry
    if exceeds_quota(job) and job.rejection is not None and job.rejection.at >= own.since:
        return release(job)  # nothing to release: it was just the turn
    if own.turn_since is None:
        is_own_turn = find_creators(line, job.now)[:1] == (own,)
        return entry.model_copy(update={"turn_time": format_time(job.now)}) if is_own_turn else entry
    if turn_end(own, job.now) > job.now:
        return entry
    return entry.model_copy(update={"since": format_time(job.now), "turn_time": None})


def leave(job: Job, phase: Phase) -> StartLine | None:
    """What remains when all pods have a node: how often they were released, until training runs."""
    entry = job.status.start_line
    if entry is None or not entry.released or phase == "Running":
        return None
    return StartLine(released=entry.released)
