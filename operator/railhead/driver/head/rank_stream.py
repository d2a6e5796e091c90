"""Names ranks in the head's output.

Ray prints the ranks' lines to the head's standard output and error. Here marks and noise are left out, lines get the
rank as a prefix instead of a process id, and the end marks of all ranks are awaited.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any, Callable, TextIO

from railhead.driver.messages.rank_marks import END, Mark, find_mark

LAST_LINES_SECONDS = 5.0
# Shorter, since ranks that were killed never write their end mark.
LAST_LINES_OF_FAILURE_SECONDS = 1.0
# A line of Ray's that alarms users for nothing: the driver's main thread handles SIGTERM itself.
_NOISE = "SIGTERM handler is not set because"
# From how many ranks, the first ones; None = from all.
_FORWARDED_RANKS = {"All": None, "Rank0": 1, "None": 0}
_PREFIX = re.compile(r"^(\(RayTrainWorker pid=[^)]*\)) ?")


class Ranks:
    """Knows which processes have finished their output, and which rank a prefix belongs to.

    `forward`: spec.logs.forward, which says from how many ranks Ray forwards lines, and end marks, to the head.
    """

    def __init__(self, forward: str = "All") -> None:
        self._forwarded = slice(_FORWARDED_RANKS[forward])
        self._changed = threading.Condition()
        self._ended: set[tuple[str, str]] = set()
        self._rank_of_prefix: dict[str, int] = {}

    def record(self, mark: Mark, prefix: str) -> None:
        """Takes a mark that a process has written into its output, which Ray forwards under this prefix."""
        with self._changed:
            self._rank_of_prefix[prefix] = mark.rank
            if mark.kind == END:
                self._ended.add((mark.process, mark.stream))
                self._changed.notify_all()

    def format_prefix(self, prefix: str) -> str:
        """Returns what a line begins with: the rank, or Ray's own prefix before the rank is known."""
        rank = self._rank_of_prefix.get(prefix)
        if rank is None:
            return f"{prefix} "
        return f"(rank {rank}) "

    def wait_until_ended(self, processes: Sequence[str], *, timeout: float) -> bool:
        """Waits at most `timeout` seconds for the last lines of these processes; tells whether they have arrived.

        `processes`: in the order of their ranks.
        """
        wanted = {(process, stream) for process in processes[self._forwarded] for stream in ("out", "err")}
        with self._changed:
            return self._changed.wait_for(lambda: wanted <= self._ended, timeout)


def _drop(line: str) -> None:
    """Keeps nothing."""


class RankStream:
    """Replaces sys.stdout or sys.stderr. `keep` gets each line that comes from no rank."""

    def __init__(self, stream: TextIO, ranks: Ranks, keep: Callable[[str], None] = _drop) -> None:
        self._stream = stream
        self._ranks = ranks
        self._keep = keep
        self._lock = threading.RLock()
        # `text`: the line that this thread has begun. print() writes the end of a line separately, so without it the
        # lines of two threads would mix.
        self._rest = threading.local()

    def write(self, text: str) -> int:
        with self._lock:
            lines = (getattr(self._rest, "text", "") + text).split("\n")
            self._rest.text = lines.pop()
            for line in lines:
                self._write_line(line)
            # Nothing else flushes the ranks' lines, and a pod's output is a pipe.
            if lines:
                self._stream.flush()
        return len(text)

    def _write_line(self, line: str) -> None:
        if _NOISE in line:
            return
        match = _PREFIX.match(line)
        if match is None:
            self._stream.write(line + "\n")
            self._keep(line)
            return
        prefix = match[1]
        text = line[match.end() :]
        mark = find_mark(text)
        if mark is not None:
            self._ranks.record(mark, prefix)
            text = mark.rest
        if mark is None or text:
            self._stream.write(self._ranks.format_prefix(prefix) + text + "\n")

    def flush(self) -> None:
        with self._lock:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
