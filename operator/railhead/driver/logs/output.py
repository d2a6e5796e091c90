"""The ranks' lines in the head's output, and the marks with which a rank shows where its own output begins and ends.

Ray prints the ranks' lines to the head's standard output and error. What reads them there filters out marks and noise,
prefixes lines with the rank instead of a process id, and knows when the last line of every rank has arrived.

A rank's output passes through files and Ray's log monitor, so the end of training is
known before its last lines arrive. The mark is the last line of each stream: once it has
arrived, so has everything. It names the process, since a rank may run in several, one after the
other. It also tells which rank a file belongs to. No reader shows a mark.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, TextIO

BEGIN, END = "begin", "end"
_MARK = re.compile(r":railhead-mark:(begin|end):(\d+):([0-9a-z-]+):(out|err):")


@dataclass(frozen=True)
class Mark:
    """`kind` is BEGIN or END; `stream` is out or err; `rest` is the line without the mark."""

    kind: str
    rank: int
    process: str
    stream: str
    rest: str


def name_process(node_id: str, pid: int) -> str:
    """Identifies a process in the Ray cluster: process ids alone repeat across pods."""
    return f"{node_id[:16]}-{pid}"


def find_self() -> tuple[int, str]:
    """Rank and process of this worker of Ray Train."""
    import ray.train

    import ray

    process = name_process(ray.get_runtime_context().get_node_id(), os.getpid())
    return int(ray.train.get_context().get_world_rank()), process


def write_marks(kind: str, *, rank: int, process: str) -> None:
    """Bypasses `print`, which Ray Train redirects to its logger."""
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        try:
            stream.flush()
            stream.write(f":railhead-mark:{kind}:{rank}:{process}:{name}:\n")
            stream.flush()
        except Exception:  # the user's code closed or replaced it: nothing more will come
            pass


def find_mark(line: str) -> Optional[Mark]:
    """A mark may follow other text: what the user's code last printed without a newline."""
    if ":railhead-mark:" not in line:
        return None
    match = _MARK.search(line)
    if match is None:
        return None
    return Mark(match[1], int(match[2]), match[3], match[4], line[: match.start()] + line[match.end() :])


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

    def note(self, mark: Mark, prefix: str) -> None:
        with self._changed:
            self._rank_of_prefix[prefix] = mark.rank
            if mark.kind == END:
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
        mark = find_mark(text)
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
