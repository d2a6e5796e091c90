"""A real file system without a free byte."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class FullDisk:
    """Attributes: `path`: where it is mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.suppress(OSError), open(path / "data", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def make_room(self) -> None:
        os.unlink(self.path / "data")


@contextlib.contextmanager
def mount_full_disk(path: Path) -> Iterator[FullDisk]:
    """Skips the test where this user may not mount."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount on this machine")
    try:
        yield FullDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
