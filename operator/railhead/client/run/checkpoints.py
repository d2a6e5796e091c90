"""The checkpoints of a run: what Ray's snapshot, the history and the folder know of each. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.run_files import RunFile, is_plain
from railhead.contract.checkpoint_uri import read_path
from railhead.contract.snapshot import COPY, SNAPSHOT, Snapshot, SnapshotUnreadable, parse_snapshot
from railhead.history import History


@dataclass(frozen=True)
class Verification:
    """What the files of a checkpoint tell about themselves.

    Attributes:
        damage: what is wrong with them, a sentence each; empty = nothing was found.
        checked: how many of them have a format that tells its length or its end, and can be read.
    """

    damage: tuple[str, ...]
    checked: int


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint.

    Attributes:
        name: of its folder in the run's.
        index: number of the commit, counted from 0 over all attempts; None if the journal does not have it.
        time: when it was committed, RFC 3339; "" if the journal does not have it.
        step: None without railhead.training.progress, or if the report is not in the history.
        metrics: reported with it.
        bytes: of its files.
        files: how many; 0 = it is lost, unless it had none when it was committed (`is_empty`).
        verification: None = the files were not checked.
    """

    name: str
    index: int | None
    time: str
    step: int | None
    metrics: Mapping[str, Any]
    bytes: int
    files: int
    is_best: bool
    is_newest: bool
    is_empty: bool = False
    verification: Verification | None = None


def read_snapshot(files: Mapping[str, bytes], place: str) -> Snapshot:
    """Returns Ray's snapshot, or Railhead's copy of it if Ray's is damaged; an empty one before the first checkpoint.

    Raises:
        ClientError: neither can be read.
    """
    problem = ""
    for name in (SNAPSHOT, COPY):
        try:
            if name in files:
                snapshot = parse_snapshot(files[name].decode(errors="replace"))
                return snapshot.keep([each for each in snapshot.names if is_plain(each)])
        except SnapshotUnreadable as error:
            problem = problem or f"{name} in {place} cannot be read: {error}"
    if problem:
        raise ClientError(problem)
    return Snapshot(())


def list_checkpoints(
    snapshot: Snapshot,
    files: Sequence[RunFile],
    *,
    metrics: History,
    journal: History,
    best: str,
    empty: Collection[str] = (),
) -> list[CheckpointRow]:
    """Returns the checkpoints that Ray keeps, the oldest first.

    `files`: those in their folders; `best`: the URI of status.bestCheckpoint; `empty`: the names of those that had no
    files when they were committed.
    """
    commits = {
        read_path(str(record.get("checkpoint"))).rpartition("/")[2]: record
        for record in journal.records
        if record.get("event") == "checkpoint"
    }
    rows = []
    for entry in sorted(snapshot.entries, key=attrgetter("report")):
        commit = commits.get(entry.name.rpartition("/")[2], {})
        sizes = [file.size for file in files if file.name.startswith(f"{entry.name}/")]
        index = commit.get("index")
        rows.append(
            CheckpointRow(
                name=entry.name,
                index=index if type(index) is int else None,
                time=str(commit.get("time", "")),
                step=_find_step(entry.metrics, metrics),
                metrics=entry.metrics,
                bytes=sum(sizes),
                files=len(sizes),
                is_best=read_path(best).endswith(f"/{entry.name}"),
                is_newest=entry.name == snapshot.latest,
                is_empty=not sizes and entry.name in empty,
            )
        )
    return rows


def judge_files(checks: Mapping[RunFile, FileCheck], folder: str) -> Verification:
    """Returns what the checks of all files of a checkpoint mean together; `folder`: its name."""
    sizes = {file.name: file.size for file in checks}
    damage = []
    for file, check in checks.items():
        own = file.name.removeprefix(f"{folder}/")
        if check.problem:
            damage.append(f"{own}: {check.problem}.")
        for name, least in (check.needs or {}).items():
            size = sizes.get(f"{file.name.rpartition('/')[0]}/{name}")
            if size is None:
                damage.append(f"{name} is missing, and {own} refers to it.")
            elif size < least:
                damage.append(f"{name} has {size} bytes, and {own} refers to {least} bytes of it.")
    return Verification(tuple(damage), sum(check.needs is not None for check in checks.values()))


def _find_step(metrics: Mapping[str, Any], history: History) -> int | None:
    """Returns the step of the last report with exactly these metrics."""
    found = (record.get("step") for record in reversed(history.records) if record.get("metrics") == metrics)
    step = next(found, None)
    if type(step) is int:
        return step
    return None


def choose_checkpoint(rows: Sequence[CheckpointRow], wanted: str) -> CheckpointRow:
    """Returns the checkpoint of this name; `best`, `newest`, or "" for the best, else the newest.

    Raises:
        ClientError: there is none, or its files are gone.
    """
    wanted = wanted or ("best" if any(row.is_best and row.files for row in rows) else "newest")
    found = [
        row
        for row in rows
        if row.name == wanted or (wanted == "best" and row.is_best) or (wanted == "newest" and row.is_newest)
    ]
    if not found:
        known = ", ".join(row.name for row in rows) or "none"
        hint = ""
        if wanted == "best":
            hint = "; the best one needs spec.run.checkpoint.scoreAttribute"
        raise ClientError(f"there is no checkpoint {wanted}; the run has: {known}{hint}", ExitCode.NOT_FOUND)
    if found[0].is_empty:
        message = f"checkpoint {found[0].name} had no files when it was committed"
        raise ClientError(message, ExitCode.NOT_FOUND)
    if not found[0].files:
        raise ClientError(f"the files of checkpoint {found[0].name} are gone", ExitCode.NOT_FOUND)
    return found[0]
