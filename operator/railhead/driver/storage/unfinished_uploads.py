"""The folders of uploads that never became a checkpoint: recorded before an upload begins, removed before a later group
trains.

Nothing else is removed. A record is a file without content, which a full disk still takes. It has the name of a folder
that Ray Train has chosen for this one upload, and goes once the checkpoint is committed. A crash may leave the record
of a committed checkpoint; so whatever any snapshot or the status names stays, and where a snapshot was damaged, all
records are forgotten.
"""

from __future__ import annotations

import contextlib
import re
from typing import Callable, Collection, Iterable, Optional

from railhead.contract.run_folder import OWN_FOLDER
from railhead.contract.snapshot import COPY, SNAPSHOT, parse_snapshot
from railhead.driver.messages.log import never_raises
from railhead.driver.storage.run_folder_files import RunFolder

RECORDS = f"{OWN_FOLDER}/uploads"
ELSEWHERE = f"{OWN_FOLDER}/uploads-elsewhere"
# By the time of the upload. A name that the user chose may be an older folder's; and the next upload fills it again.
_NAMED_BY_RAY = re.compile(r"checkpoint_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{6}")


def is_named_by_ray(name: str) -> bool:
    return _NAMED_BY_RAY.fullmatch(name) is not None


def record_upload(folder: RunFolder, name: str) -> None:
    if is_named_by_ray(name):
        folder.write(f"{RECORDS}/{name}", b"")


def is_recorded(folder: RunFolder, name: str) -> bool:
    return folder.read(f"{RECORDS}/{name}") is not None


def keep_uploads(folder: RunFolder) -> None:
    """Keeps all folders for good: the user's function has put a checkpoint elsewhere, which may need any of them."""
    if folder.read(ELSEWHERE) is None:
        folder.write(ELSEWHERE, b"")


def forget_uploads(folder: RunFolder, names: Optional[Collection[str]]) -> None:
    """Removes the records with these names, None for all; their folders stay, whatever happens."""
    committed = None if names is None else _list_folders(names)
    for name in _list_records(folder):
        if committed is None or name in committed:
            _forget(folder, name)


@never_raises("keep a copy of the run's snapshot")
def finish_commit(folder: RunFolder, check: Callable[[], None]) -> None:
    """Copies Ray's snapshot after a commit, and forgets the records of the uploads that it names. Never raises.

    A run without a copy is as robust as plain Ray. `check` is the fence: a successor's copy must not be overwritten.
    """
    data = folder.read(SNAPSHOT) or b""
    snapshot = parse_snapshot(data.decode(errors="replace"))
    check()
    folder.replace(COPY, data)
    forget_uploads(folder, snapshot.names)


def list_leftovers(folder: RunFolder, *, committed: Collection[str]) -> tuple[list[str], list[str]]:
    """Returns the names of the folders to remove, and of the records to remove whose folders are gone or stay.

    Call only while no rank of this attempt trains. A record goes only once there is no folder: a process on a lost node
    may still be writing. Raises SnapshotUnreadable.
    """
    records = _list_records(folder)
    if not records or folder.read(ELSEWHERE) is not None:
        return [], records
    data = folder.read(SNAPSHOT)
    kept = _list_folders([*committed, *(parse_snapshot(data.decode(errors="replace")).names if data else ())])
    left = folder.list_existing(records) - kept
    return sorted(left), [name for name in records if name not in left]


def remove_leftovers(folder: RunFolder, folders: list[str], records: list[str]) -> None:
    """Removes them, only behind the fence. The next group may train already: its uploads have new names."""
    for name in folders:
        # An earlier removal was still under way.
        with contextlib.suppress(FileNotFoundError):
            folder.delete_folder(name)
    for name in records:
        _forget(folder, name)


def _list_records(folder: RunFolder) -> list[str]:
    return list(filter(is_named_by_ray, folder.list_names(RECORDS)))


def _list_folders(names: Iterable[str]) -> set[str]:
    """Returns the run's folders that hold these checkpoints: each may be in a subfolder of what Ray has named."""
    return {name.partition("/")[0] for name in names}


def _forget(folder: RunFolder, name: str) -> None:
    # A commit and the clean-up, a thread, may both remove it.
    with contextlib.suppress(FileNotFoundError):
        folder.delete(f"{RECORDS}/{name}")
