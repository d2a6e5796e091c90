"""`railhead logs`: what a job's pods print, now and as it comes, or from the archive in the run's folder."""

from __future__ import annotations

import argparse
from collections import deque
from datetime import timedelta

from railhead.api.run_status import list_uids
from railhead.api.status import parse_status
from railhead.cli.cluster_command import open_files, remark
from railhead.cli.output import Console
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.rank_count import count_ranks
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.archived_logs import choose_files, list_attempts, read_lines
from railhead.client.run.follow_logs import follow_logs, print_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.run_files import read_each
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
        sources = choose_files(found, uids, attempt, rank=wanted.rank, is_all=wanted.is_all)
        if not sources:
            kept = ", ".join(map(str, list_attempts(found, uids))) or "none"
            remark(
                f"{options.name} has no such pod, and the archive no such lines of attempt {attempt}; it has "
                f"attempts: {kept}. spec.logs.archive decides what it keeps"
            )
            return ExitCode.NOT_FOUND
        since = ""
        if wanted.since:
            since = format_time(cluster.client.clock.now() - timedelta(seconds=wanted.since))
        last: dict[str, deque[str]] = {}
        async for file, data in read_each(files, list(sources)):
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
