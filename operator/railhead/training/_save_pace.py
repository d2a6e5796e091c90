"""Decides when the next checkpoint of a training loop is due, from what saves have cost so far. Pure: the caller passes
the time, in seconds of a clock that never jumps.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Deque, Literal, Union

from railhead.contract.loss_rate import NO_LOSSES, LossHistory

Every = Union[Literal["auto", "continuous"], float]

STALL_SHARE = 0.01  # of the time between two saves: training does not wait longer for "auto"
# Of the time between two saves of "auto": it writes no longer than that, since the storage has others to serve.
WRITE_SHARE = 0.5
LEAST_SECONDS = 30.0  # between two saves of "auto", however cheap they are
# So many saves: one that met a busy moment is forgotten after two better ones.
REMEMBERED = 3


class SavePace:
    """When the saves of one loop begin.

    `every`: seconds between the beginnings of two saves; "auto": as often as losses and the time that training waits
    for saves cost least together, and wait for at most `STALL_SHARE`; "continuous": once the last save is committed. No
    mode begins a save before that.
    """

    def __init__(self, every: Every, *, ranks: int, now: float) -> None:
        """Raises ValueError. `ranks`: of the whole group, one of which is enough to lose."""
        self._every = _check(every)
        self._ranks = ranks
        self._losses = NO_LOSSES
        self._begun = now
        self._stalls: Deque[float] = deque(maxlen=REMEMBERED)
        self._written = 0.0  # seconds that the last one took from its beginning to its commit

    @property
    def interval(self) -> float:
        """Returns the seconds from the beginning of the last save to the next one."""
        if self._every == "continuous":
            return 0.0
        if self._every == "auto":
            stall = max(self._stalls, default=0.0)
            loss_seconds = self._losses.expect_seconds(self._ranks)
            cheapest = math.sqrt(2 * stall * loss_seconds)  # of stall / interval + interval / 2 / loss_seconds
            return max(LEAST_SECONDS, cheapest, stall / STALL_SHARE, self._written / WRITE_SHARE)
        return float(self._every)

    @property
    def has_begun(self) -> bool:
        """Returns whether any save has begun."""
        return bool(self._stalls)

    def is_due(self, now: float) -> bool:
        return now - self._begun >= self.interval

    def note_losses(self, losses: LossHistory) -> None:
        """Notes what is known of the run's losses by now, for "auto"."""
        self._losses = losses

    def begin(self, now: float) -> None:
        self._begun = now
        self._stalls.append(0.0)

    def add_stall(self, seconds: float) -> None:
        """Adds time for which training has waited for the last save that began."""
        self._stalls[-1] += seconds

    def end(self, now: float) -> None:
        """Notes that the last save is committed."""
        self._written = now - self._begun


def _check(every: Every) -> Every:
    if every in ("auto", "continuous"):
        return every
    if isinstance(every, (int, float)) and not isinstance(every, bool) and 0 < every < math.inf:
        return every
    raise ValueError(f'every must be "auto", "continuous" or a number of seconds above 0, not {every!r}')
