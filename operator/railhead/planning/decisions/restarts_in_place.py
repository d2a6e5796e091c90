"""Counts the driver's restarts of the worker group in the same pods, each exactly once.

The driver reports cumulative numbers for its attempt, and the status holds those that are counted already: both
change in one write, before anything else is decided.
"""

from __future__ import annotations

from railhead.api.status import Budget, CountedRestarts
from railhead.planning.facts.report import cut_count
from railhead.planning.facts.settlement import count_failures
from railhead.planning.job import Job
from railhead.planning.plan import Decision, Event
from railhead.planning.status_change import UNSET, StatusChange


def decide_restarts_in_place(job: Job) -> Decision | None:
    """Adds those that are new. The termination message may know more of them than the last report that arrived."""
    reported = _find_reported(job)
    counted = job.status.counted_restarts or CountedRestarts()
    number, charged = reported.number - counted.number, reported.charged - counted.charged
    if number <= 0:
        return None
    committed, budget = job.status.newest_index, job.status.budget
    if charged > 0:
        budget = Budget(failures=count_failures(job, committed=committed) + charged, checkpoint=committed)
    restarts = job.status.restarts
    return Decision(
        status=StatusChange(
            counted_restarts=reported,
            budget=budget if charged > 0 else UNSET,
            restarts=restarts.model_copy(update={"in_place": restarts.in_place + number}),
        ),
        events=(Event("Warning", "RestartedInPlace", _describe(job, reported)),),
    )


def _find_reported(job: Job) -> CountedRestarts:
    progress, outcome = job.status.progress, job.outcome
    restart = progress.restart if progress.attempt == job.attempt else None
    return CountedRestarts(
        number=max(restart.number if restart else 0, cut_count(outcome.restarts) if outcome else 0),
        charged=max(restart.charged if restart else 0, cut_count(outcome.charged_restarts) if outcome else 0),
    )


def _describe(job: Job, reported: CountedRestarts) -> str:
    last = job.status.progress.restart
    is_known = last is not None and last.number == reported.number and job.status.progress.attempt == job.attempt
    cause = f"{last.class_}: {last.message[:800]}" if last and is_known else "the head's log says why"
    return (
        f"Restart {reported.number} of the worker group in the pods of attempt {job.attempt}, of which "
        f"{reported.charged} count in backoffLimit {job.spec.backoff_limit} ({cause})"
    )
