"""The head's standard output and error: Ray prints the ranks' lines there, and this reads the marks.

Filters out marks and noise, prefixes lines with the rank instead of a process id, and knows
when the last line of every rank has arrived.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any, TextIO

from railhead.driver.logs import marks

# Harmless: without the State API, which a minimal Ray lacks, the cleaner complains every second;
# and the driver's main thread handles SIGTERM itself.
_NOISE = ("(PlacementGroupCleaner pid=", "SIGTERM handler is not set because")
_PREFIX = re.compile(r"^(\(RayTrainWorker pid=[^)]*\)) ?")


class Ranks:
    """Which processes have finished their output, and which rank a prefix belongs to; `forward`: spec.logs.forward."""

    def __init__(self, forward: str = "All") -> None:
        self._forwarded = slice({"All": None, "Rank0": 1, "None": 0}[forward])
        self._changed = threading.Condition()
        self._ended: set[tuple[str, str]] = set()
        self._rank_of_prefix: dict[str, int] = {}

    def note(self, mark: marks.Mark, prefix: str) -> None:
        with self._changed:
            self._rank_of_prefix[prefix] = mark.rank
            if mark.kind == marks.END:
                self._ended.add((mark.process, mark.stream))
                self._changed.notify_all()

    def format_prefix(self, prefix: str) -> str:
        rank = self._rank_of_prefix.get(prefix)
        return f"{prefix} " if rank is None else f"(rank {rank}) "

    def wait_until_ended(self, processes: Sequence[str], *, timeout: float) -> bool:
        """Whether the last lines that come from these processes, in the order of their ranks, have arrived within
        `timeout` seconds."""
        wanted = {(process, stream) for process in processes[self._forwarded] for stream in ("out", "err")}
        with self._changed:
            return self._changed.wait_for(lambda: wanted <= self._ended, timeout)


class _Rest(threading.local):
    """The line that this thread has begun: print() writes a line and its end one after the other."""

    text = ""


class RankStream:
    """Replaces sys.stdout or sys.stderr."""

    def __init__(self, stream: TextIO, ranks: Ranks) -> None:
        self._stream = stream
        self._ranks = ranks
        self._lock = threading.RLock()
        self._rest = _Rest()

    def write(self, text: str) -> int:
        with self._lock:
            lines = (self._rest.text + text).split("\n")
            self._rest.text = lines.pop()
            for line in lines:
                self._write_line(line)
            if lines:
                self._stream.flush()  # nothing else flushes the ranks' lines, and a pod's output is a pipe
        return len(text)

    def _write_line(self, line: str) -> None:
        if any(noise in line for noise in _NOISE):
            return
        match = _PREFIX.match(line)
        if match is None:
            self._stream.write(line + "\n")
            return
        prefix, text = match[1], line[match.end() :]
        mark = marks.find_mark(text)
        if mark is not None:
            self._ranks.note(mark, prefix)
            text = mark.rest
        if mark is None or text:
            self._stream.write(self._ranks.format_prefix(prefix) + text + "\n")

    def flush(self) -> None:
        with self._lock:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
