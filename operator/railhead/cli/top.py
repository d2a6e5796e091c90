"""`railhead top`: the jobs that hold most GPUs, or the oldest ones, at the top of the screen."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import Subparsers, add_command
from railhead.cli.output import Column, Console

if TYPE_CHECKING:
    from datetime import datetime

    from railhead.client.cluster import Cluster
    from railhead.client.rows import JobRow

TOP = "Show the TrainJobs that hold most GPUs first: phase, progress, remaining time, goodput, attempts and age."
SORT = "gpus: of running worker pods, the most first; age: the oldest job first (default: %(default)s)"
FORMATS = ("table", "json", "yaml")
SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 30.0  # between two tables of --watch: with changes, and for the ages
OF_THE_SCREEN = 2  # lines without a job: the titles, and that of the cursor
COLUMNS = (
    Column("NAMESPACE", can_be_cut=True),
    Column("NAME", can_be_cut=True),
    Column("PHASE"),
    Column("GPUS"),
    Column("PROGRESS"),
    Column("REMAINING", drop=1),
    Column("GOODPUT", drop=2),
    Column("ATTEMPT", drop=3),
    Column("WAITS-FOR", can_be_cut=True),
    Column("AGE"),
)


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    top = add_command(commands, "top", TOP, show_top, formats=FORMATS, has_name=False, is_for_all=True)
    top.add_argument("-l", "--selector", default="", help="only jobs with these labels, for example team=a")
    top.add_argument("--sort", choices=("gpus", "age"), default="gpus", help=SORT)
    top.add_argument("-w", "--watch", action="store_true", help="show a new table when a job changes, until Ctrl-C")


async def show_top(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the jobs once, or with --watch again after changes."""
    from railhead.client.cluster import explaining
    from railhead.client.rows import read_row

    if not options.watch:
        _print(await cluster.list_jobs(options.selector, read_row), options, cluster, console)
        return 0
    changed = asyncio.Event()
    jobs = await cluster.open_jobs(options.selector, read_row, lambda _old, _new: changed.set())

    async def print_changes() -> None:
        await jobs.answered.wait()
        while True:
            changed.clear()
            _print(jobs.items(), options, cluster, console)
            await asyncio.sleep(SHORTEST_SECONDS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), LONGEST_SECONDS)
            if options.output == "table":
                console.clear()
            elif options.output == "yaml":
                console.line("---")

    with explaining("watch trainjobs"):
        await asyncio.gather(jobs.run(), print_changes())
    return 0


def _print(jobs: Iterable[JobRow], options: argparse.Namespace, cluster: Cluster, console: Console) -> None:
    rows = sort_rows(jobs, options.sort)
    if options.output != "table":
        from railhead.client.outputs import JobList  # slow to import, and a table needs none of it

        console.data(JobList(tuple(rows)), options.output)
        return
    if not rows:
        console.line("No TrainJobs found.")
        return
    if options.watch and console.height is not None:
        rows = rows[: max(1, console.height - OF_THE_SCREEN)]
    first, now = 0 if cluster.scope is None else 1, cluster.client.clock.now()
    console.table(COLUMNS[first:], [_cells(row, now)[first:] for row in rows])


def _cells(row: JobRow, now: datetime) -> list[str]:
    from railhead.client.rows import describe_age

    cells = [row.namespace, row.name, row.phase, str(row.gpus or ""), row.progress, row.remaining, row.goodput]
    cells += [str(row.attempt or ""), row.waits_for, describe_age(row.created, now)]
    return [cell or "-" for cell in cells]


def sort_rows(jobs: Iterable[JobRow], by: str) -> list[JobRow]:
    """Returns the jobs in the order of --sort; those that are alike by age, then by name."""
    return sorted(jobs, key=lambda row: (-row.gpus if by == "gpus" else 0, row.created, row.namespace, row.name))
