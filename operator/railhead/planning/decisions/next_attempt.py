"""Starts the next attempt once the backoff is over and no pod of the lost one can act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from railhead.api import conditions as types
from railhead.contract.times import parse_time
from railhead.planning.attempt_begin import begin_next_attempt
from railhead.planning.conditions import make_condition, stand
from railhead.planning.facts.settlement import count_attempt, next_attempt_at
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event, delete_all
from railhead.planning.pod_view import UNANSWERED_SECONDS, PodView

ENDING_SECONDS = 5  # from a container's end to its pod's
PATIENCE_SECONDS = 30  # for pods to terminate; a longer wait is reported


def decide_next_attempt(job: Job) -> Decision | None:
    """Waits, or raises the attempt and its counters in one write.

    The next attempt waits until no pod of the lost one may still run: never two heads. For a pod whose node does
    not respond, it waits until `UNANSWERED_SECONDS` after the grace period; if that pod is a head that still
    runs, the fence in the run's storage keeps it from committing.
    """
    failure = job.status.failure
    if failure is None or not job.is_attempt_lost:
        return None
    remains = job.acting_pods
    if remains:
        return _wait_for(job, remains, since=parse_time(failure.time) or job.now)
    at = next_attempt_at(job, failure, committed=job.status.newest_index)
    if at > job.now:
        return Decision(wake_at=at)
    again = job.status.waiting is None or job.status.waiting.again
    decision = begin_next_attempt(job, reason="AttemptStarted", phase="Restarting" if again else "Pending", again=again)
    return replace(decision, status=decision.status and count_attempt(job, failure, decision.status))


def _wait_for(job: Job, remains: Sequence[PodView], *, since: datetime) -> Decision:
    """Deletes the remaining pods, and reports a long wait."""
    since = min(since, job.now)
    over_at, reported_at = since + timedelta(seconds=ENDING_SECONDS), since + timedelta(seconds=PATIENCE_SECONDS)
    # A pod whose container has terminated ends by itself, and is evidence.
    deletes = delete_all(pod for pod in remains if not pod.has_ended or job.now >= over_at)
    if job.now < reported_at:
        return Decision(deletes=deletes, wake_at=over_at if job.now < over_at else reported_at)
    if job.status.reason_of(types.RECONCILING) == "WaitingForPods":
        return Decision(deletes=deletes)  # already reported; the list of pods may change in every pass
    pods = ", ".join(pod.place for pod in remains[:3])
    message = (
        f"Attempt {job.attempt + 1} waits for {len(remains)} pods of attempt {job.attempt} to terminate: {pods}; "
        f"if a node does not respond, for at most {UNANSWERED_SECONDS} s after the grace period"
    )
    status = stand(job, make_condition(job, types.RECONCILING, reason="WaitingForPods", message=message))
    return Decision(status=status, deletes=deletes, events=(Event("Warning", "WaitingForPods", message),))
