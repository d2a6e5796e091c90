"""The head's standard output and error: Ray prints the ranks' lines there, this reads the marks.

Takes marks and noise out, names the rank in front of its lines instead of a process id, and knows
when the last line of every rank has arrived.
"""

from __future__ import annotations

import re
import threading
from typing import Any, TextIO

from railhead.driver import marks

# Harmless, and once a second: a minimal Ray has no State API, and the driver's main thread
# handles SIGTERM itself.
_NOISE = ("Failed to query Ray Train Controller actor state.", "SIGTERM handler is not set because")
_PREFIX = re.compile(r"^(\(RayTrainWorker pid=[^)]*\)) ?")


class Ranks:
    """Which ranks have ended, and whose lines a prefix stands for. Shared by both streams."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: set[tuple[int, str]] = set()
        self._rank_of_prefix: dict[str, int] = {}

    def note(self, mark: marks.Mark, prefix: str) -> None:
        with self._changed:
            if mark.kind == marks.BEGIN:
                self._open.add((mark.rank, mark.stream))
                self._rank_of_prefix[prefix] = mark.rank
            else:
                self._open.discard((mark.rank, mark.stream))
            self._changed.notify_all()

    def format_prefix(self, prefix: str) -> str:
        rank = self._rank_of_prefix.get(prefix)
        return f"{prefix} " if rank is None else f"(rank {rank}) "

    def wait_until_ended(self, timeout: float) -> bool:
        """Whether the last lines of all ranks that began have arrived within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)


class RankStream:
    """Stands in for sys.stdout or sys.stderr."""

    def __init__(self, stream: TextIO, ranks: Ranks) -> None:
        self._stream = stream
        self._ranks = ranks
        self._lock = threading.RLock()
        self._rest = ""

    def write(self, text: str) -> int:
        with self._lock:
            lines = (self._rest + text).split("\n")
            self._rest = lines.pop()
            for line in lines:
                self._write_line(line)
        return len(text)

    def _write_line(self, line: str) -> None:
        if any(words in line for words in _NOISE):
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
