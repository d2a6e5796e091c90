"""A worker pod's own log: the output of the ranks on this node, from Ray's session files.

Ray writes one pair of files per process, and records in them which actor the process became. Shows only those of Ray
Train's workers. Nothing is lost but the states of a progress bar in between: its last one is shown every few
seconds, and when its line ends.

What was shown long ago is freed on the disk: the files of a run of weeks stay small, without Ray's own rotation, with
which a rank that is killed loses its last lines. Only the blocks of a file's beginning are freed; its size and all
offsets stay, so neither its writer nor its readers notice, and the beginning reads as zero bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, TextIO

from railhead.driver.logs.output import find_mark

KEPT_BYTES = 64 * 2**20  # of each file, before where its reader is; Ray's log monitor reads it too
INTERVAL = 10.0  # seconds
SESSION_LOGS = "session_2*/logs"  # in Ray's temporary folder
TRAIN_LOGS = f"{SESSION_LOGS}/train/*"  # Ray Train's own, which nothing rotates
WORKER_LOGS = f"{SESSION_LOGS}/worker-*"
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # modes of fallocate(2), in linux/falloc.h


def free_beginning(path: Path, length: int) -> bool:
    """Whether the file system could: ext4, xfs, btrfs, overlayfs and tmpfs can. Raises OSError."""
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if fallocate is None:  # not Linux
        return False
    with open(path, "r+b") as file:
        mode = _KEEP_SIZE | _PUNCH_HOLE
        return bool(fallocate(file.fileno(), mode, ctypes.c_int64(0), ctypes.c_int64(length)) == 0)


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
        sleep(INTERVAL)


PROGRESS_SECONDS = 10.0  # between two states of a progress bar that are shown
ENDED_SECONDS = 60.0  # without news from a process that has ended and was no rank's: its file is forgotten
LINE_LIMIT = 64 * 1024  # bytes; a longer line is shown in pieces
_RANK_ACTOR = ":actor_name:RayTrainWorker"
_READ_LIMIT = 1 << 20  # bytes per file and poll


@dataclass
class _File:
    """`read_at`: the last time with news; `rest`: an incomplete last line; `is_rank`: one of Ray Train's workers."""

    read_at: float
    inode: int = 0
    offset: int = 0
    rest: bytes = b""
    is_rank: bool = False
    rank: Optional[int] = None
    shown_at: float = float("-inf")


class LogTail:
    """Follows `temp/session_*/logs/worker-*`. One instance per node."""

    def __init__(
        self,
        temp: Path,
        *,
        out: Optional[TextIO] = None,
        err: Optional[TextIO] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._temp = temp
        self._sinks = {".out": out or sys.stdout, ".err": err or sys.stderr}
        self._files: dict[Path, _File] = {}
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
                    state = self._files.setdefault(path, _File(read_at=self._clock()))
                    is_news |= self._read(path, state, sink)
        return is_news

    def _read(self, path: Path, state: _File, sink: TextIO) -> bool:
        try:
            data = _read_new(path, state)
        except OSError:
            return False
        if not data:
            is_old = self._clock() - state.read_at > ENDED_SECONDS
            if is_old and not state.is_rank and not _is_alive(path):
                self._ended.add(path.name)
                del self._files[path]
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

    def _show_progress(self, state: _File, sink: TextIO) -> None:
        """Keeps the last state only, which may be incomplete."""
        before, _, state.rest = state.rest.rpartition(b"\r")
        if before and self._clock() - state.shown_at >= PROGRESS_SECONDS:
            state.shown_at = self._clock()
            self._show(_find_last_state(before), state, sink)

    def _show(self, data: bytes, state: _File, sink: TextIO) -> None:
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


def _is_alive(path: Path) -> bool:
    """Ray's name of the file ends with the process id."""
    return Path("/proc", path.stem.rpartition("-")[2]).exists()


def _read_new(path: Path, state: _File) -> bytes:
    """What was written since the last time. A rotated file is read to its end before the new one of its name."""
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


def _read_rotated(path: Path, state: _File) -> bytes:
    old = path.with_name(f"{path.name}.1")
    try:
        return _read_on(old, state) if old.stat().st_ino == state.inode else b""
    except OSError:
        return b""


def _read_on(path: Path, state: _File) -> bytes:
    with open(path, "rb") as file:
        file.seek(state.offset)
        data = file.read(_READ_LIMIT)
    state.offset += len(data)
    return data


def _find_last_state(line: bytes) -> bytes:
    """What a terminal would show of a line that was written over itself."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")
