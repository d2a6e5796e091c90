"""What slows down a job that trains: the causes that took much of its time, and a rate below its average. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from railhead.api.status import JobStatus
from railhead.client.cause import Cause

LEAST_SECONDS = 600  # of a job's time, before a share of it says anything
LEAST_SHARE = 0.1  # of a job's time, lost to one cause
LEAST_RATE = 0.6  # of the average
SLOW: Mapping[str, Cause] = {
    "SlowCheckpoints": Cause(
        "All ranks wait in ray.train.report while checkpoints are written.",
        "Report checkpoints less often, or with checkpoint_upload_mode=CheckpointUploadMode.ASYNC; "
        "let each rank write its part, and use a faster storage.",
    ),
    "TrainingRepeated": Cause(
        "Losses took back training that ran after the last checkpoint.",
        "Report checkpoints more often than the job loses nodes.",
    ),
    "RestartsCostTime": Cause(
        "The job restarts often or slowly: the time went into pauses, pods and Ray's start.",
        "See in `railhead timeline {name}` what was lost; make imports, data and the loading of a checkpoint faster.",
    ),
    "PodsCameLate": Cause(
        "The job had to wait for quota, nodes or images.",
        "Give it a higher priority or reserved nodes, and have large images pulled to the nodes beforehand.",
    ),
    "HangsCostTime": Cause(
        "Training stood still until a hang was detected.",
        "Find the rank that hangs in `railhead logs {name}`; lower spec.progressDeadlineSeconds.",
    ),
    "RateFell": Cause(
        "Training makes fewer steps per second than on average so far.",
        "See in `railhead metrics {name}` since when; look for slow data, a throttled GPU or a slow rank. A rule of "
        "spec.metricPolicy can warn at once.",
    ),
}
# Reasons, with the fields of status.goodput.lostSeconds that they stand for.
_LOST: Mapping[str, tuple[str, ...]] = {
    "SlowCheckpoints": ("checkpointing",),
    "TrainingRepeated": ("retrained",),
    "RestartsCostTime": ("restoring",),
    "PodsCameLate": ("queued", "pods_pending"),
    "HangsCostTime": ("hanging",),
}


def find_slowness(status: JobStatus) -> Iterator[tuple[str, str]]:
    """Yields a reason of `SLOW` and its numbers for each cause that matters, the most expensive first."""
    spent = status.goodput
    if spent is not None and spent.wall_seconds >= LEAST_SECONDS:
        lost = {reason: sum(getattr(spent.lost_seconds, each) for each in fields) for reason, fields in _LOST.items()}
        for reason, seconds in sorted(lost.items(), key=lambda each: -each[1]):
            if seconds >= LEAST_SHARE * spent.wall_seconds:
                yield (
                    reason,
                    f"{seconds} of {spent.wall_seconds} s, {seconds / spent.wall_seconds:.0%} of the job's time",
                )
    yield from _compare_rates(status)


def _compare_rates(status: JobStatus) -> Iterator[tuple[str, str]]:
    """Steps that another job made, or that were lost, are in no average; neither are those of another group's size."""
    progress, spent = status.progress, status.goodput
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
