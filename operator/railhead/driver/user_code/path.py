"""Where the user's code is, and how it comes onto sys.path: last, in every Python of Ray.

The bundle's `sitecustomize` calls `add_user_folders` when a process of Ray starts, because
Ray sends functions of the user's modules by name (tasks of Ray Data, functions of a trainer
that the user built). Last, so that a user's `queue.py` cannot take the place of the
standard library's; never by PYTHONPATH, which would put it first.
"""

from __future__ import annotations

import os
import sys
from typing import Mapping

from railhead.contract import environment as e

WORKING_FOLDER = "RAILHEAD_WORKING_FOLDER"  # of the container: Ray moves its workers elsewhere


def find_user_folders() -> list[str]:
    """The mounted source, then the container's working directory (code that is in the image)."""
    return [os.environ[name] for name in (e.SOURCE, WORKING_FOLDER) if os.environ.get(name)]


def find_working_folder(environment: Mapping[str, str]) -> str:
    """Where the user's code runs in the head pod: in the source, or where the image says."""
    return environment.get(e.SOURCE) or environment.get(WORKING_FOLDER) or "/"


def add_user_folders() -> None:
    for folder in find_user_folders():
        if folder not in sys.path:
            sys.path.append(folder)
