"""A run's checkpoints: Ray Train's `checkpoint_manager_snapshot.json` in all known formats, what is left of it after
damage, and the folders of uploads that never became a checkpoint.

The formats only grew. That of 2.52 has the checkpoints and the latest of them; 2.55 adds the number
of each report, the pending validations and the names of the validated checkpoints; 2.60 adds two
more kinds of those. What an older format lacks is filled in as that Ray would have had it,
so a run can resume with a newer Ray, or an older one; Ray itself rejects that.

Ray would raise on a truncated file and on a missing folder, in an actor, at every attempt. A checkpoint is committed
when all its files exist, and its files are deleted only after it has been removed from the snapshot; so a folder that
is missing was lost. Next to the snapshot we keep a copy, written after each commit (`finish_commit`): Ray
writes its own in place, so a crash may leave half of it. A single listing shows which checkpoints exist, however many
there are, and one more whether the newest has files; what is in them only a reader can judge.

An upload is recorded before it begins, and its folder removed before a later group trains. Nothing else is removed. A
record is a file without content, which a full disk still takes. It has the name of a folder that Ray Train has chosen
for this one upload, and goes once the checkpoint is committed. A crash may leave the record of a committed checkpoint;
so whatever any snapshot or the status names stays, and where a snapshot was damaged, all records are forgotten.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Callable, Collection, Iterable, Mapping, Optional

from railhead.contract.report import CHECKPOINT_MISSING, SNAPSHOT_UNREADABLE, RunWarning
from railhead.driver.describe import never_raises
from railhead.driver.ray.types import Metrics
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder

FILE = "checkpoint_manager_snapshot.json"
COPY = f"{OWN_FOLDER}/snapshot.json"
UNREADABLE = f"{OWN_FOLDER}/unreadable-snapshot.json"
RECORDS = f"{OWN_FOLDER}/uploads"
ELSEWHERE = f"{OWN_FOLDER}/uploads-elsewhere"
# By the time of the upload. A name that the user chose may be an older folder's; and the next upload fills it again.
_NAMED_BY_RAY = re.compile(r"checkpoint_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{6}")
_CHECKED = (
    "validated_checkpoint_dir_names",
    "timed_out_validation_checkpoint_dir_names",
    "failed_validation_checkpoint_dir_names",
)


class SnapshotUnreadable(Exception):
    """The text is no snapshot of Ray's; the message has the reason."""


@dataclass(frozen=True)
class Entry:
    """One checkpoint: its folder in the run's, what was reported with it, and the number of that report."""

    name: str
    metrics: Metrics
    report: int

    def to_dict(self) -> dict[str, Any]:
        return {"version": 0, "checkpoint_dir_name": self.name, "metrics": dict(self.metrics)}


@dataclass(frozen=True)
class Snapshot:
    """What Ray's checkpoint manager knows.

    Attributes:
        entries: in Ray's order, the worst one first.
        latest: name of the newest one, or None.
        pending: names of those whose validation is pending, with its spec.
        checked: names by the outcome of their validation, under Ray's own keys.
        reports: how many there were.
        fields: the keys of the format that it was read from.
    """

    entries: tuple[Entry, ...]
    latest: Optional[str] = None
    pending: tuple[tuple[str, object], ...] = ()
    checked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reports: int = 0
    fields: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]

    def keep(self, names: Collection[str]) -> Snapshot:
        """Drops the others. If the latest was dropped, the newest of the remaining ones is the latest."""
        entries = tuple(entry for entry in self.entries if entry.name in names)
        newest = max(entries, key=lambda entry: entry.report, default=None)
        latest = self.latest if self.latest in names else newest.name if newest else None
        return replace(self, entries=entries, latest=latest)


def parse_snapshot(text: str) -> Snapshot:
    """Raises SnapshotUnreadable."""
    try:
        return _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        what = "it is empty" if not text.strip() else f"{type(error).__name__}: {error}"
        raise SnapshotUnreadable(what) from error


