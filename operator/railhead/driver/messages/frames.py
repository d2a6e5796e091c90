"""Tells the user's own code from that of libraries, by the file of a frame."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path, PurePath
from typing import Optional, Sequence

_PACKAGES = ("site-packages", "dist-packages")
# In a pod that is a folder of the bundle, a zip file; elsewhere a checkout, which is in no folder of packages.
_RAILHEAD = str(Path(__file__).parents[2]) + "/"


def find_package(file: str) -> Optional[str]:
    """Returns the package that a file belongs to; None for the user's own code."""
    parts = PurePath(file).parts
    for folder in _PACKAGES:
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py")
    if ".pyz" in file or file.startswith(_RAILHEAD):
        return "railhead"
    if file.startswith("<") or file.startswith(sysconfig.get_paths()["stdlib"]):
        return PurePath(file).stem
    return None


def read_printed_frame(file: str, line: str, name: str) -> traceback.FrameSummary:
    """Returns a frame of a printed stack, without its source: looking it up here would find other files of the name."""
    return traceback.FrameSummary(file, int(line), name, lookup_line=False)


def describe_frame(frame: traceback.FrameSummary) -> str:
    """Returns the place as messages name it: `file, line n, in function`."""
    return f"{PurePath(frame.filename).name}, line {frame.lineno}, in {frame.name}"


def choose_frame(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary:
    """Returns the innermost frame of the user's code; without one, the innermost of all."""
    own = [frame for frame in frames if find_package(frame.filename) is None]
    return (own or frames)[-1]
