"""Where the user's code is, and how it gets onto sys.path: last, in every Python process of Ray.

The bundle's `sitecustomize` calls `add_user_folders` when a Ray process starts, because Ray
pickles functions of the user's modules by name (tasks of Ray Data, functions of a trainer
that the user built). Last, so that a user's `queue.py` cannot shadow the standard
library's; never through PYTHONPATH, which would put it first.
"""

from __future__ import annotations

import os
import sys
from typing import Mapping

from railhead.contract import environment as e

WORKING_FOLDER = "RAILHEAD_WORKING_FOLDER"  # of the container: Ray starts its workers elsewhere


def find_user_folders() -> list[str]:
    """The mounted source, then the container's working directory (code in the image)."""
    return [os.environ[name] for name in (e.SOURCE, WORKING_FOLDER) if os.environ.get(name)]


def find_working_folder(environment: Mapping[str, str]) -> str:
    """Where the user's code runs in the head pod: in the source, else in the image's working directory."""
    return environment.get(e.SOURCE) or environment.get(WORKING_FOLDER) or "/"


def add_user_folders() -> None:
    for folder in find_user_folders():
        if folder not in sys.path:
            sys.path.append(folder)
