"""What a job's time was spent on, as parts that add up: productive time, and lost time by cause. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.api.status import JobStatus

PRODUCTIVE = "productive"
# The causes of status.goodput.lostSeconds in a person's words.
TITLES: Mapping[str, str] = {
    PRODUCTIVE: "Training",
    "queued": "Queued",
    "pods_pending": "Pods pending",
    "starting": "Starting",
    "restoring": "Restoring after a loss",
    "checkpointing": "Checkpointing",
    "retrained": "Training lost, made again",
    "hanging": "Hanging",
    "draining": "Draining",
    "suspended": "Suspended",
    "other": "Other",
}


@dataclass(frozen=True)
class SpentTime:
    """One part of the job's time.

    Attributes:
        cause: `productive`, or a field of status.goodput.lostSeconds.
        share: of the whole time, 0 to 1.
    """

    cause: str
    title: str
    seconds: int
    share: float


def divide_time(status: JobStatus) -> list[SpentTime]:
    """Returns the parts that are not empty: training first, then the causes, the most expensive first."""
    spent = status.goodput
    if spent is None or not spent.wall_seconds:
        return []
    lost = [(cause, seconds) for cause, seconds in spent.lost_seconds if seconds]
    parts = [(PRODUCTIVE, spent.productive_seconds), *sorted(lost, key=_read_cost)]
    return [
        SpentTime(cause, TITLES[cause], seconds, seconds / spent.wall_seconds) for cause, seconds in parts if seconds
    ]


def _read_cost(part: tuple[str, int]) -> tuple[int, str]:
    cause, seconds = part
    return -seconds, cause
