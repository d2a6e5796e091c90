"""`railhead runs`: the runs of a storage, and one of them, without a cluster.

A list imports neither the client of a cluster nor what explains a job: that would take longer than the list itself.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from railhead.cli.output import Column, Console, remark
from railhead.client.run.run_list import RunRow, build_row, list_runs, read_record, read_records
from railhead.client.run.run_storage import RunStorage, open_storage
from railhead.contract.times import describe_age, format_duration


def do_runs(options: argparse.Namespace) -> int:
    """Prints a line per run, or one run."""
    storage = open_storage(options.storage)
    console = Console()
    if options.name:
        return asyncio.run(_show_run(storage, options, console))
    return asyncio.run(_list_runs(storage, options, console))


async def _list_runs(storage: RunStorage, options: argparse.Namespace, console: Console) -> int:
    now = datetime.now(UTC)
    found = await read_records(storage)
    rows = list_runs(found.records, now=now)
    if options.output != "table":
        from railhead.client.outputs import PastRuns

        console.print_if_data(PastRuns(tuple(rows), None, found.notes), options.output)
        return 0
    if rows:
        _print_rows(rows, now, console)
    else:
        console.line(f"{storage.place} has no run with a record.")
    for note in found.notes:
        remark(note)
    return 0


def _print_rows(rows: Sequence[RunRow], now: datetime, console: Console) -> None:
    columns = (
        Column("NAME", can_be_cut=True),
        Column("STATE"),
        Column("REASON", drop=5),
        Column("STARTED", drop=2),
        Column("DURATION"),
        Column("ATTEMPTS", drop=3),
        Column("GOODPUT", drop=1),
        Column("BEST", can_be_cut=True, drop=4),
        Column("CHECKPOINT", drop=6),
    )
    console.table(columns, [_write_row(row, now) for row in rows])


def _write_row(row: RunRow, now: datetime) -> tuple[str, ...]:
    started = ""
    age = describe_age(row.started, now)
    if age:
        started = f"{age} ago"
    checkpoint = ""
    if row.checkpoint is not None:
        checkpoint = f"{row.checkpoint}, {describe_age(row.checkpoint_time, now) or '?'} ago"
    goodput = ""
    if row.goodput is not None:
        goodput = f"{row.goodput}%"
    cells = (
        row.name,
        row.state,
        row.reason,
        started,
        format_duration(max(row.seconds, 0)),
        str(row.attempts),
        goodput,
        row.best_metric,
        checkpoint,
    )
    return tuple(cell or "-" for cell in cells)


async def _show_run(storage: RunStorage, options: argparse.Namespace, console: Console) -> int:
    from railhead.cli.results import print_checkpoints
    from railhead.client.explain.past_job import list_facts
    from railhead.client.explain.past_run import describe_attempt, open_past_run
    from railhead.client.outputs import PastRuns

    now = datetime.now(UTC)
    record = await read_record(storage, options.name)
    row = build_row(options.name, record, now=now)
    run = await open_past_run(storage, options.name, record)
    if console.print_if_data(PastRuns((row,), run, run.notes), options.output):
        return 0
    facts = [fact for fact in list_facts(row, record, run.folder, now) if fact[1]]
    label = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        console.line(f"{name.ljust(label)}{value}")
    console.line()
    console.line("Attempts")
    for attempt in run.attempts:
        console.paragraph(describe_attempt(attempt), "  ")
    console.line()
    print_checkpoints(row.name, run.checkpoints, console)
    console.line()
    columns = (Column("TIME"), Column("WHAT"), Column("DETAILS", can_be_cut=True), Column("SOURCE", drop=1))
    console.table(columns, [(each.time, each.what, each.details, each.source) for each in run.moments])
    for note in run.notes:
        remark(note)
    return 0
