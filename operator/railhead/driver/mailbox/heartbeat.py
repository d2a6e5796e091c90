"""Describes what the ranks' heartbeats say together: how far training is, and what it uploads and uses. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.contract.report import SlowRank, Steps

MOST_GPUS = 512  # in a heartbeat
MOST_RANKS = 4096  # in a heartbeat, of which each takes about 7 bytes in the head pod's file
NO_STEP = -1


@dataclass(frozen=True)
class Uploads:
    """Uploads of checkpoints that have succeeded: how many, the seconds of all of them together, and their bytes."""

    number: int = 0
    seconds: float = 0.0
    size: int = 0

    def __add__(self, other: Uploads) -> Uploads:
        return Uploads(self.number + other.number, self.seconds + other.seconds, self.size + other.size)


NO_UPLOADS = Uploads()


@dataclass(frozen=True)
class GpuUse:
    """One GPU of a rank: its number among the rank's own, bytes of its memory, and percent of time in use."""

    number: int
    used: int
    total: int
    percent: int
    rank: int = -1


@dataclass(frozen=True)
class Heartbeat:
    """One round of questions to all ranks.

    Attributes:
        number: of the round.
        alive: signs of life of all ranks together: optimizer steps and calls of `railhead.training.progress`.
        most: of the rank that has made the most steps.
        is_uploading: all ranks that have answered are in ray.train.report, and one of them uploads its checkpoint.
        steps: for the status.
        uploads: of all ranks together.
        gpus: of the ranks that have answered, at most `MOST_GPUS`.
        blocked: seconds that rank 0 has spent in ray.train.report so far.
        slow_ranks: as in the report.
        stuck_save: why no checkpoints are written for now, by the first rank that tells one.
        rank_steps: of each rank in order, as it has told or counted it; -1 if it has not answered yet, and at most
            `MOST_RANKS`.
        last_uploads: how many uploads are under way, once the function has returned on all ranks; 0 before.
    """

    number: int
    alive: int
    most: int
    is_uploading: bool
    steps: Steps
    uploads: Uploads = NO_UPLOADS
    gpus: tuple[GpuUse, ...] = ()
    blocked: float = 0.0
    slow_ranks: tuple[SlowRank, ...] = ()
    stuck_save: str = ""
    last_uploads: int = 0
    rank_steps: tuple[int, ...] = ()
