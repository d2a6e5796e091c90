"""What a run has left in its folder: the reports of rank 0, and the checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from railhead.api.base import Object
from railhead.api.status import parse_status
from railhead.client.checkpoints import CheckpointRow, choose_checkpoint, judge_files, list_checkpoints, read_snapshot
from railhead.client.code_files import format_size
from railhead.client.curves import Report, describe_gaps, read_reports
from railhead.client.run_files import RunFiles, copy_files, read_files, read_folder
from railhead.contract.run_folder import OWN_FOLDER
from railhead.contract.snapshot import COPY, SNAPSHOT
from railhead.history import JOURNAL, METRICS, read_history


async def read_metrics(files: RunFiles, name: str, metrics: Sequence[str]) -> tuple[list[Report], list[str]]:
    """Returns the reports of the job in the order of time, and a sentence for each reason why some are missing.

    A report has only these metrics, all of them if none is named.
    """
    history = read_history(await read_folder(files, f"{OWN_FOLDER}/{METRICS}"))
    gaps = describe_gaps(history, f"the history of {name}")
    if not history.records:
        gaps.append(f"{files.place} has no reports of {name}.")
    return read_reports(name, history, metrics), gaps


async def read_checkpoints(files: RunFiles, job: Object) -> list[CheckpointRow]:
    """Returns the checkpoints of the job's run, the oldest first. Raises ClientError."""
    names = [SNAPSHOT, COPY, f"{OWN_FOLDER}/{METRICS}", f"{OWN_FOLDER}/{JOURNAL}"]
    known = await read_files(files, await files.find(names))
    snapshot = read_snapshot(known, files.place)
    histories = [
        read_history({each.rpartition("/")[2]: data for each, data in known.items() if each.startswith(f"{folder}/")})
        for folder in names[2:]
    ]
    found = await files.find(snapshot.names) if snapshot.names else []
    best = parse_status(job.get("status")).best_checkpoint
    return list_checkpoints(snapshot, found, metrics=histories[0], journal=histories[1], best=best.uri if best else "")


async def download_checkpoint(
    files: RunFiles, rows: Sequence[CheckpointRow], wanted: str, into: Path, say: Callable[[str], None]
) -> None:
    """Copies a checkpoint into a new or empty folder: this name, `best`, `newest`, or "" for the best, else the newest.

    Raises:
        ClientError: there is no such checkpoint, the folder has files, or the copy is not complete.
    """
    row = choose_checkpoint(rows, wanted)
    found = await files.find([row.name])
    say(f"copying {row.name}: {len(found)} files, {format_size(sum(file.size for file in found))}")
    await copy_files(files, found, folder=row.name, into=into)


async def verify_checkpoints(files: RunFiles, job: Object, rows: Sequence[CheckpointRow]) -> list[CheckpointRow]:
    """Returns the checkpoints with what their files tell about themselves, where they are.

    Those that the job has deleted meanwhile are left out. Raises ClientError.
    """
    found = await files.find([row.name for row in rows]) if rows else []
    checks, checked = dict(zip(found, await files.check(found), strict=True)), []
    for row in rows:
        own = {file: check for file, check in checks.items() if file.name.startswith(f"{row.name}/")}
        checked.append(replace(row, files=len(own), verification=judge_files(own, row.name)))
    kept = {row.name for row in await read_checkpoints(files, job)}
    return [row for row in checked if row.name in kept]
