"""What checkpoints and losses cost together, by the time between two checkpoints. Pure arithmetic, in seconds.

Losses come at random, on average one in `mtbf` (a Poisson process). The formula is the one of J. T. Daly, "A higher
order estimate of the optimum checkpoint interval for restart dumps" (2006); `tests/.../test_save_interval.py` compares
it with a simulation. For intervals that are short beside `mtbf` it is stall/interval + (interval/2 + downtime)/mtbf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Seconds: more frequent checkpoints are rarely worth their load on the storage.
LEAST_INTERVAL = 30.0


@dataclass(frozen=True)
class SaveCosts:
    """What determines the best interval.

    Attributes:
        stall: for how long training waits for one checkpoint.
        downtime: from a loss until training runs again.
        mtbf: the mean time of training between two losses.
    """

    stall: float
    downtime: float
    mtbf: float

    @property
    def best_interval(self) -> float:
        """Returns the time of training between two checkpoints at which the least is lost (Young's formula)."""
        return max(LEAST_INTERVAL, math.sqrt(2 * self.stall * self.mtbf))

    def share_lost(self, interval: float) -> float:
        """Returns the share of the time, 0 to 1, in which a job makes no progress that counts."""
        segment = (interval + self.stall) / self.mtbf
        restart = self.downtime / self.mtbf
        if segment + restart > 50:
            # It never comes to its next checkpoint.
            return 1.0
        needed = self.mtbf * math.exp(restart) * math.expm1(segment)
        return 1 - interval / needed
