"""`railhead list`, `status`, `why` and `timeline`: what jobs do, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import SCREEN, TABLE, Subparsers, add_command
from railhead.cli.output import Column, Console
from railhead.cli.run_access import add_run_options, open_files

if TYPE_CHECKING:
    from datetime import datetime

    from railhead.client.cluster import Cluster
    from railhead.client.rows import JobRow
    from railhead.client.snapshot import Snapshot
    from railhead.client.timeline import Moment
    from railhead.client.why import Finding

LIST = "List TrainJobs: phase, progress, remaining time, and what each one waits for."
STATUS = "Show one TrainJob on one screen: what it does, attempts, checkpoint, last events, what to do next."
WHY = "Explain why a TrainJob waits, is slow, hangs or failed, and what to do about it."
TIMELINE = "Show what happened to a TrainJob, in order; what is not known any more is marked as a gap."
COLUMNS = (
    Column("NAMESPACE", can_be_cut=True),
    Column("NAME", can_be_cut=True),
    Column("PHASE"),
    Column("PROGRESS"),
    Column("REMAINING", drop=1),
    Column("ATTEMPT", drop=2),
    Column("WAITS-FOR", can_be_cut=True),
    Column("AGE"),
)
WIDE = (Column("GOODPUT"), Column("WORKERS"), Column("HEAD", can_be_cut=True), Column("CHECKPOINT", can_be_cut=True))


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds the commands that only read."""
    found = add_command(commands, "list", LIST, list_jobs, formats=TABLE, has_name=False, is_for_all=True)
    found.add_argument("-l", "--selector", default="", help="only jobs with these labels, for example team=a")
    found.add_argument("-w", "--watch", action="store_true", help="print each job again when it changes")
    add_command(commands, "status", STATUS, show_status, formats=SCREEN)
    add_command(commands, "why", WHY, show_why, formats=SCREEN)
    timeline = add_command(commands, "timeline", TIMELINE, show_timeline, formats=SCREEN)
    timeline.add_argument("--journal", action="store_true", help="also what the run's folder has of it")
    add_run_options(timeline)


