"""After each commit: our own copy of the snapshot, with the size of the new checkpoint, in a thread of its own.

The records of the uploads that it names go then.

Listing the files of a checkpoint may take long, and Ray Train's controller polls its workers meanwhile.
"""

from __future__ import annotations

import sys
import threading
from typing import Callable, Optional

from railhead.driver.describe import describe_exception
from railhead.driver.storage.leftovers import forget_uploads
from railhead.driver.storage.repair import Copy, read_copy, select_sizes, write_copy
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.snapshot import FILE, parse_snapshot


class SnapshotCopy:
    """One per manager. Never raises: a run without a copy is as robust as plain Ray. `check`: the fence."""

    def __init__(self, folder: RunFolder, check: Callable[[], None]) -> None:
        self._folder = folder
        self._check = check
        self._last: Optional[Copy] = None
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="railhead-snapshot-copy", daemon=True)

    def request(self) -> None:
        """Returns at once. At most one copy is being made; commits meanwhile lead to one more."""
        self._wanted.set()
        if not self._thread.is_alive():
            self._thread.start()

    def _run(self) -> None:
        while self._wanted.wait():
            self._wanted.clear()
            self.copy()

    def copy(self) -> None:
        try:
            self._copy()
        except Exception as error:
            problem = describe_exception(error)
            print(f"railhead: cannot keep a copy of the run's snapshot: {problem}", file=sys.stderr, flush=True)

    def _copy(self) -> None:
        before = self._last or read_copy(self._folder)
        text = (self._folder.read(FILE) or b"").decode()
        snapshot = parse_snapshot(text)
        sizes = select_sizes(snapshot, before)
        newest = snapshot.latest
        if newest and newest not in sizes and snapshot.names.count(newest) == 1:
            sizes[newest] = self._folder.measure(newest)
        self._last = Copy(snapshot, sizes)
        self._check()  # measuring takes time, and a successor may have taken over
        write_copy(self._folder, text, sizes)
        forget_uploads(self._folder, snapshot.names)
