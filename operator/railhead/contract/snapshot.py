"""The format of a run's checkpoints: Ray Train's `checkpoint_manager_snapshot.json` in all known versions.

The formats only grew. That of 2.52 has the checkpoints and the latest of them; 2.55 adds the number
of each report, the pending validations and the names of the validated checkpoints; 2.60 adds two
more kinds of those. What an older format lacks is filled in as that Ray would have had it,
so a run can resume with a newer Ray, or an older one; Ray itself rejects that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Collection, Mapping, Optional

from railhead.contract.run_folder import OWN_FOLDER

SNAPSHOT = "checkpoint_manager_snapshot.json"
COPY = f"{OWN_FOLDER}/snapshot.json"
_CHECKED = (
    "validated_checkpoint_dir_names",
    "timed_out_validation_checkpoint_dir_names",
    "failed_validation_checkpoint_dir_names",
)


class SnapshotUnreadable(Exception):
    """The text is no snapshot of Ray's; the message has the reason."""


@dataclass(frozen=True)
class SnapshotEntry:
    """One checkpoint: its folder in the run's, what was reported with it, and the number of that report."""

    name: str
    metrics: Mapping[str, Any]
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

    entries: tuple[SnapshotEntry, ...]
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
        if self.latest in names:
            return replace(self, entries=entries)
        newest = max(entries, key=attrgetter("report"), default=None)
        return replace(self, entries=entries, latest=newest.name if newest else None)


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
    waiting = values.get("pending_training_results") or []
    specs = values.get("pending_validation_specs") or []
    return Snapshot(
        entries,
        latest=str(latest["checkpoint_dir_name"]) if latest is not None else None,
        pending=tuple((str(each["checkpoint_dir_name"]), spec) for each, spec in zip(waiting, specs)),
        checked=tuple((key, tuple(map(str, values.get(key) or ()))) for key in _CHECKED),
        reports=int(values.get("current_report_index", max(numbers, default=-1) + 1)),
        fields=frozenset(values),
    )


def _parse_entry(values: dict[str, Any], number: int) -> SnapshotEntry:
    name = values["checkpoint_dir_name"]
    if not isinstance(name, str) or not name or not isinstance(values["metrics"], dict):
        raise ValueError(f"a checkpoint entry is malformed: {values}")
    return SnapshotEntry(name, values["metrics"], int(number))


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
