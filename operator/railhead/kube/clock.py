"""The API server's time, by which everything in the status is stamped and every limit is measured.

The Date header of its answers says it, to the second; a monotonic clock carries it on. The
clock of this machine is not asked, so that a jump of it ends no job early and keeps none late.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

DRIFT_SECONDS = 5.0  # more is a jump, of one of several API servers or of its machine


def format_micro_time(moment: datetime) -> str:
    """As the times of a Lease are written."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ServerClock:
    """`now()` goes on evenly from the first answer; before it, it is this machine's time."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._zero: datetime | None = None  # the API server's time when the monotonic clock stood at 0

    def observe(self, date: str | None) -> None:
        """The Date header of an answer; what is none is not heard, and neither is a jump."""
        try:
            moment = parsedate_to_datetime(date or "")
        except ValueError:
            return
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        zero = moment - timedelta(seconds=self._monotonic())
        # A Date is up to a second late, and so is an answer that travelled: the latest is the best.
        if self._zero is None or self._zero < zero < self._zero + timedelta(seconds=DRIFT_SECONDS):
            self._zero = zero

    def now(self) -> datetime:
        if self._zero is None:
            return self._wall()
        return self._zero + timedelta(seconds=self._monotonic())
