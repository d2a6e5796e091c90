"""What slows down a job that trains: the causes that took much of its time, and a rate below its average. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter

from railhead.api.status import JobStatus

LEAST_SECONDS = 600  # of a job's time, before a share of it says anything
LEAST_SHARE = 0.1  # of a job's time, lost to one cause
LEAST_RATE = 0.6  # of the average
# Reasons, with the fields of status.goodput.lostSeconds that they stand for.
_LOST: Mapping[str, tuple[str, ...]] = {
    "SlowCheckpoints": ("checkpointing",),
    "TrainingRepeated": ("retrained",),
    "RestartsCostTime": ("restoring",),
    "PodsCameLate": ("queued", "pods_pending"),
    "HangsCostTime": ("hanging",),
}


def explain_slowness(status: JobStatus) -> Iterator[tuple[str, str]]:
    """Yields a reason of the table `slow` and its numbers for each cause that matters, the most expensive first."""
    spent = status.goodput
    if spent is not None and spent.wall_seconds >= LEAST_SECONDS:
        lost = {reason: sum(getattr(spent.lost_seconds, each) for each in fields) for reason, fields in _LOST.items()}
        for reason, seconds in sorted(lost.items(), key=itemgetter(1), reverse=True):
            share = seconds / spent.wall_seconds
            if share >= LEAST_SHARE:
                yield reason, f"{seconds} of {spent.wall_seconds} s, {share:.0%} of the job's time"
    yield from _compare_rates(status)


def _compare_rates(status: JobStatus) -> Iterator[tuple[str, str]]:
    """Steps that another job made, or that were lost, are in no average; neither are those of another group's size."""
    progress = status.progress
    spent = status.goodput
    if spent is None or spent.productive_seconds < LEAST_SECONDS or not progress.step or not progress.steps_per_second:
        return
    try:
        now = float(progress.steps_per_second)
    except ValueError:
        return
    average = progress.step / spent.productive_seconds
    is_comparable = status.initial_checkpoint is None and status.resize is None
    if is_comparable and now < LEAST_RATE * average:
        yield "RateFell", f"{now:.3g} steps/s now, {average:.3g} on average"
