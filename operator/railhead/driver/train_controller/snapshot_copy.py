"""After each commit: our own copy of the snapshot, with the size of the new checkpoint."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from railhead.driver.storage.repair import keep_copy, read_copy
from railhead.driver.storage.run_folder import RunFolder, Size


class SnapshotCopy:
    """One per manager. Never raises: a run without a copy is as robust as plain Ray."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._sizes: Mapping[str, Size] = {}
        self._has_begun = False

    def keep(self, manager: Any) -> None:
        try:
            if not self._has_begun:
                self._sizes, self._has_begun = read_copy(self._folder).sizes, True
            self._sizes = keep_copy(self._folder, manager._save_state(), sizes=self._sizes)
        except Exception as error:
            print(f"railhead: cannot keep a copy of the run's snapshot: {error!r}", file=sys.stderr, flush=True)
