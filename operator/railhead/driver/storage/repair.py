"""Before Ray reads the run's snapshot: is it intact, and does everything it names exist? If not, what is left, and why.

Ray itself would raise on a truncated file and on a missing folder, in an actor, at every attempt.
A checkpoint is committed when all its files exist, and its files are deleted only after it has been
removed from the snapshot; so whatever is missing was lost. Next to the snapshot we keep a copy,
written after each commit (`train_controller.snapshot_copy`), with the size of each checkpoint at that
time: Ray writes its own in place, so a crash may leave half of it.

The number of old checkpoints does not matter: a single listing shows which ones exist, and only the
one that the run resumes from is measured.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Mapping, Optional

from railhead.contract.report import CHECKPOINT_INCOMPLETE, CHECKPOINT_MISSING, SNAPSHOT_UNREADABLE
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder, Size
from railhead.driver.storage.snapshot import FILE, Entry, Snapshot, SnapshotUnreadable, parse_snapshot

COPY = f"{OWN_FOLDER}/snapshot.json"
UNREADABLE = f"{OWN_FOLDER}/unreadable-snapshot.json"
_NOTHING = "is gone or empty"


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
    sizes = {**copy.sizes, **(select_sizes(own, copy) if own else {})}
    for snapshot in filter(None, (own, copy.snapshot, _from_status(known))):
        left, problem = _keep_intact(snapshot, sizes, folder)
        damage = damage or problem
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


def _keep_intact(snapshot: Snapshot, sizes: Mapping[str, Size], folder: RunFolder) -> tuple[Snapshot, Optional[Damage]]:
    """Without the checkpoints that are gone, and without the newest ones that are incomplete.

    An older one only has to exist: its owner may have removed what no run resumes from.
    """
    newest_first = sorted(snapshot.entries, key=lambda entry: (entry.name == snapshot.latest, entry.report))[::-1]
    existing = folder.find_existing(snapshot.names)
    problems: dict[str, str] = {}
    for name in dict.fromkeys(entry.name for entry in newest_first):
        if name not in existing:
            problems[name] = _NOTHING
        elif "" not in problems.values():
            problems[name] = _explain(folder.measure(name), sizes.get(name))
        else:
            problems[name] = ""
    damaged = [(name, problem) for name, problem in problems.items() if problem]
    if not damaged:
        return snapshot, None
    name, problem = damaged[0]
    more = f" ({len(damaged) - 1} more damaged)" if len(damaged) > 1 else ""
    reason = CHECKPOINT_MISSING if problem == _NOTHING else CHECKPOINT_INCOMPLETE
    left = snapshot.keep([name for name, problem in problems.items() if not problem])
    return left, Damage(reason, f"checkpoint {name} {problem}{more}")


def _explain(found: Size, wanted: Optional[Size]) -> str:
    """Why it is not intact, or an empty string. More files or bytes than at its commit are no damage."""
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


def select_sizes(snapshot: Snapshot, copy: Copy) -> dict[str, Size]:
    """Those of the snapshot's checkpoints; zero for a folder that a later commit has overwritten."""
    counts = Counter(snapshot.names)
    reports = {entry.name: entry.report for entry in copy.snapshot.entries} if copy.snapshot else {}
    return {
        name: copy.sizes[name] if counts[name] == 1 and reports.get(name) == report else Size(0, 0)
        for name, report in ((entry.name, entry.report) for entry in snapshot.entries)
        if name in copy.sizes
    }


def write_copy(folder: RunFolder, text: str, sizes: Mapping[str, Size]) -> None:
    """`text`: Ray's snapshot."""
    plain = {name: [size.files, size.bytes] for name, size in sizes.items()}
    folder.replace(COPY, json.dumps({"snapshot": json.loads(text), "sizes": plain}).encode())
