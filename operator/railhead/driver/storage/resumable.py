"""A run's checkpoints after damage: from Ray Train's snapshot (`contract.snapshot`), or from our copy of it.

Ray would raise on a truncated file and on a missing folder, in an actor, at every attempt. A checkpoint is committed
when all its files exist, and its files are deleted only after it has been removed from the snapshot; so a folder that
is missing was lost. Next to the snapshot we keep a copy, written after each commit
(`unfinished_uploads.finish_commit`): Ray writes its own in place, so a crash may leave half of it. A single listing
shows which checkpoints exist, however many there are, and one more whether the newest has files; what is in them only a
reader can judge.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Mapping, Optional, Tuple

from railhead.contract.report import CHECKPOINT_MISSING, SNAPSHOT_UNREADABLE, RunWarning
from railhead.contract.run_folder import OWN_FOLDER
from railhead.contract.snapshot import COPY, SNAPSHOT, Snapshot, SnapshotEntry, SnapshotUnreadable, parse_snapshot
from railhead.driver.storage.empty_checkpoints import read_empty
from railhead.driver.storage.run_folder_files import RunFolder

UNREADABLE = f"{OWN_FOLDER}/unreadable-snapshot.json"


def find_resumable(folder: RunFolder, *, known: Mapping[str, int]) -> tuple[Optional[Snapshot], Optional[RunWarning]]:
    """Returns the snapshot that the run resumes from, or None, and the damage, or None: the beginning of a warning.

    Changes nothing. `known`: names of the checkpoints in the status, with their index.
    """
    copy = read_copy(folder)
    data = folder.read(SNAPSHOT)
    if data is None and copy is None and not known:
        return None, None
    own, damage = _parse(data)
    for snapshot in filter(None, (own, copy, _from_status(known))):
        left, problem = _keep_existing(snapshot, folder)
        damage = damage or problem
        if left.entries:
            return left, damage
    return None, damage


def read_copy(folder: RunFolder) -> Optional[Snapshot]:
    """Returns None when there is no copy, or it cannot be parsed."""
    return _parse(folder.read(COPY))[0]


def _parse(data: Optional[bytes]) -> tuple[Optional[Snapshot], Optional[RunWarning]]:
    if data is None:
        return None, RunWarning(SNAPSHOT_UNREADABLE, f"{SNAPSHOT} is gone")
    try:
        return parse_snapshot(data.decode(errors="replace")), None
    except SnapshotUnreadable as error:
        return None, RunWarning(SNAPSHOT_UNREADABLE, f"{SNAPSHOT} cannot be read ({error})")


def _keep_existing(snapshot: Snapshot, folder: RunFolder) -> tuple[Snapshot, Optional[RunWarning]]:
    """Leaves out the checkpoints that are gone, and the newest ones that have lost their files.

    An older one only has to exist: its owner may have removed what no run resumes from. One that had no files when it
    was committed has lost nothing.
    """

    def rank(entry: SnapshotEntry) -> Tuple[bool, int]:
        return entry.name == snapshot.latest, entry.report

    newest_first = sorted(snapshot.entries, key=rank)[::-1]
    existing = folder.list_existing(snapshot.names)
    lost: list[str] = []
    has_newest = False
    for name in dict.fromkeys(entry.name for entry in newest_first):
        if name in existing and (has_newest or folder.list_names(name) or name in read_empty(folder)):
            has_newest = True
        else:
            lost.append(name)
    if not lost:
        return snapshot, None
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    left = snapshot.keep(set(snapshot.names) - set(lost))
    return left, RunWarning(CHECKPOINT_MISSING, f"checkpoint {lost[0]} is gone or has lost its files{more}")


def _from_status(known: Mapping[str, int]) -> Snapshot:
    """Knows only the names, for when both files are lost."""
    entries = tuple(SnapshotEntry(name, {}, index) for name, index in sorted(known.items(), key=itemgetter(1)))
    if not entries:
        return Snapshot((), None, reports=0)
    newest = entries[-1]
    return Snapshot(entries, newest.name, reports=newest.report + 1)
