"""What one measured run leaves behind, whichever way it was started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LIMIT_SECONDS = 300.0
DISTURBED = 0.12  # of all processors; some of it is kubectl and our own processes' last half second


class RunFailed(RuntimeError):
    """A run did not end well; the text has the last words of its driver."""


@dataclass(frozen=True)
class Run:
    """One run that succeeded.

    Attributes:
        seconds: from its beginning to its end.
        milestones: seconds since its beginning.
        accuracy: on held-out digits, as the last report has it.
        report_lags: seconds from a report with a checkpoint until the status showed that checkpoint.
        share_of_others: how much of all processors everybody else used meanwhile, 0 to 1.
    """

    seconds: float
    milestones: Mapping[str, float]
    accuracy: float
    report_lags: tuple[float, ...] = ()
    share_of_others: float = 0.0

    @property
    def is_disturbed(self) -> bool:
        return self.share_of_others > DISTURBED


def count_undisturbed(runs: Sequence[Run]) -> int:
    return sum(not run.is_disturbed for run in runs)


def select_undisturbed(runs: Sequence[Run], *, wanted: int) -> list[Run]:
    """Those that count; all of them when the machine was never left to us for long enough."""
    quiet = [run for run in runs if not run.is_disturbed]
    return quiet if len(quiet) >= wanted else list(runs)
