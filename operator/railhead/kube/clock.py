"""The API server's time: the source of every time in the status and of every deadline.

Taken from the Date header of its responses, to the second, and advanced by a monotonic clock. The
wall clock of this machine is not used, so that a jump of it never ends a job early or late.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DRIFT_SECONDS = 5.0  # more is a jump of one API server's clock


def format_micro_time(moment: datetime) -> str:
    """The format of a Lease's times (MicroTime)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ServerClock:
    """`now()` advances steadily from the first response; before it, it is this machine's time."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._zero: datetime | None = None  # the API server's time at 0 of the monotonic clock

    def observe(self, date: str | None) -> None:
        """Takes the Date header of a response; ignores an invalid one and a jump."""
        try:
            moment = parsedate_to_datetime(date or "")
        except ValueError:
            return
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        zero = moment - timedelta(seconds=self._monotonic())
        # Truncation makes a Date up to a second late, and latency adds to it: the latest is the most accurate.
        if self._zero is None or self._zero < zero < self._zero + timedelta(seconds=DRIFT_SECONDS):
            self._zero = zero

    def now(self) -> datetime:
        if self._zero is None:
            return self._wall()
        return self._zero + timedelta(seconds=self._monotonic())