async def list_jobs(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the jobs by namespace and name; with --watch, then each change until Ctrl-C."""
    from railhead.client.rows import read_row

    rows = await cluster.list_jobs(options.selector, read_row)
    rows.sort(key=lambda row: (row.namespace, row.name))
    print_rows(rows, options.output, console, now=cluster.client.clock.now(), has_namespace=cluster.scope is None)
    if options.watch:
        await _watch(options, cluster, console, {(row.namespace, row.name): row for row in rows})
    return 0


def print_rows(
    rows: Sequence[JobRow],
    format_: str,
    console: Console,
    *,
    now: datetime,
    has_namespace: bool,
    has_header: bool = True,
) -> None:
    """Prints the rows in the format."""
    from railhead.client.rows import describe_age

    if format_ in ("json", "yaml"):
        from railhead.client.outputs import JobList  # it takes as long to import as all else that a table needs

        console.data(JobList(tuple(rows)), format_)
        return
    if format_ == "name":
        for row in rows:
            console.line(f"{row.namespace}/{row.name}" if has_namespace else row.name)
        return
    if not rows and has_header:
        console.line("No TrainJobs found.")
        return
    columns = (*COLUMNS, *WIDE) if format_ == "wide" else COLUMNS
    first = 0 if has_namespace else 1
    cells = []
    for row in rows:
        common = (
            row.namespace,
            row.name,
            row.phase,
            row.progress,
            row.remaining,
            str(row.attempt or ""),
            row.waits_for,
        )
        cells.append([*common, describe_age(row.created, now), row.goodput, row.workers, row.head, row.checkpoint])
    table = [[cell or "-" for cell in row[first : len(columns)]] for row in cells]
    console.table(columns[first:], table, has_header=has_header, is_cut=format_ != "wide")


async def _watch(
    options: argparse.Namespace, cluster: Cluster, console: Console, shown: dict[tuple[str, str], JobRow]
) -> None:
    """Prints a job when its row differs from the one that was printed last."""
    from railhead.client.rows import read_row

    def on_change(old: JobRow | None, new: JobRow | None) -> None:
        row = new or old
        assert row is not None
        key = (row.namespace, row.name)
        if new is None:
            shown.pop(key, None)
            (console if options.output in ("table", "wide") else Console(sys.stderr)).line(f"{row.name} is gone")
        elif shown.get(key) != new:
            shown[key] = new
            if options.output == "yaml":
                console.line("---")
            now, everywhere = cluster.client.clock.now(), cluster.scope is None
            print_rows([new], options.output, console, now=now, has_namespace=everywhere, has_header=False)

    await cluster.watch_jobs(options.selector, on_change, read_row)


async def show_status(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the screen of one job."""
    from railhead.client.outputs import Fact, JobScreen
    from railhead.client.summary import summarize

    snapshot = await cluster.read_snapshot(options.name)
    summary = summarize(snapshot)
    if options.output != "table":
        facts = tuple(Fact(name, value) for name, value in summary.facts)
        console.data(JobScreen(facts, summary.sections, summary.findings, snapshot.notes), options.output)
        return 0
    label = max(len(name) for name, _ in summary.facts) + 2
    for name, value in summary.facts:
        _print_fact(console, name.ljust(label), value)
    console.line()
    _print_findings(summary.findings, console)
    for section in summary.sections:
        console.line()
        console.line(section.title)
        for line in section.lines:
            console.paragraph(line, "  ")
    _print_notes(snapshot.notes, console)
    return 0


def _print_fact(console: Console, label: str, value: str) -> None:
    if console.width is None or len(label) + len(value) <= console.width:
        console.line(f"{label}{value}")
        return
    console.line(label.rstrip())
    console.paragraph(value, "  ")


async def show_why(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the findings."""
    from railhead.client.outputs import Explanation
    from railhead.client.why import explain_job

    snapshot = await cluster.read_snapshot(options.name)
    findings = explain_job(snapshot)
    if options.output != "table":
        console.data(Explanation(tuple(findings), snapshot.notes), options.output)
        return 0
    phase, attempt = snapshot.status.phase or "not seen by an operator", snapshot.status.attempt
    console.line(f"{snapshot.name}: {phase}" + (f", attempt {attempt}" if attempt else ""))
    console.line()
    _print_findings(findings, console)
    _print_notes(snapshot.notes, console)
    return 0


def _print_findings(findings: Iterable[Finding], console: Console) -> None:
    for number, finding in enumerate(findings):
        if number:
            console.line()
        since = f" since {finding.since}" if finding.since else ""
        console.paragraph(f"{finding.reason}{since}: {finding.cause}")
        if finding.message:
            console.paragraph(finding.message, "  ")
        console.paragraph(f"What to do: {finding.remedy}", "  ")


def _print_notes(notes: Iterable[str], console: Console) -> None:
    for note in notes:
        console.line()
        console.paragraph(note)


async def show_timeline(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints the timeline."""
    from railhead.client.outputs import Timeline
    from railhead.client.timeline import build_timeline

    snapshot = await cluster.read_snapshot(options.name)
    moments = build_timeline(snapshot, await _read_journal(options, cluster, snapshot) if options.journal else ())
    if options.output != "table":
        console.data(Timeline(tuple(moments), snapshot.notes), options.output)
        return 0
    columns = (Column("TIME"), Column("WHAT"), Column("DETAILS", can_be_cut=True), Column("SOURCE", drop=1))
    console.table(columns, [(each.time, each.what, each.details, each.source) for each in moments])
    _print_notes(snapshot.notes, console)
    return 0


async def _read_journal(options: argparse.Namespace, cluster: Cluster, snapshot: Snapshot) -> list[Moment]:
    from railhead.client.journal import read_moments
    from railhead.client.run_files import read_folder
    from railhead.contract.run_folder import OWN_FOLDER
    from railhead.history import JOURNAL, read_history

    async with open_files(options, cluster, snapshot.job) as files:
        journal = read_history(
            await read_folder(files, f"{OWN_FOLDER}/{JOURNAL}"), job=str(snapshot.job["metadata"]["uid"])
        )
    return list(read_moments(journal))
