"""The API server's time: the source of every time in the status and of every deadline.

Taken from the Date headers of its responses, to the second, and advanced by a monotonic clock. The
wall clock of this machine is not used, so that a jump of it never ends a job early or late. The
median of half an hour counts: one API server of several whose clock is wrong, or one that is wrong
for some minutes, changes nothing, and a clock that is corrected is followed in both directions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SAMPLE_SECONDS = 30.0  # one response in this time counts
WINDOW_SECONDS = 1800.0
TRUNCATION = timedelta(seconds=1)  # a Date is up to this late, and latency adds to it: the latest is the most accurate


def micro_now() -> str:
    """Returns this machine's time in the format of a Lease's times (MicroTime)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ServerClock:
    """`now()` is the API server's time from the first response on; before it, this machine's."""

    def __init__(self, monotonic: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self.monotonic = monotonic
        self._wall = wall
        # By the monotonic clock: when a sample began, and the API server's time at 0 of that clock.
        self._samples: deque[tuple[float, datetime]] = deque()
        self._zero: datetime | None = None
        self._last_date: str | None = None

    def observe(self, date: str | None) -> None:
        """Takes the Date header of a response; ignores an invalid one."""
        if date == self._last_date:
            # The first response of a second is the most accurate.
            return
        self._last_date = date
        try:
            moment = parsedate_to_datetime(date or "")
        except ValueError:
            return
        at = self.monotonic()
        zero = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - timedelta(seconds=at)
        if not self._samples or at - self._samples[-1][0] >= SAMPLE_SECONDS:
            self._samples.append((at, zero))
        else:
            began, last = self._samples[-1]
            if not last < zero <= last + TRUNCATION:
                return
            self._samples[-1] = (began, zero)
        while at - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()
        self._zero = _choose_zero(sorted(zero for _, zero in self._samples), known=self._zero)

    def now(self) -> datetime:
        if self._zero is None:
            return self._wall()
        return self._zero + timedelta(seconds=self.monotonic())

    @property
    def machine_offset(self) -> timedelta:
        """Returns by how much this machine's clock is ahead of the API server's."""
        return self._wall() - self.now()


def _choose_zero(zeros: list[datetime], *, known: datetime | None) -> datetime:
    """Returns the most accurate of those that agree with the median. Of two medians the one nearer to `known`
    counts."""
    low = zeros[(len(zeros) - 1) // 2]
    high = zeros[len(zeros) // 2]
    if known is not None and abs(high - known) < abs(low - known):
        median = high
    else:
        median = low
    return max(zero for zero in zeros if zero <= median + TRUNCATION)
