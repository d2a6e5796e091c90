"""What a run has left in its folder: the reports of rank 0, and the checkpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from railhead.api.status import parse_status
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.checkpoints import (
    CheckpointRow,
    choose_checkpoint,
    judge_files,
    list_checkpoints,
    read_snapshot,
)
from railhead.client.run.curves import RankReport, describe_gaps, read_reports
from railhead.client.run.run_files import TRIES, RunFiles, copy_files, read_folder, read_found, try_again
from railhead.client.submit.code_files import format_size
from railhead.contract.run_folder import EMPTY, OWN_FOLDER, RECORD, parse_empty
from railhead.contract.run_record import OtherVersion, RunRecord, parse_record
from railhead.contract.snapshot import COPY, SNAPSHOT
from railhead.history import JOURNAL, METRICS, History, read_history
from railhead.json_object import Object

TOO_FAST = (
    "the job deletes checkpoints faster than they can be read; let it keep more by spec.run.checkpoint.numToKeep, or "
    "suspend it"
)


async def read_metrics(files: RunFiles, name: str, metrics: Sequence[str]) -> tuple[list[RankReport], list[str]]:
    """Returns the reports of the job in the order of time, and a sentence for each reason why some are missing.

    A report has only these metrics, all of them if none is named. A metric that no report has is a reason, too.
    """
    history = read_history(await read_folder(files, f"{OWN_FOLDER}/{METRICS}"))
    gaps = describe_gaps(history, f"the history of {name}")
    if not history.records:
        gaps.append(f"{files.place} has no reports of {name}.")
        return [], gaps
    known = {metric for report in read_reports(name, history) for metric in report.metrics}
    unknown = [metric for metric in metrics if metric not in known]
    if unknown:
        reported = ", ".join(sorted(known)) or "none"
        gaps.append(f"{name} has reported no metric {' or '.join(unknown)}; its metrics are: {reported}.")
    return read_reports(name, history, metrics), gaps


def find_best(job: Object) -> str:
    """Returns the URI of status.bestCheckpoint; "" without one."""
    best = parse_status(job.get("status")).best_checkpoint
    if best:
        return best.uri
    return ""


async def read_run_record(files: RunFiles) -> RunRecord | None:
    """Returns the record that the run's driver has left; None without one that this version can read."""
    with suppress(OtherVersion):
        found = await try_again(partial(read_found, files, [RECORD]))
        return parse_record(found.get(RECORD, b""))
    return None


async def read_recorded_best(files: RunFiles) -> str:
    """Returns the URI of the best checkpoint by the run's record; "" if that has none."""
    record = await read_run_record(files)
    if record is None or record.best_checkpoint is None:
        return ""
    return record.best_checkpoint.uri


async def read_checkpoints(files: RunFiles, best: str) -> list[CheckpointRow]:
    """Returns the checkpoints of the run, the oldest first; `best`: the URI of the best one, or "".

    If the job deletes some of them meanwhile, all are read again; after the last time those are left out.

    Raises:
        ClientError: a file cannot be read, or the job has deleted even the newest one each time.
    """
    left: list[CheckpointRow] = []
    for _ in range(TRIES):
        rows = await try_again(partial(_read_checkpoints, files, best))
        if all(row.files for row in rows):
            kept = [row.name for row in rows]
        else:
            kept = await _read_names(files)
        left = [row for row in rows if row.files or row.name in kept]
        if len(left) == len(rows):
            return left
    if any(row.is_newest for row in left):
        return left
    raise ClientError(TOO_FAST)


async def _read_checkpoints(files: RunFiles, best: str) -> list[CheckpointRow]:
    metrics_folder = f"{OWN_FOLDER}/{METRICS}"
    journal_folder = f"{OWN_FOLDER}/{JOURNAL}"
    known = await read_found(files, [SNAPSHOT, COPY, EMPTY, metrics_folder, journal_folder])

    def read_from(folder: str) -> History:
        segments = {name: data for name, data in known.items() if name.startswith(f"{folder}/")}
        return read_history({name.rpartition("/")[2]: data for name, data in segments.items()})

    snapshot = read_snapshot(known, files.place)
    found = await files.find(snapshot.names) if snapshot.names else []
    return list_checkpoints(
        snapshot,
        found,
        metrics=read_from(metrics_folder),
        journal=read_from(journal_folder),
        best=best,
        empty=parse_empty(known.get(EMPTY, b"")),
    )


async def download_checkpoint(
    files: RunFiles,
    read_best: Callable[[], Awaitable[str]],
    wanted: str,
    into: Path,
    say: Callable[[str], None],
) -> None:
    """Copies a checkpoint into a new or empty folder: this name, `best`, `newest`, or "" for the best, else the newest.

    If the job deletes the best or newest one meanwhile, it has another one by then, which is copied.

    Raises:
        ClientError: there is no such checkpoint any more, the folder has files, or the copy is not complete.
    """
    for _ in range(TRIES):
        row = choose_checkpoint(await read_checkpoints(files, await read_best()), wanted)
        found = await files.find([row.name])
        # Ray removes a checkpoint from the snapshot before it deletes the first of its files.
        if row.name in await _read_names(files):
            say(f"copying {row.name}: {len(found)} files, {format_size(sum(file.size for file in found))}")
            try:
                await copy_files(files, found, folder=row.name, into=into)
                return
            except ClientError:
                if row.name in await _read_names(files):
                    raise
        if wanted == row.name:
            raise ClientError(f"the job has deleted {row.name} while it was copied; copy another", ExitCode.NOT_FOUND)
        say(f"the job has deleted {row.name} meanwhile")
    raise ClientError(TOO_FAST)


async def _read_names(files: RunFiles) -> list[str]:
    async def read() -> list[str]:
        return read_snapshot(await read_found(files, [SNAPSHOT, COPY]), files.place).names

    return await try_again(read)


async def verify_checkpoints(files: RunFiles, rows: Sequence[CheckpointRow]) -> list[CheckpointRow]:
    """Returns the checkpoints with what their files tell about themselves, where they are.

    Those that the job has deleted before all of their files were checked are left out.

    Raises:
        ClientError: a file cannot be read, or none is left.
    """
    if not rows:
        return []
    found = await files.find([row.name for row in rows])
    checks = dict(zip(found, await files.check(found), strict=True))
    kept = await _read_names(files)
    left = []
    for row in rows:
        own = {file: check for file, check in checks.items() if file.name.startswith(f"{row.name}/")}
        verification = judge_files(own, row.name)
        is_whole = 0 < len(own) == row.files and not verification.damage
        if is_whole or row.name in kept:
            left.append(replace(row, files=len(own), verification=verification))
    if not left:
        raise ClientError(TOO_FAST)
    return left
