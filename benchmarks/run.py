"""The result of one measured run, whichever way it was started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LIMIT_SECONDS = 300.0
DISTURBED = 0.12  # of all processors; some of it is kubectl and our own processes' last half second


class RunFailed(RuntimeError):
    """A run failed; the message has the end of its driver's log."""


@dataclass(frozen=True)
class Run:
    """One run that succeeded.

    Attributes:
        seconds: from its start to its end.
        milestones: seconds since its start.
        accuracy: on held-out digits, as in the last report.
        report_lags: seconds from a report with a checkpoint until the status showed that checkpoint.
        share_of_others: the share of all processors that other processes used meanwhile, 0 to 1.
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
    """The runs that count; all of them if the machine was never quiet for long enough."""
    quiet = [run for run in runs if not run.is_disturbed]
    return quiet if len(quiet) >= wanted else list(runs)
