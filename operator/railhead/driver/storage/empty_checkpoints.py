"""Remembers which checkpoints had no files when they were committed, so that no later attempt takes them for lost.

Ray Train keeps metrics only with a checkpoint, so an empty folder is a usual way to report them. The names are written
before the commit, and only for such a checkpoint: a run whose checkpoints have files has no such file.
"""

from __future__ import annotations

import json
from typing import Collection, FrozenSet

from railhead.contract.run_folder import EMPTY, parse_empty
from railhead.driver.storage.run_folder_files import RunFolder


def note_empty(folder: RunFolder, name: str, *, kept: Collection[str]) -> None:
    """Adds a name; call it only behind the fence. `kept`: the run's checkpoints; all other names are forgotten."""
    names = {name, *read_empty(folder).intersection(kept)}
    folder.replace(EMPTY, json.dumps(sorted(names)).encode())


def read_empty(folder: RunFolder) -> FrozenSet[str]:
    return parse_empty(folder.read(EMPTY) or b"")