def _parse(values: dict[str, Any]) -> Snapshot:
    results = values["checkpoint_results"]
    numbers = values.get("checkpoint_report_indices") or range(len(results))
    if len(numbers) != len(results):
        raise ValueError(f"{len(numbers)} report indices for {len(results)} checkpoints")
    entries = tuple(_parse_entry(each, number) for each, number in zip(results, numbers))
    latest = values.get("latest_checkpoint_result")
    if latest is not None and latest["checkpoint_dir_name"] not in {entry.name for entry in entries}:
        raise ValueError(f"the latest checkpoint {latest['checkpoint_dir_name']} is not among the others")
    waiting, specs = values.get("pending_training_results") or [], values.get("pending_validation_specs") or []
    return Snapshot(
        entries,
        latest=str(latest["checkpoint_dir_name"]) if latest is not None else None,
        pending=tuple((str(each["checkpoint_dir_name"]), spec) for each, spec in zip(waiting, specs)),
        checked=tuple((key, tuple(map(str, values.get(key) or ()))) for key in _CHECKED),
        reports=int(values.get("current_report_index", max(numbers, default=-1) + 1)),
        fields=frozenset(values),
    )


def _parse_entry(values: dict[str, Any], number: int) -> Entry:
    name = values["checkpoint_dir_name"]
    if not isinstance(name, str) or not name or not isinstance(values["metrics"], dict):
        raise ValueError(f"a checkpoint entry is malformed: {values}")
    return Entry(name, values["metrics"], int(number))


def write_snapshot(snapshot: Snapshot, *, fields: Collection[str], ray_version: str) -> str:
    """Returns the text in the format with these keys. A key unknown here is left to Ray's default."""
    known = {entry.name: entry for entry in snapshot.entries}
    pending = [(known[name], spec) for name, spec in snapshot.pending if name in known]
    values: dict[str, Any] = {
        "version": 0,
        "ray_version": ray_version,
        "checkpoint_results": [entry.to_dict() for entry in snapshot.entries],
        "checkpoint_report_indices": [entry.report for entry in snapshot.entries],
        "latest_checkpoint_result": known[snapshot.latest].to_dict() if snapshot.latest else None,
        "pending_training_results": [entry.to_dict() for entry, _ in pending],
        "pending_validation_specs": [spec for _, spec in pending],
        "current_report_index": snapshot.reports,
        **{key: [] for key in _CHECKED},
        **{key: [name for name in names if name in known] for key, names in snapshot.checked},
    }
    return json.dumps({key: value for key, value in values.items() if key in fields})


def examine(folder: RunFolder, *, known: Mapping[str, int]) -> tuple[Optional[Snapshot], Optional[RunWarning]]:
    """Returns the snapshot that the run resumes from, or None, and the damage, or None: the beginning of a warning.

    Changes nothing. `known`: names of the checkpoints in the status, with their index.
    """
    copy = read_copy(folder)
    data = folder.read(FILE)
    if data is None and copy is None and not known:
        return None, None
    own, damage = _read_own(data)
    for snapshot in filter(None, (own, copy, _from_status(known))):
        left, problem = _keep_existing(snapshot, folder)
        damage = damage or problem
        if left.entries:
            return left, damage
    return None, damage


def read_copy(folder: RunFolder) -> Optional[Snapshot]:
    """Returns None when there is no copy, or it cannot be parsed."""
    data = folder.read(COPY)
    try:
        return parse_snapshot(data.decode(errors="replace")) if data else None
    except SnapshotUnreadable:
        return None


def _read_own(data: Optional[bytes]) -> tuple[Optional[Snapshot], Optional[RunWarning]]:
    if data is None:
        return None, RunWarning(SNAPSHOT_UNREADABLE, f"{FILE} is gone")
    try:
        return parse_snapshot(data.decode(errors="replace")), None
    except SnapshotUnreadable as error:
        return None, RunWarning(SNAPSHOT_UNREADABLE, f"{FILE} cannot be read ({error})")


