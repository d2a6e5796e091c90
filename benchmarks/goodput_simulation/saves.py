"""When a training loop saves, and what its checkpoints keep: by Railhead's own pace (`dcp.save(..., every=...)`). Pure.

Each save stops training for a moment, while the state is copied, and is then written beside it. It keeps what was
trained before it began, once it is written. Each group of workers begins with a pace that knows nothing but the losses
so far.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.training._save_pace import REMEMBERED, Every, SavePace


@dataclass(frozen=True)
class SaveTimes:
    """Seconds that a checkpoint takes, all assumed.

    Attributes:
        stall: training waits for the copy to the memory of the host. 70 billion parameters with Adam take 1.1 TB, of
            which each of 1,024 GPUs has 1.1 GB: 0.05 s by PCIe, and a collective before and after it.
        write: until all parts are in the storage: 1.1 TB at 40 GB/s.
        load: until each rank has read its part again, at 55 GB/s.
    """

    stall: float = 0.2
    write: float = 30.0
    load: float = 20.0


@dataclass(frozen=True)
class Saved:
    """What some time of training has left.

    Attributes:
        kept: seconds of training that its checkpoints keep.
        stalled: seconds in which it waited for saves.
        commits: number of checkpoints that are written.
    """

    kept: float
    stalled: float
    commits: int


class Saves:
    """The saves of each group of workers, by the time since its training began. Each GPU has a worker."""

    def __init__(self, every: Every, times: SaveTimes, *, gpus: int) -> None:
        self._every = every
        self._times = times
        self._gpus = gpus
        self.note_losses(NO_LOSSES)

    def note_losses(self, losses: LossHistory) -> None:
        """Notes the losses so far, which the pace of the next group knows."""
        times = self._times
        pace = SavePace(self._every, ranks=self._gpus, now=0.0)
        pace.note_losses(losses)
        at = pace.interval
        self._first: list[float] = []  # when they begin; afterwards the pace knows nothing new
        for _ in range(REMEMBERED):
            pace.begin(at)
            pace.add_stall(times.stall)
            pace.end(at + times.write)
            self._first.append(at)
            self._period = max(pace.interval, times.write)
            at += self._period

    def look(self, seconds: float) -> Saved:
        """Returns what is saved when training has run for that long."""
        begun = self._count(seconds)
        commits = self._count(seconds - self._times.write)
        stalled = begun * self._times.stall
        if begun:
            stalled -= max(self._begin(begun) + self._times.stall - seconds, 0.0)
        kept = 0.0
        if commits:
            kept = self._begin(commits) - (commits - 1) * self._times.stall
        return Saved(kept, stalled, commits)

    def _count(self, seconds: float) -> int:
        """Counts the saves that have begun by then."""
        last = self._first[-1]
        if seconds < last:
            return bisect_right(self._first, seconds)
        return len(self._first) + int((seconds - last) // self._period)

    def _begin(self, number: int) -> float:
        """Returns when this save begins; the first one is 1."""
        if number <= len(self._first):
            return self._first[number - 1]
        return self._first[-1] + (number - len(self._first)) * self._period
