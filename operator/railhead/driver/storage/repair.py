"""Before Ray reads the run's snapshot: is it intact, and does everything it names exist? If not, what is left, and why.

Ray itself would raise on a truncated file and on a missing folder, in an actor, at every attempt.
A checkpoint is committed when all its files exist, and its files are deleted only after it has been
removed from the snapshot; so whatever is missing was lost. Next to the snapshot we keep a copy,
written after each commit (`keep_copy`), with the size of each checkpoint at that time: Ray writes its
own in place, so a crash may leave half of it.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Iterable, Mapping, Optional

from railhead.contract.report import CHECKPOINT_INCOMPLETE, CHECKPOINT_MISSING, SNAPSHOT_UNREADABLE
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder, Size
from railhead.driver.storage.snapshot import FILE, Entry, Snapshot, SnapshotUnreadable, parse_snapshot

COPY = f"{OWN_FOLDER}/snapshot.json"
UNREADABLE = f"{OWN_FOLDER}/unreadable-snapshot.json"
PARALLEL_READS = 16


@dataclass(frozen=True)
class Damage:
    """What is wrong: a CamelCase reason and the beginning of a sentence."""

    reason: str
    text: str


@dataclass(frozen=True)
class Found:
    """Attributes: what the run resumes from, None for nothing; what is wrong, None if there is no problem."""

    snapshot: Optional[Snapshot]
    damage: Optional[Damage]


@dataclass(frozen=True)
class Copy:
    """The snapshot at its last commit, and the size of each checkpoint when it was committed."""

    snapshot: Optional[Snapshot]
    sizes: Mapping[str, Size]


def examine(folder: RunFolder, *, known: Mapping[str, int]) -> Found:
    """Changes nothing. `known`: names of the checkpoints in the status, with their index."""
    copy = read_copy(folder)
    data = folder.read(FILE)
    if data is None and copy.snapshot is None and not known:
        return Found(None, None)
    own, damage = _read_own(data)
    there = _Measures(folder)
    if own is not None:
        there.look(own.names)
        damage = _find_damage(own, copy.sizes, there)
        if damage is None:
            return Found(own, None)
    for snapshot in filter(None, (own, copy.snapshot, _from_status(known))):
        there.look(snapshot.names)
        left = snapshot.keep([name for name in snapshot.names if not _explain(name, copy.sizes, there)])
        if left.entries:
            return Found(left, damage)
    return Found(None, damage)


def _read_own(data: Optional[bytes]) -> tuple[Optional[Snapshot], Optional[Damage]]:
    if data is None:
        return None, Damage(SNAPSHOT_UNREADABLE, f"{FILE} is gone")
    try:
        return parse_snapshot(data.decode(errors="replace")), None
    except SnapshotUnreadable as error:
        return None, Damage(SNAPSHOT_UNREADABLE, f"{FILE} cannot be read ({error})")


class _Measures:
    """What exists now, measured once per name: a run may keep hundreds, and the storage may be far away."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._sizes: dict[str, Size] = {}

    def look(self, names: Iterable[str]) -> None:
        new = sorted(set(names) - self._sizes.keys())
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            self._sizes.update(zip(new, pool.map(self._folder.measure, new)))

    def find(self, name: str) -> Size:
        return self._sizes[name]


def _find_damage(snapshot: Snapshot, sizes: Mapping[str, Size], there: _Measures) -> Optional[Damage]:
    """That of the newest checkpoint if it is damaged, else of another one."""
    newest_first = sorted(snapshot.entries, key=lambda entry: (entry.name == snapshot.latest, entry.report))[::-1]
    problems = [(entry.name, _explain(entry.name, sizes, there)) for entry in newest_first]
    found = [(name, problem) for name, problem in problems if problem]
    if not found:
        return None
    name, problem = found[0]
    more = f" ({len(found) - 1} more damaged)" if len(found) > 1 else ""
    is_missing = problem == _NOTHING
    return Damage(CHECKPOINT_MISSING if is_missing else CHECKPOINT_INCOMPLETE, f"checkpoint {name} {problem}{more}")


_NOTHING = "is gone or empty"


def _explain(name: str, sizes: Mapping[str, Size], there: _Measures) -> str:
    """Why it is not intact, or an empty string. More files or bytes than at its commit are no damage."""
    found, wanted = there.find(name), sizes.get(name)
    if not found.files:
        return _NOTHING
    if wanted is None or (found.files >= wanted.files and found.bytes >= wanted.bytes):
        return ""
    return (
        f"is incomplete ({found.files} files, {found.bytes} bytes; it was committed with {wanted.files} files, "
        f"{wanted.bytes} bytes)"
    )


def _from_status(known: Mapping[str, int]) -> Snapshot:
    """Only the names, for when both files are lost."""
    entries = tuple(Entry(name, {}, index) for name, index in sorted(known.items(), key=lambda item: item[1]))
    return Snapshot(entries, entries[-1].name if entries else None, reports=entries[-1].report + 1 if entries else 0)


def read_copy(folder: RunFolder) -> Copy:
    """Empty when there is no copy, or it cannot be parsed."""
    try:
        values = json.loads(folder.read(COPY) or b"")
        sizes = {str(name): Size(int(size[0]), int(size[1])) for name, size in values["sizes"].items()}
        return Copy(parse_snapshot(json.dumps(values["snapshot"])), sizes)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, SnapshotUnreadable):
        return Copy(None, {})


def keep_copy(folder: RunFolder, text: str, *, sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Writes the copy of Ray's snapshot `text`. Measures the checkpoints that are new; returns the sizes of all."""
    snapshot = parse_snapshot(text)
    names = snapshot.names
    again = {name for name in names if names.count(name) > 1}  # overwritten by a later commit
    measured = {name: sizes.get(name) or folder.measure(name) for name in names if name not in again}
    plain = {name: [size.files, size.bytes] for name, size in measured.items()}
    folder.replace(COPY, json.dumps({"snapshot": json.loads(text), "sizes": plain}).encode())
    return measured
