"""Frees the disk blocks of the beginning of a file that another process still appends to.

Its size and all offsets stay, so neither its writer nor its readers notice; the beginning reads as zero bytes.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # modes of fallocate(2), in linux/falloc.h


def free_beginning(path: Path, length: int) -> bool:
    """Whether the file system could: ext4, xfs, btrfs, overlayfs and tmpfs can. Raises OSError."""
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None)
    if fallocate is None:  # not Linux
        return False
    with open(path, "r+b") as file:
        mode = _KEEP_SIZE | _PUNCH_HOLE
        return bool(fallocate(file.fileno(), mode, ctypes.c_int64(0), ctypes.c_int64(length)) == 0)
