"""What one measured run leaves behind, whichever way it was started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_SECONDS = 300.0


class RunFailed(RuntimeError):
    """A run did not end well; the text has the last words of its driver."""


@dataclass(frozen=True)
class Run:
    """One run that succeeded.

    Attributes:
        seconds: from its beginning to its end.
        milestones: seconds since its beginning.
        accuracy: on held-out digits, as the last report has it.
    """

    seconds: float
    milestones: Mapping[str, float]
    accuracy: float
