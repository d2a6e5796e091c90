"""Before a rank uploads a checkpoint, the upload is recorded in the run's folder (`storage.uploads`).

Rank 0 does it before the other ranks learn the folder's name, so that one small write per checkpoint is enough and
no upload begins earlier. A rank that finds no record, because rank 0 has no checkpoint or its write is
slow, writes it right before its own upload. An error costs only the record.
"""

from __future__ import annotations

import threading

from railhead.driver.describe import describe_exception, log
from railhead.driver.rank.steps import reporting
from railhead.driver.ray.context import Watch, watch_reports
from railhead.driver.ray.types import Storage
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.uploads import is_recorded, keep_uploads, record_upload

PATIENCE_SECONDS = 1.0  # of a report that waits for the record, for storage that hangs


def watch_uploads() -> None:
    """Once per process. Without effect in a Ray whose methods take something else."""
    watch_reports(Watch(reporting, _announce, _record_missing, _note_elsewhere))


def _announce(storage: Storage, name: str) -> None:
    thread = threading.Thread(target=_record, args=(_find_folder(storage), name), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)


def _record_missing(storage: Storage, name: str) -> None:
    _record(_find_folder(storage), name, is_new=False)


def _note_elsewhere(storage: Storage, name: str, path: str) -> None:
    folder = _find_folder(storage)
    if not f"{path}/".startswith(f"{folder.find(name)}/"):
        keep_uploads(folder)


def _find_folder(storage: Storage) -> RunFolder:
    return RunFolder(storage.storage_filesystem, storage.experiment_fs_path)


def _record(folder: RunFolder, name: str, *, is_new: bool = True) -> None:
    try:
        if is_new or not is_recorded(folder, name):
            record_upload(folder, name)
    except Exception as error:
        log(f"what {name} leaves may stay: {describe_exception(error)}")
