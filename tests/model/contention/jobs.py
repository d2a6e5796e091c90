"""Random jobs of a day, by a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

DAY = 86_400.0
ARRIVALS = 0.75 * DAY  # the last one leaves time to be served
LARGEST = 32  # GPUs
LENGTHS = (1800.0, 10_800.0)  # seconds of training
URGENT_SHARE = 0.2


@dataclass(frozen=True)
class Work:
    """A job: when it is created, how many GPUs it needs for how many seconds, and whether it may preempt."""

    name: str
    at: float
    gpus: int
    seconds: float
    is_urgent: bool


def plan_jobs(count: int, *, span: float = ARRIVALS, random: Random) -> list[Work]:
    """Returns jobs of 1 to 32 GPUs that arrive within `span` seconds."""
    return [
        Work(
            f"job-{number}",
            at=random.uniform(0, span),
            gpus=random.randint(1, LARGEST),
            seconds=random.uniform(*LENGTHS),
            is_urgent=random.random() < URGENT_SHARE,
        )
        for number in range(count)
    ]
