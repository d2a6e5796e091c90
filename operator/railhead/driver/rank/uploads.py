"""Before a rank uploads a checkpoint, the upload is recorded in the run's folder (`storage.uploads`).

Rank 0 does it before the other ranks learn the folder's name, so that one small write per checkpoint is enough and
no upload begins earlier. A rank that finds no record, because rank 0 has no checkpoint or its write is
slow, writes it right before its own upload. An error costs only the record.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from railhead.driver.describe import never_raises
from railhead.driver.rank import steps
from railhead.driver.ray.context import Watch, watch_reports
from railhead.driver.ray.types import Storage
from railhead.driver.reporting.heartbeat import Uploads
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.uploads import is_recorded, keep_uploads, record_upload

_LOCK = threading.Lock()
PATIENCE_SECONDS = 1.0  # of a report that waits for the record, for storage that hangs


def watch_uploads() -> None:
    """Once per process. Without effect in a Ray whose methods take something else."""
    watch_reports(Watch(steps.reporting, steps.read_times, _announce, _uploading, _note_elsewhere))


@contextlib.contextmanager
def _uploading(storage: Storage, name: str, path: str) -> Iterator[None]:
    """Records an upload that rank 0 has not recorded, and counts one that succeeds.

    Ray may delete the local files right after it, so their bytes count before.
    """
    _record(_find_folder(storage), name, is_new=False)
    size, began = _count_bytes(path), time.monotonic()
    yield
    with _LOCK:  # uploads in the background have threads of their own
        steps.STEPS.uploads += Uploads(1, time.monotonic() - began, size)


def _count_bytes(folder: str) -> int:
    """Returns 0 for what is no folder of this machine, and without the files that vanish meanwhile."""
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


def _announce(storage: Storage, name: str) -> None:
    thread = threading.Thread(target=_record, args=(_find_folder(storage), name), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)


def _note_elsewhere(storage: Storage, name: str, path: str) -> None:
    folder = _find_folder(storage)
    if not f"{path}/".startswith(f"{folder.find(name)}/"):
        keep_uploads(folder)


def _find_folder(storage: Storage) -> RunFolder:
    return RunFolder(storage.storage_filesystem, storage.experiment_fs_path)


@never_raises("record an upload, of which files may stay")
def _record(folder: RunFolder, name: str, *, is_new: bool = True) -> None:
    if is_new or not is_recorded(folder, name):
        record_upload(folder, name)
