"""Names that one process of this machine holds at a time, such as ports: lock files, which end with the process."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO


def claim(kind: str, name: str) -> IO[str] | None:
    """Holds the name until the file is closed; None if somebody holds it already, this process included."""
    folder = Path(tempfile.gettempdir()) / f"railhead-{kind}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = (folder / name).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
