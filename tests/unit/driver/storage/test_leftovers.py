"""Folders of unfinished uploads are removed from the run's folder, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from ray.train.v2._internal.execution.storage import StorageContext

from railhead.contract.snapshot import (
    SNAPSHOT,
    Snapshot,
    SnapshotEntry,
    SnapshotUnreadable,
    parse_snapshot,
    write_snapshot,
)
from railhead.driver.fit.acquire_run import restore_run
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.unfinished_uploads import (
    RECORDS,
    finish_commit,
    is_recorded,
    keep_uploads,
    list_leftovers,
    record_upload,
    remove_leftovers,
)

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
    return set(folder.list_names("")) - {".railhead", SNAPSHOT}


def clean_up(folder: RunFolder, *, committed: Collection[str]) -> list[str]:
    """What it has removed."""
    folders, records = list_leftovers(folder, committed=committed)
    remove_leftovers(folder, folders, records)
    return folders


def commit(folder: RunFolder, *committed: str) -> None:
    """As Ray's manager writes it."""
    entries = tuple(SnapshotEntry(name, {}, number) for number, name in enumerate(committed))
    snapshot = Snapshot(entries, committed[-1], reports=len(entries))
    folder.write(SNAPSHOT, write_snapshot(snapshot, fields=list_fields(), ray_version="2.60.0").encode())


def test_removes_only_recorded_uploads(folder: RunFolder) -> None:
    assert clean_up(folder, committed=[COMMITTED]) == []
    record_upload(folder, PARTIAL)
    record_upload(folder, COMMITTED)
    assert names(folder) == ALL, "not while ranks may still be writing"
    assert clean_up(folder, committed=[COMMITTED]) == [PARTIAL]
    assert names(folder) == ALL - {PARTIAL}
    assert clean_up(folder, committed=[COMMITTED]) == []
    assert names(folder) == ALL - {PARTIAL} and folder.list_names(RECORDS) == []


def test_removes_what_a_process_on_a_lost_node_writes_meanwhile(folder: RunFolder) -> None:
    record_upload(folder, PARTIAL)
    for _ in range(2):
        assert clean_up(folder, committed=[]) == [PARTIAL]
        folder.write(f"{PARTIAL}/late", b"w")
    assert clean_up(folder, committed=[]) == [PARTIAL]
    assert clean_up(folder, committed=[]) == folder.list_names(RECORDS) == []


@pytest.mark.parametrize(
    "name", ["epoch-5", "notes", "../other", ".railhead", "", "checkpoint_last", f"{PARTIAL}/deep"]
)
def test_keeps_folders_that_ray_did_not_name(folder: RunFolder, name: str) -> None:
    record_upload(folder, name)
    assert clean_up(folder, committed=[]) == []
    assert names(folder) == ALL


def test_keeps_what_the_snapshot_names_whatever_the_manager_knows(folder: RunFolder) -> None:
    """A predecessor may have committed it after this attempt has read the snapshot."""
    commit(folder, COMMITTED)
    record_upload(folder, COMMITTED)
    assert clean_up(folder, committed=[]) == []
    assert names(folder) == ALL and folder.list_names(RECORDS) == []
    record_upload(folder, COMMITTED)
    folder.write(SNAPSHOT, b'{"checkpoint_results": [')
    with pytest.raises(SnapshotUnreadable):
        clean_up(folder, committed=[])
    assert names(folder) == ALL and is_recorded(folder, COMMITTED)


def test_keeps_a_checkpoint_in_a_subfolder(folder: RunFolder) -> None:
    record_upload(folder, COMMITTED)
    assert clean_up(folder, committed=[f"{COMMITTED}/deep"]) == []
    assert names(folder) == ALL


def test_keeps_everything_once_a_function_has_put_a_checkpoint_elsewhere(folder: RunFolder) -> None:
    """The checkpoint may be a file that only says where its data are."""
    for name in (COMMITTED, PARTIAL):
        record_upload(folder, name)
        keep_uploads(folder)
        assert clean_up(folder, committed=["epoch-5"]) == []
    assert names(folder) == ALL and folder.list_names(RECORDS) == []


class Upload:
    """One upload after a first commit, step by step: a crash may follow each of them."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        commit(folder, COMMITTED)
        finish_commit(folder, lambda: None)
        folder.delete_folder(PARTIAL)
        self.steps: list[Callable[[], Any]] = [
            lambda: record_upload(folder, PARTIAL),
            lambda: folder.write(f"{PARTIAL}/shard-0", b"w"),
            lambda: folder.write(f"{PARTIAL}/shard-1", b"w"),
            lambda: commit(folder, COMMITTED, PARTIAL),
            lambda: finish_commit(folder, lambda: None),
        ]

    def attempt(self, **known: int) -> set[str]:
        """A later one, twice: what it lists."""
        for _ in range(2):
            restore_run(self.folder, fields=list_fields(), known=known, commits=1)
            listed = set(parse_snapshot((self.folder.read(SNAPSHOT) or b"").decode()).names)
            clean_up(self.folder, committed=listed)
        return listed


COMMIT = 4  # steps


@pytest.mark.parametrize("steps", range(6))
def test_a_crash_leaves_either_a_checkpoint_or_nothing(folder: RunFolder, steps: int) -> None:
    upload = Upload(folder)
    for step in upload.steps[:steps]:
        step()
    listed = upload.attempt()
    assert listed == {COMMITTED} | ({PARTIAL} if steps >= COMMIT else set())
    assert names(folder) == ALL - {PARTIAL} | listed and folder.list_names(RECORDS) == []


@pytest.mark.parametrize("text", [b"", b'{"checkpoint_results": [', None])
@pytest.mark.parametrize("steps", [COMMIT, COMMIT + 1])
def test_a_repaired_snapshot_keeps_a_checkpoint_that_it_does_not_list(
    folder: RunFolder, steps: int, text: bytes | None
) -> None:
    upload = Upload(folder)
    for step in upload.steps[:steps]:
        step()
    folder.delete(SNAPSHOT) if text is None else folder.write(SNAPSHOT, text)
    listed = upload.attempt()
    assert (PARTIAL in listed) == (steps > COMMIT), "the copy lists it"
    assert names(folder) == ALL


def test_a_snapshot_that_lost_its_last_write_keeps_what_the_status_names(folder: RunFolder) -> None:
    upload = Upload(folder)
    for step in upload.steps[:COMMIT]:
        step()
    commit(folder, COMMITTED)
    assert upload.attempt(**{COMMITTED: 0, PARTIAL: 1}) == {COMMITTED}
    assert names(folder) == ALL


def test_contract_ray_names_checkpoints_as_we_expect(folder: RunFolder) -> None:
    name = StorageContext.make_default_checkpoint_dir_name()
    record_upload(folder, name)
    assert is_recorded(folder, name)
