"""Which lines of a pod's log are new: after a connection is lost, none is shown twice and none is left out. Pure.

The kubelet puts a time with nanoseconds before each line. A new connection asks for the lines since the second of the
last one that was shown, so it begins with lines that are known already.
"""

from __future__ import annotations

import re

_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


class LogPosition:
    """How far the log of one pod has been shown.

    Attributes:
        since: the second of the last line, in RFC 3339; "" = nothing was shown yet.
        is_torn: whether the last new line does not follow the one before: the log no longer has that one.
    """

    def __init__(self) -> None:
        self.since = ""
        self.is_torn = False
        self._last = (b"", b"")
        self._alike = 0  # lines that were shown with the time of the last one
        self._plain = 0  # lines without a time, which only some kubelets send
        self._is_catching_up = False
        self._skipped = self._passed = 0

    def begin(self) -> None:
        """Expects the lines of a new connection, of which some may be known."""
        self._is_catching_up = bool(self.since)
        self._skipped = self._passed = 0

    def take(self, line: bytes) -> str | None:
        """Returns the text of a line if it is new."""
        found = _STAMP.match(line)
        if found is None:
            return self._take_plain(line)
        time = (found[1] + found[3], (found[2] or b"").ljust(9, b"0"))
        if self._is_catching_up and self._is_known(time):
            return None
        self.is_torn = self._is_catching_up and self._skipped < self._alike
        self._is_catching_up = False
        self._alike = self._alike + 1 if time == self._last else 1
        self._last = time
        self.since = time[0].decode()
        return _decode(line[found.end() :])

    def _is_known(self, time: tuple[bytes, bytes]) -> bool:
        if time < self._last:
            return True
        if time == self._last and self._skipped < self._alike:
            self._skipped += 1
            return True
        return False

    def _take_plain(self, line: bytes) -> str | None:
        self._passed += 1
        if self._passed <= self._plain:
            return None
        self._plain = self._passed
        return _decode(line)


def _decode(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="replace")


def read_rank(text: str) -> int | None:
    """Returns the rank at the beginning of a line of a job's pod, None for a line of the driver."""
    found = re.match(r"\(rank (\d{1,7})\) ", text)
    if found:
        return int(found[1])
    return None
