"""What the ranks' heartbeats say together: how far training is, and for how long no rank has made a step. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from railhead.contract.report import SlowRank, Steps
from railhead.driver.reporting.progress import Progress

FIRST_STEPS = 20  # of a group, among which compilers and caches may take any time
SHORTEST_WINDOW_SECONDS = 600.0  # without a step; they are never a hang
GAPS = 3.0  # the window is so many times the longest gap of the run
MOST_GPUS = 512  # in a heartbeat
LONGEST_ROUND_SECONDS = 30.0  # after a pause of the head, no more counts


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


class StepWatch:
    """For how long no rank has made a step, without reports and validations. The caller passes the time."""

    def __init__(self) -> None:
        self.idle = 0.0
        self._longest = 0.0
        self._known: tuple[object, ...] = ()
        self._number = -1
        self._at = 0.0

    @property
    def window(self) -> float:
        """Seconds without a step after which a hang is suspected."""
        return max(SHORTEST_WINDOW_SECONDS, GAPS * self._longest)

    def look(self, beat: Optional[Heartbeat], progress: Progress, *, now: float) -> None:
        """Counts a new round. Rounds that are missing say nothing of the ranks: Ray Train's controller is busy."""
        if beat is None or not progress.is_training or beat.most < FIRST_STEPS:
            self._known, self.idle = (), 0.0
            return
        if beat.number == self._number:
            return
        known = (progress.processes, beat.alive)
        if known == self._known:
            self.idle += 0.0 if beat.is_uploading else min(now - self._at, LONGEST_ROUND_SECONDS)
        else:
            self.accept()
        self._known, self._number, self._at = known, beat.number, now

    def accept(self) -> None:
        """The gap has ended, or a restart has ended it: a gap of this length is not suspected again."""
        self._longest = max(self._longest, self.idle)
        self.idle = 0.0
