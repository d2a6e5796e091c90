"""Counts for how long no rank has made a step, and what is too long for this run. Pure: the caller passes the time."""

from __future__ import annotations

from typing import Optional

from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress

# Of a group: while compilers and caches are at work, a step may take any time.
FIRST_STEPS = 20
# So long without a step is never a hang.
SHORTEST_WINDOW_SECONDS = 600.0
# The window is so many times the longest gap of the run.
GAPS = 3.0
# After a pause of the head, no more than this counts of a round.
LONGEST_ROUND_SECONDS = 30.0


class StepWatch:
    """Counts for how long no rank has made a step, without the time of uploads and validations."""

    def __init__(self) -> None:
        self.idle = 0.0
        self._longest = 0.0
        self._known: tuple[object, ...] = ()
        self._number = -1
        self._at = 0.0

    @property
    def window(self) -> float:
        """Returns seconds without a step after which a hang is suspected."""
        return max(SHORTEST_WINDOW_SECONDS, GAPS * self._longest)

    def update(self, beat: Optional[Heartbeat], progress: Progress, *, now: float) -> None:
        """Counts a new round. Rounds that are missing say nothing of the ranks: Ray Train's controller is busy."""
        if beat is None or not progress.is_training or beat.most < FIRST_STEPS:
            self._known = ()
            self.idle = 0.0
            return
        if beat.number == self._number:
            return
        known = (progress.processes, beat.alive)
        if known != self._known:
            self.accept()
        elif not beat.is_uploading:
            self.idle += min(now - self._at, LONGEST_ROUND_SECONDS)
        self._known = known
        self._number = beat.number
        self._at = now

    def accept(self) -> None:
        """Ends the gap, by a step or by a restart: a gap of this length is not suspected again."""
        self._longest = max(self._longest, self.idle)
        self.idle = 0.0
