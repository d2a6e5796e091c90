"""`railhead logs`: what a job's pods print, now and as it comes, or from the archive in the run's folder."""

from __future__ import annotations

import argparse
import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from railhead.api.run_status import list_uids
from railhead.api.status import parse_status
from railhead.cli.cluster_command import open_files
from railhead.cli.output import Console, remark
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.rank_count import count_ranks
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.archived_logs import choose_files, list_attempts, list_writers, read_lines
from railhead.client.run.follow_logs import follow_logs, print_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.run_files import RunFile, RunFiles, read_each
from railhead.client.run.run_list import list_uids_of_run
from railhead.client.run.run_results import read_run_record
from railhead.client.run.run_storage import open_copy
from railhead.contract.run_folder import LOGS
from railhead.contract.times import format_time
from railhead.json_object import Object


async def do_logs(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the lines; remarks, for example about a pod that waits, go to standard error."""
    wanted = Wanted(options.rank, options.is_all, options.tail, options.since)
    printer = Printer(console.log_line, remark)
    if options.rank is not None:
        check_rank(await cluster.get_job(options.name), options.rank)
    if options.follow:
        if options.attempt is not None:
            raise ClientError("--follow shows the newest attempt and later ones; leave out --attempt", ExitCode.USAGE)
        await follow_logs(cluster, options.name, wanted, printer)
        return 0
    if await print_logs(cluster, options.name, wanted, printer, attempt=options.attempt):
        return 0
    return await _print_archived(options, cluster, wanted, console)


def check_rank(job: Object, rank: int) -> None:
    """Raises ClientError if the job can never have such a rank."""
    _, ranks = count_ranks(job)
    if rank >= ranks:
        known = "only rank 0" if ranks == 1 else f"ranks 0 to {ranks - 1}"
        message = f"--rank {rank}: {job['metadata']['name']} has {known}"
        raise ClientError(message, ExitCode.NOT_FOUND)


async def _print_archived(options: argparse.Namespace, cluster: Cluster, wanted: Wanted, console: Console) -> int:
    """Prints the lines that the archive has of an attempt, the newest one by default; says what is missing."""
    job = await cluster.get_job(options.name)
    status = parse_status(job.get("status"))
    uids = list_uids(str(job["metadata"]["uid"]), status.run)
    attempt = options.attempt or status.attempt
    async with open_files(options, cluster, job, is_own=True) as files:
        found = await files.find([LOGS])
        archive = _Archive(files, found, uids, attempt, cluster.client.clock.now())
        return await _print_lines(archive, f"{options.name} has no such pod, and", wanted, console)


def do_logs_of_folder(options: argparse.Namespace) -> int:
    """Prints what the archive in --folder has, without a cluster: the name is only a title."""
    if options.follow:
        raise ClientError("--follow reads the pods of a job; leave out --folder", ExitCode.USAGE)
    wanted = Wanted(options.rank, options.is_all, options.tail, options.since)
    return asyncio.run(_print_folder(open_copy(options.folder), wanted, options.attempt))


async def _print_folder(files: RunFiles, wanted: Wanted, attempt: int | None) -> int:
    found = await files.find([LOGS])
    record = await read_run_record(files)
    if record is None:
        uids = list_writers(found)
    else:
        uids = list_uids_of_run(record)
    attempts = list_attempts(found, uids)
    if attempt is None:
        attempt = max(attempts, default=1)
    archive = _Archive(files, found, uids, attempt, datetime.now(UTC))
    return await _print_lines(archive, f"{files.place}:", wanted, Console())


@dataclass(frozen=True)
class _Archive:
    """The archive of a run, and which attempt is wanted.

    Attributes:
        found: all its files.
        uids: of the job, and of those that it was restored from.
        now: for --since.
    """

    files: RunFiles
    found: Sequence[RunFile]
    uids: Sequence[str]
    attempt: int
    now: datetime


async def _print_lines(archive: _Archive, who: str, wanted: Wanted, console: Console) -> int:
    """Prints the lines of the wanted attempt; `who` begins the remark that there are none."""
    sources = choose_files(archive.found, archive.uids, archive.attempt, rank=wanted.rank, is_all=wanted.is_all)
    if not sources:
        kept = ", ".join(map(str, list_attempts(archive.found, archive.uids))) or "none"
        remark(
            f"{who} the archive has no such lines of attempt {archive.attempt}; it has "
            f"attempts: {kept}. spec.logs.archive decides what it keeps"
        )
        return ExitCode.NOT_FOUND
    since = ""
    if wanted.since:
        since = format_time(archive.now - timedelta(seconds=wanted.since))
    last: dict[str, deque[str]] = {}
    async for file, data in read_each(archive.files, list(sources)):
        source = sources[file]
        place = f"rank {source}" if source.isdigit() else source
        for text in read_lines(data, since):
            line = f"[{place}] {text}" if wanted.is_all else text
            if wanted.tail is None:
                console.log_line(line)
            else:
                last.setdefault(source, deque(maxlen=wanted.tail)).append(line)
    for lines in last.values():
        for line in lines:
            console.log_line(line)
    return ExitCode.DONE
