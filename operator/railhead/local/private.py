"""Folders that no other user of the machine can enter: who may write into them decides what runs as their owner."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from railhead.local import LocalError

PRIVATE = 0o700


def make_private(folder: Path, *, remedy: str = "choose another folder with --dir") -> None:
    """Creates the folder for this user only, or takes an existing one from all others.

    Args:
        remedy: what the user can do if it cannot be had.

    Raises:
        LocalError: the folder belongs to another user, who could exchange what is in it, or it is a link or a file.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=PRIVATE)
    except FileExistsError:
        pass
    # Opened first, because its name may lead elsewhere a moment later.
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise LocalError(f"{folder} cannot be used: {error.strerror}; {remedy}") from None
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise LocalError(f"{folder} belongs to another user (uid {found.st_uid}); {remedy}")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, PRIVATE)
    finally:
        os.close(descriptor)
