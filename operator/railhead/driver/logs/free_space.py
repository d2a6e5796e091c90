"""Frees the disk blocks of the beginning of a file that another process still appends to.

Its size and all offsets stay, so neither its writer nor its readers notice; the beginning reads as zero bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from pathlib import Path
from typing import Callable

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
