"""Before a rank uploads a checkpoint, the upload is recorded in the run's folder (`storage.unfinished_uploads`).
After Ray's own copy, the files are compared with those that were reported (`rank.checkpoint_files`).

Rank 0 does it before the other ranks learn the folder's name, so that one small write per checkpoint is enough and
no upload begins earlier. A rank that finds no record, because rank 0 has no checkpoint or its write is
slow, writes it right before its own upload. An error costs only the record.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections.abc import Iterator

from railhead.driver.mailbox.heartbeat import Uploads
from railhead.driver.messages.attempt_errors import build_training_error, note_exception
from railhead.driver.messages.log import never_raises
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank import steps
from railhead.driver.rank.checkpoint_files import CheckpointFiles
from railhead.driver.rank.reported_metrics import convert
from railhead.driver.ray.train_context import MARKER_CHECK, Files, Watch, watch_reports
from railhead.driver.ray.types import RayCheckpoint, Storage
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.storage_call import is_of_storage
from railhead.driver.storage.unfinished_uploads import is_recorded, keep_uploads, record_upload

_LOCK = threading.Lock()
PATIENCE_SECONDS = 1.0  # of a report that waits for the record, for storage that hangs


def watch_uploads() -> None:
    """Watches all uploads, once per process; without effect in a Ray whose methods take something else."""
    watch = Watch(
        steps.reporting, steps.read_times, convert, announce_upload, _list_files, _uploading, _copying, _note_elsewhere
    )
    watch_reports(watch)


def _list_files(checkpoint: RayCheckpoint, is_async: bool) -> CheckpointFiles:
    """Returns the files of a local folder.

    Those of another storage are not listed: that takes requests, and no temporary folder is there.
    """
    folder = ""
    if getattr(checkpoint.filesystem, "type_name", "") == "local":
        folder = checkpoint.path
    return CheckpointFiles(folder, may_grow=not is_async)


@contextlib.contextmanager
def _uploading(storage: Storage, name: str, files: Files) -> Iterator[None]:
    """Records an upload that rank 0 has not recorded, and counts one that succeeds.

    Ray may delete the local files right after it, so they are noted before.
    """
    _record(_build_folder(storage), name, is_new=False)
    files.note()
    began = time.monotonic()
    # Uploads in the background have threads of their own.
    with _LOCK:
        steps.STEPS.open_uploads += 1
    try:
        yield
    finally:
        with _LOCK:
            steps.STEPS.open_uploads -= 1
    count_upload(Uploads(1, time.monotonic() - began, files.size))


@contextlib.contextmanager
def _copying(storage: Storage, name: str, path: str, files: Files) -> Iterator[None]:
    """Makes sure that the storage has the files which were reported. Raises RuntimeError if it does not.

    An error of the storage gets a note, which also reaches the controller from a thread of Ray Train's.
    """
    files.note()
    folder = _build_folder(storage)
    try:
        yield
        damage = files.find_damage(lambda: {file.name: file.size for file in folder.list_files(name)})
    except Exception as error:
        if _is_mount_missing(error) or is_of_storage(error, source=path):
            note_exception(error, build_training_error(RankErrorKind.STORAGE, -1, error))
            raise
        _raise_of_folder(path, error)
        raise
    if damage:
        raise RuntimeError(f"ray.train.report: {damage}")


def _raise_of_folder(path: str, error: Exception) -> None:
    """Raises what Arrow's error does not say: that there is no folder to copy. Returns if there is one."""
    if os.path.isfile(path):
        raise NotADirectoryError(f"ray.train.report: the checkpoint {path} is a file; put it into a folder") from error
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"ray.train.report: the checkpoint's folder {path} does not exist; keep it until ray.train.report returns"
        ) from error


def count_upload(upload: Uploads) -> None:
    with _LOCK:
        steps.STEPS.uploads += upload


def _is_mount_missing(error: Exception) -> bool:
    """Returns whether Ray did not find its marker in the run's folder, which it looks for before each copy."""
    return MARKER_CHECK in {frame.name for frame in traceback.extract_tb(error.__traceback__)}


def announce_upload(storage: Storage, name: str) -> None:
    """Records the upload on rank 0. Waits for storage that hangs no longer than `PATIENCE_SECONDS`."""
    thread = threading.Thread(target=_record, args=(_build_folder(storage), name), daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)


def _note_elsewhere(storage: Storage, name: str, path: str) -> None:
    folder = _build_folder(storage)
    if not f"{path}/".startswith(f"{folder.find(name)}/"):
        keep_uploads(folder)


def _build_folder(storage: Storage) -> RunFolder:
    return RunFolder(storage.storage_filesystem, storage.experiment_fs_path)


@never_raises("record an upload, of which files may stay")
def _record(folder: RunFolder, name: str, *, is_new: bool = True) -> None:
    if is_new or not is_recorded(folder, name):
        record_upload(folder, name)
