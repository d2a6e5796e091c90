"""Reads the growing log files of a Ray session, and keeps them small.

What was shown long ago is freed on the disk: the files of a run of weeks stay small, without Ray's own rotation, with
which a rank that is killed loses its last lines. Only the blocks of a file's beginning are freed; its size and all
offsets stay, so neither its writer nor its readers notice, and the beginning reads as zero bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

_READ_LIMIT = 1 << 20  # bytes per file and poll
KEPT_BYTES = 64 * 2**20  # of each file, before where its reader is; Ray's log monitor reads it too
FREE_INTERVAL_SECONDS = 10.0
SESSION_LOGS = "session_2*/logs"  # in Ray's temporary folder
TRAIN_LOGS = f"{SESSION_LOGS}/train/*"  # Ray Train's own, which nothing rotates
WORKER_LOGS = f"{SESSION_LOGS}/worker-*"
# modes of fallocate(2), in linux/falloc.h
_KEEP_SIZE = 1
_PUNCH_HOLE = 2


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


def list_logs(temp: Path, pattern: str) -> list[Path]:
    """Returns the files that match, in order of their names; none if a folder vanishes meanwhile."""
    try:
        return sorted(temp.glob(pattern))
    except OSError:
        # Path.glob asks whether a folder is there, and lists it then.
        return []


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
    # By its blocks, which Linux counts in 512 bytes on any file system: the size stays when the beginning is freed.
    free_old(path, disk_bytes=found.st_blocks * 512, end=state.offset)
    return data


def _read_rotated(path: Path, state: LogFile) -> bytes:
    old = path.with_name(f"{path.name}.1")
    try:
        if old.stat().st_ino == state.inode:
            return _read_on(old, state)
        return b""
    except OSError:
        return b""


def _read_on(path: Path, state: LogFile) -> bytes:
    with open(path, "rb") as file:
        file.seek(state.offset)
        data = file.read(_READ_LIMIT)
    state.offset += len(data)
    return data


def free_beginning(path: Path, length: int) -> bool:
    """Returns whether the file system could: ext4, xfs, btrfs, overlayfs and tmpfs can. Raises OSError."""
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
            for path in list_logs(temp, pattern):
                with contextlib.suppress(OSError):  # it vanished
                    found = path.stat()
                    free_old(path, disk_bytes=found.st_blocks * 512, end=found.st_size)
        sleep(FREE_INTERVAL_SECONDS)
