"""Files of failed uploads are removed from the run's folder, and nothing else is."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from ray.train import Checkpoint
from ray.train.v2._internal.execution import storage as ray_storage
from ray.train.v2._internal.execution.storage import StorageContext

from railhead.driver.errors import CheckpointNotWritten, explain_exception
from railhead.driver.storage.leftovers import RECORDS, record_failed_uploads, remove_failed_uploads
from railhead.driver.storage.run_folder import RunFolder

PARTIAL, COMMITTED = "checkpoint_2026-11-22_23-44-51.000123", "checkpoint_2026-11-22_23-40-00.000001"
COPIED = "checkpoint_2026-11-22_23-44-59.999999"  # by a user, from another run
ALL = {PARTIAL, COMMITTED, COPIED, "notes", "epoch-5"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(LocalFileSystem(), str(tmp_path))
    for name in ALL:
        folder.write(f"{name}/deep/weights", b"w")
    return folder


def names(folder: RunFolder) -> set[str]:
    return set(folder.list_names("")) - {".railhead"}


def test_removes_only_failed_uploads(folder: RunFolder) -> None:
    assert remove_failed_uploads(folder, committed=[COMMITTED]) == []
    assert names(folder) == ALL
    record_failed_uploads(folder, [PARTIAL])
    assert names(folder) == ALL, "not while ranks may still be writing"
    assert remove_failed_uploads(folder, committed=[COMMITTED]) == [PARTIAL]
    assert names(folder) == ALL - {PARTIAL}
    assert folder.list_names(RECORDS) == []
    assert remove_failed_uploads(folder, committed=[COMMITTED]) == []


@pytest.mark.parametrize(
    "name", ["epoch-5", "notes", "../other", ".railhead", "", "checkpoint_last", f"{PARTIAL}/deep"]
)
def test_keeps_folders_that_ray_did_not_name(folder: RunFolder, name: str) -> None:
    record_failed_uploads(folder, [name])
    assert remove_failed_uploads(folder, committed=[]) == []
    assert names(folder) == ALL


def test_keeps_a_committed_checkpoint_even_if_recorded(folder: RunFolder) -> None:
    record_failed_uploads(folder, [COMMITTED, "checkpoint_2026-01-01_00-00-00.000000"])
    assert remove_failed_uploads(folder, committed=[COMMITTED]) == []
    assert names(folder) == ALL and folder.list_names(RECORDS) == []


def test_a_rank_reports_the_name_of_its_failed_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And Ray names checkpoints as we expect."""

    def fill_disk(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    monkeypatch.setattr(ray_storage, "_pyarrow_fs_copy_files", fill_disk)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    name = storage.make_default_checkpoint_dir_name()
    with pytest.raises(OSError) as caught:
        storage.persist_current_checkpoint(Checkpoint(str(tmp_path)), name)
    error = pickle.loads(pickle.dumps(explain_exception(caught.value, 3)))
    assert isinstance(error, CheckpointNotWritten) and (error.rank, error.upload) == (3, name)
    folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)
    record_failed_uploads(folder, [error.upload])
    assert remove_failed_uploads(folder, committed=[]) == [name]
    assert explain_exception(ValueError("of the function"), 0).upload == ""


def test_a_missing_mount_on_a_worker_is_no_error_of_the_function(tmp_path: Path) -> None:
    """Ray looks for its marker before each upload, and raises a RuntimeError."""
    storage = StorageContext(storage_path=str(tmp_path / "runs"), experiment_dir_name="r")
    (tmp_path / "runs").rename(tmp_path / "unmounted")
    with pytest.raises(RuntimeError) as caught:
        storage.persist_current_checkpoint(Checkpoint(str(tmp_path)), "c0")
    assert isinstance(explain_exception(caught.value, 3), CheckpointNotWritten)
