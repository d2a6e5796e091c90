"""`railhead list` and `top`: a row for each job, once or again when it changes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from railhead.cli.output import Column, Console
from railhead.client.cluster.connection import Cluster, explaining
from railhead.client.cluster.job_rows import JobRow, read_row
from railhead.contract.times import describe_age

# between two tables of top --watch: with changes, and for the ages
SHORTEST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
# Lines without a job: the titles, and that of the cursor.
OF_THE_SCREEN = 2
NAMES = (Column("NAMESPACE", can_be_cut=True), Column("NAME", can_be_cut=True), Column("PHASE"))
LIST_COLUMNS = (
    *(*NAMES, Column("PROGRESS"), Column("REMAINING", drop=1), Column("ATTEMPT", drop=2)),
    *(Column("WAITS-FOR", can_be_cut=True), Column("AGE")),
)
WIDE_TITLES = (*(column.title for column in LIST_COLUMNS), "GOODPUT", "WORKERS", "HEAD", "CHECKPOINT")
TOP_COLUMNS = (
    *(*NAMES, Column("GPUS"), Column("PROGRESS"), Column("REMAINING", drop=1), Column("GOODPUT", drop=2)),
    *(Column("ATTEMPT", drop=3), Column("WAITS-FOR", can_be_cut=True), Column("AGE")),
)
# The columns of a command's tables, by -o; of wide, none is cut.
TABLES: Mapping[tuple[str, str], Sequence[Column]] = {
    ("list", "table"): LIST_COLUMNS,
    ("list", "wide"): tuple(map(Column, WIDE_TITLES)),
    ("top", "table"): TOP_COLUMNS,
}


async def do_list(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the jobs by namespace and name; with --watch, then each change until Ctrl-C."""
    rows = await cluster.list_jobs(options.selector, read_row)
    rows.sort(key=attrgetter("namespace", "name"))
    _print_jobs(rows, options, cluster, console)
    if not options.watch:
        return 0
    shown = {(row.namespace, row.name): row for row in rows}

    def on_change(old: JobRow | None, new: JobRow | None) -> None:
        row = new or old
        assert row is not None
        key = (row.namespace, row.name)
        if new is None:
            shown.pop(key, None)
            _choose_remarks(options, console).line(f"{row.name} is gone")
        elif shown.get(key) != new:
            # Printed again only if a column has changed.
            shown[key] = new
            if options.output == "yaml":
                console.line("---")
            _print_jobs([new], options, cluster, console, has_header=False)

    await cluster.watch_jobs(options.selector, on_change, read_row)
    return 0


def _choose_remarks(options: argparse.Namespace, console: Console) -> Console:
    """Returns where a sentence goes: into the table, or beside an output that a program reads."""
    if (options.command, options.output) in TABLES:
        return console
    return Console(sys.stderr)


async def do_top(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the jobs once, or with --watch again after changes."""
    if not options.watch:
        _print_top(await cluster.list_jobs(options.selector, read_row), options, cluster, console)
        return 0
    changed = asyncio.Event()
    jobs = await cluster.open_jobs(options.selector, read_row, lambda _old, _new: changed.set())

    async def print_changes() -> None:
        await jobs.answered.wait()
        while True:
            changed.clear()
            _print_top(jobs.items(), options, cluster, console)
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


def _print_top(jobs: Iterable[JobRow], options: argparse.Namespace, cluster: Cluster, console: Console) -> None:
    rows = sort_rows(jobs, options.sort)
    if options.output == "table" and options.watch and console.height is not None:
        rows = rows[: max(1, console.height - OF_THE_SCREEN)]
    _print_jobs(rows, options, cluster, console)


def sort_rows(jobs: Iterable[JobRow], by: str) -> list[JobRow]:
    """Returns the jobs in the order of --sort; those that are alike by age, then by name."""

    def rank(row: JobRow) -> tuple[int, str, str, str]:
        gpus = 0
        if by == "gpus":
            gpus = row.gpus
        return -gpus, row.created, row.namespace, row.name

    return sorted(jobs, key=rank)


def _print_jobs(
    rows: Sequence[JobRow], options: argparse.Namespace, cluster: Cluster, console: Console, *, has_header: bool = True
) -> None:
    columns = TABLES.get((options.command, options.output))
    if options.output == "name":
        for row in rows:
            console.line(f"{row.namespace}/{row.name}" if cluster.scope is None else row.name)
    elif columns is None:
        # It takes as long to import as all else that a table needs.
        from railhead.client.outputs import JobList

        console.print_if_data(JobList(tuple(rows)), options.output)
    elif rows:
        _print_table(rows, columns[0 if cluster.scope is None else 1 :], cluster, console, has_header=has_header)
    else:
        console.line("No TrainJobs found.")


def _print_table(
    rows: Sequence[JobRow], columns: Sequence[Column], cluster: Cluster, console: Console, *, has_header: bool
) -> None:
    now = cluster.client.clock.now()

    def write(row: JobRow, title: str) -> str:  # which is the name of the row's field, but for AGE
        if title == "AGE":
            value = describe_age(row.created, now)
        else:
            value = getattr(row, title.lower().replace("-", "_"))
        return str(value or "-")

    texts = [[write(row, column.title) for column in columns] for row in rows]
    console.table(columns, texts, has_header=has_header)
