"""The ranks' lines: marked where a rank writes them, followed on a worker's node, named by rank in the head's output.

A rank's output passes through Ray's session files, one pair per process, and Ray's log monitor, so the end of training
is known before its last lines arrive. Each rank marks where its output begins and ends. The end mark is the last line
of each stream: once it has arrived, so has everything. A mark names the rank, to which the file belongs, and the
process, since a rank may run in several, one after the other. No reader shows a mark.

A worker's entry point shows the lines of Ray Train's workers; the files record which actor a process became. Nothing is
lost but the states of a progress bar in between: its last one is shown every few seconds, and when its line ends.

Ray prints the ranks' lines to the head's standard output and error. There marks and noise are left out, lines get the
rank as a prefix instead of a process id, and the end marks of all ranks are awaited.

What was shown long ago is freed on the disk: the files of a run of weeks stay small, without Ray's own rotation, with
which a rank that is killed loses its last lines. Only the blocks of a file's beginning are freed; its size and all
offsets stay, so neither its writer nor its readers notice, and the beginning reads as zero bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, TextIO

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


PROGRESS_SECONDS = 10.0  # between two states of a progress bar that are shown
ENDED_SECONDS = 60.0  # without news from a process that has ended and was no rank's: its file is forgotten
LINE_LIMIT = 64 * 1024  # bytes; a longer line is shown in pieces
_RANK_ACTOR = ":actor_name:RayTrainWorker"
_READ_LIMIT = 1 << 20  # bytes per file and poll


@dataclass
class LogFile:
    """What was read of a file: `read_at`: the last time with news; `rest`: an incomplete last line; `is_rank`: it is of
    one of Ray Train's workers; `has_ended`: that process has."""

    read_at: float = 0.0
    inode: int = 0
    offset: int = 0
    rest: bytes = b""
    is_rank: bool = False
    rank: Optional[int] = None
    shown_at: float = float("-inf")
    has_ended: bool = False


