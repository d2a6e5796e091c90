"""`railhead logs`: what a job's pods print, now and as it comes, or from the archive in the run's folder."""

from __future__ import annotations

import argparse
import asyncio
from collections import deque
from datetime import UTC, datetime, timedelta

from railhead.cli.cluster_command import open_files
from railhead.cli.output import Console, remark
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.rank_count import count_ranks
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.follow_logs import follow_logs, print_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.read_archive import AttemptArchive, find_archive, find_archive_of_folder, read_archive
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_storage import open_copy
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
    """Prints the lines that the archive has of an attempt, the newest one by default."""
    job = await cluster.get_job(options.name)
    async with open_files(options, cluster, job, is_own=True) as files:
        archive = await find_archive(files, job, options.attempt)
        await _print_lines(archive, wanted, console, cluster.client.clock.now())
    return ExitCode.DONE


def do_logs_of_folder(options: argparse.Namespace) -> int:
    """Prints what the archive in --folder has, without a cluster: the name is only a title."""
    if options.follow:
        raise ClientError("--follow reads the pods of a job; leave out --folder", ExitCode.USAGE)
    wanted = Wanted(options.rank, options.is_all, options.tail, options.since)
    asyncio.run(_print_folder(open_copy(options.folder), wanted, options.attempt))
    return ExitCode.DONE


async def _print_folder(files: RunFiles, wanted: Wanted, attempt: int | None) -> None:
    archive = await find_archive_of_folder(files, attempt)
    await _print_lines(archive, wanted, Console(), datetime.now(UTC))


async def _print_lines(archive: AttemptArchive, wanted: Wanted, console: Console, now: datetime) -> None:
    since = ""
    if wanted.since:
        since = format_time(now - timedelta(seconds=wanted.since))
    last: dict[str, deque[str]] = {}
    async for line in read_archive(archive, wanted, since):
        if wanted.tail is None:
            console.log_line(line.text)
        else:
            last.setdefault(line.source, deque(maxlen=wanted.tail)).append(line.text)
    for lines in last.values():
        for text in lines:
            console.log_line(text)