def _keep_existing(snapshot: Snapshot, folder: RunFolder) -> tuple[Snapshot, Optional[RunWarning]]:
    """Leaves out the checkpoints that are gone, and the newest ones that are empty.

    An older one only has to exist: its owner may have removed what no run resumes from.
    """
    newest_first = sorted(snapshot.entries, key=lambda entry: (entry.name == snapshot.latest, entry.report))[::-1]
    existing = folder.find_existing(snapshot.names)
    lost: list[str] = []
    has_newest = False
    for name in dict.fromkeys(entry.name for entry in newest_first):
        if name in existing and (has_newest or folder.list_names(name)):
            has_newest = True
        else:
            lost.append(name)
    if not lost:
        return snapshot, None
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    left = snapshot.keep(set(snapshot.names) - set(lost))
    return left, RunWarning(CHECKPOINT_MISSING, f"checkpoint {lost[0]} is gone or empty{more}")


def _from_status(known: Mapping[str, int]) -> Snapshot:
    """Knows only the names, for when both files are lost."""
    entries = tuple(Entry(name, {}, index) for name, index in sorted(known.items(), key=lambda item: item[1]))
    return Snapshot(entries, entries[-1].name if entries else None, reports=entries[-1].report + 1 if entries else 0)


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
    committed = None if names is None else _find_folders(names)
    for name in _list_records(folder):
        if committed is None or name in committed:
            _forget(folder, name)


@never_raises("keep a copy of the run's snapshot")
def finish_commit(folder: RunFolder, check: Callable[[], None]) -> None:
    """Copies Ray's snapshot after a commit, and forgets the records of the uploads that it names. Never raises.

    A run without a copy is as robust as plain Ray. `check` is the fence: a successor's copy must not be overwritten.
    """
    data = folder.read(FILE) or b""
    snapshot = parse_snapshot(data.decode(errors="replace"))
    check()
    folder.replace(COPY, data)
    forget_uploads(folder, snapshot.names)


@dataclass(frozen=True)
class Leftovers:
    """What unfinished uploads have left.

    Attributes:
        folders: names of those to remove.
        records: names of those to remove whose folders are gone or stay.
    """

    folders: tuple[str, ...] = ()
    records: tuple[str, ...] = ()


def find_leftovers(folder: RunFolder, *, committed: Collection[str]) -> Leftovers:
    """Call only while no rank of this attempt trains.

    A record goes only once there is no folder: a process on a lost node may still be writing. Raises
    SnapshotUnreadable.
    """
    records = _list_records(folder)
    if not records or folder.read(ELSEWHERE) is not None:
        return Leftovers(records=tuple(records))
    data = folder.read(FILE)
    kept = _find_folders([*committed, *(parse_snapshot(data.decode(errors="replace")).names if data else ())])
    left = folder.find_existing(records) - kept
    return Leftovers(tuple(sorted(left)), tuple(name for name in records if name not in left))


def remove_leftovers(folder: RunFolder, found: Leftovers) -> None:
    """Call only behind the fence. The next group may train already: its uploads have new names."""
    for name in found.folders:
        with contextlib.suppress(FileNotFoundError):  # an earlier removal was still under way
            folder.delete_folder(name)
    for name in found.records:
        _forget(folder, name)


def _list_records(folder: RunFolder) -> list[str]:
    return list(filter(is_named_by_ray, folder.list_names(RECORDS)))


def _find_folders(names: Iterable[str]) -> set[str]:
    """Returns the run's folders that hold these checkpoints: each may be in a subfolder of what Ray has named."""
    return {name.partition("/")[0] for name in names}


def _forget(folder: RunFolder, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # a commit and the clean-up, a thread, may both remove it
        folder.delete(f"{RECORDS}/{name}")