class LogTail:
    """Follows `temp/session_*/logs/worker-*`. One instance per node.

    `keep` gets each line that is shown, with its rank, None as long as the process has not told it; `on_end` is called
    when a rank's process has ended and its last lines were read.
    """

    def __init__(
        self,
        temp: Path,
        *,
        out: Optional[TextIO] = None,
        err: Optional[TextIO] = None,
        keep: Callable[[Optional[int], str], None] = lambda rank, line: None,
        on_end: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._temp = temp
        self._keep = keep
        self._on_end = on_end
        self._sinks = {".out": out or sys.stdout, ".err": err or sys.stderr}
        self._files: dict[Path, LogFile] = {}
        self._ended: set[str] = set()  # names of files
        self._clock = clock

    def poll(self) -> bool:
        """Shows new lines; whether there was something to read. Skips a file that vanished."""
        is_news = False
        for folder in self._temp.glob(SESSION_LOGS):
            for name in sorted(set(os.listdir(folder)) - self._ended):
                path = folder / name
                sink = self._sinks.get(path.suffix)
                if sink is not None and name.startswith("worker-"):
                    state = self._files.setdefault(path, LogFile(read_at=self._clock()))
                    is_news |= self._read(path, state, sink)
        return is_news

    def _read(self, path: Path, state: LogFile, sink: TextIO) -> bool:
        try:
            data = read_new(path, state)
        except OSError:
            return False
        if not data:
            self._look_for_end(path, state, sink)
            return False
        state.read_at = self._clock()
        lines = (state.rest + data).split(b"\n")
        state.rest = lines.pop()
        for line in lines:
            self._show(_find_last_state(line), state, sink)
        if b"\r" in state.rest:
            self._show_progress(state, sink)
        while len(state.rest) > LINE_LIMIT:
            self._show(state.rest[:LINE_LIMIT], state, sink)
            state.rest = state.rest[LINE_LIMIT:]
        sink.flush()
        return True

    def _look_for_end(self, path: Path, state: LogFile, sink: TextIO) -> None:
        """Forgets the file of a process that was no rank's, and tells once that a rank's process has ended."""
        is_old = self._clock() - state.read_at > ENDED_SECONDS
        if state.has_ended or not (state.is_rank or is_old) or _is_alive(path):
            return
        if state.is_rank:
            state.has_ended = True
            if state.rest:  # nothing completes it any more
                self._show(_find_last_state(state.rest), state, sink)
                sink.flush()
                state.rest = b""
            self._on_end()
        else:
            self._ended.add(path.name)
            del self._files[path]

    def _show_progress(self, state: LogFile, sink: TextIO) -> None:
        """Keeps the last state only, which may be incomplete."""
        before, _, state.rest = state.rest.rpartition(b"\r")
        if before and self._clock() - state.shown_at >= PROGRESS_SECONDS:
            state.shown_at = self._clock()
            self._show(_find_last_state(before), state, sink)

    def _show(self, data: bytes, state: LogFile, sink: TextIO) -> None:
        line = data.decode(errors="replace")
        if line.startswith(_RANK_ACTOR):
            state.is_rank = True
            return
        if not state.is_rank or line.startswith((":job_id:", ":actor_name:", ":task_name:")):
            return
        mark = find_mark(line)
        if mark is not None:
            state.rank = mark.rank
            line = mark.rest
            if not line:
                return
        prefix = "" if state.rank is None else f"(rank {state.rank}) "
        sink.write(f"{prefix}{line}\n")
        self._keep(state.rank, line)


def _is_alive(path: Path) -> bool:
    """Ray's name of the file ends with the process id."""
    return Path("/proc", path.stem.rpartition("-")[2]).exists()


def read_new(path: Path, state: LogFile) -> bytes:
    """Returns what was written since the last time. A rotated file is read to its end before the new one of its name.

    Raises OSError.
    """
    found = path.stat()
    if state.inode not in (0, found.st_ino):
        data = _read_rotated(path, state)
        if data:
            return data
        state.offset = 0
    state.inode = found.st_ino
    if found.st_size < state.offset:  # truncated
        state.offset = 0
    data = _read_on(path, state) if found.st_size > state.offset else b""
    free_old(path, disk_bytes=found.st_blocks * 512, end=state.offset)
    return data


def _read_rotated(path: Path, state: LogFile) -> bytes:
    old = path.with_name(f"{path.name}.1")
    try:
        return _read_on(old, state) if old.stat().st_ino == state.inode else b""
    except OSError:
        return b""


def _read_on(path: Path, state: LogFile) -> bytes:
    with open(path, "rb") as file:
        file.seek(state.offset)
        data = file.read(_READ_LIMIT)
    state.offset += len(data)
    return data


def _find_last_state(line: bytes) -> bytes:
    """What a terminal would show of a line that was written over itself."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")


KEPT_BYTES = 64 * 2**20  # of each file, before where its reader is; Ray's log monitor reads it too
FREE_INTERVAL_SECONDS = 10.0
SESSION_LOGS = "session_2*/logs"  # in Ray's temporary folder
TRAIN_LOGS = f"{SESSION_LOGS}/train/*"  # Ray Train's own, which nothing rotates
WORKER_LOGS = f"{SESSION_LOGS}/worker-*"
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # modes of fallocate(2), in linux/falloc.h


def free_beginning(path: Path, length: int) -> bool:
    """Whether the file system could: ext4, xfs, btrfs, overlayfs and tmpfs can. Raises OSError."""
    with open(path, "r+b") as file:
        mode = _KEEP_SIZE | _PUNCH_HOLE
        return bool(ctypes.CDLL(None).fallocate(file.fileno(), mode, ctypes.c_int64(0), ctypes.c_int64(length)) == 0)


def free_old(path: Path, *, disk_bytes: int, end: int) -> None:
    """Frees all but KEPT_BYTES before the offset `end`, once the file takes twice that. An error costs only space."""
    if disk_bytes >= 2 * KEPT_BYTES and end > KEPT_BYTES:
        with contextlib.suppress(OSError):
            free_beginning(path, end - KEPT_BYTES)


def keep_small(temp: Path, *patterns: str, sleep: Callable[[float], None] = time.sleep) -> None:
    """Frees the beginnings of the logs that match, again and again. Does not return."""
    while True:
        for pattern in patterns:
            for path in temp.glob(pattern):
                with contextlib.suppress(OSError):  # it vanished
                    found = path.stat()
                    free_old(path, disk_bytes=found.st_blocks * 512, end=found.st_size)
        sleep(FREE_INTERVAL_SECONDS)


LAST_LINES_SECONDS = 5.0
LAST_LINES_OF_FAILURE_SECONDS = 1.0  # ranks that were killed never write their end mark
_NOISE = "SIGTERM handler is not set because"  # the driver's main thread handles it itself
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


class RankStream:
    """Replaces sys.stdout or sys.stderr. `keep` gets each line that is no rank's."""

    def __init__(self, stream: TextIO, ranks: Ranks, keep: Callable[[str], None] = lambda line: None) -> None:
        self._stream = stream
        self._ranks = ranks
        self._keep = keep
        self._lock = threading.RLock()
        self._rest = threading.local()  # `text`: the line that this thread has begun; print() writes its end afterwards

    def write(self, text: str) -> int:
        with self._lock:
            lines = (getattr(self._rest, "text", "") + text).split("\n")
            self._rest.text = lines.pop()
            for line in lines:
                self._write_line(line)
            if lines:
                self._stream.flush()  # nothing else flushes the ranks' lines, and a pod's output is a pipe
        return len(text)

    def _write_line(self, line: str) -> None:
        if _NOISE in line:
            return
        match = _PREFIX.match(line)
        if match is None:
            self._stream.write(line + "\n")
            self._keep(line)
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
