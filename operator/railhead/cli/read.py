"""`railhead status`, `why` and `timeline`: what a job does, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from railhead.cli.cluster_command import SCREEN, Subparsers, add_command, add_run_options, open_files
from railhead.cli.output import Column, Console

if TYPE_CHECKING:
    from railhead.client.cluster import Cluster
    from railhead.client.snapshot import Snapshot
    from railhead.client.timeline import Moment
    from railhead.client.why import Finding

STATUS = "Show one TrainJob on one screen: what it does, attempts, checkpoint, last events, what to do next."
WHY = "Explain why a TrainJob waits, is slow, hangs or failed, and what to do about it."
TIMELINE = "Show what happened to a TrainJob, in order; what is not known any more is marked as a gap."


def add_commands(commands: Subparsers[argparse.ArgumentParser]) -> None:
    add_command(commands, "status", STATUS, show_status, formats=SCREEN)
    add_command(commands, "why", WHY, show_why, formats=SCREEN)
    timeline = add_command(commands, "timeline", TIMELINE, show_timeline, formats=SCREEN)
    timeline.add_argument("--journal", action="store_true", help="also what the run's folder has of it")
    add_run_options(timeline)


async def show_status(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    from railhead.client.summary import summarize

    screen = summarize(await cluster.read_snapshot(options.name))
    if options.output != "table":
        console.data(screen, options.output)
        return 0
    label = max(len(fact.name) for fact in screen.facts) + 2
    for fact in screen.facts:
        _print_fact(console, fact.name.ljust(label), fact.value)
    console.line()
    _print_findings(screen.findings, console)
    for section in screen.sections:
        console.line()
        console.line(section.title)
        for line in section.lines:
            console.paragraph(line, "  ")
    _print_notes(screen.notes, console)
    return 0


def _print_fact(console: Console, label: str, value: str) -> None:
    if console.width is None or len(label) + len(value) <= console.width:
        console.line(f"{label}{value}")
        return
    console.line(label.rstrip())
    console.paragraph(value, "  ")


async def show_why(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
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
    from railhead.client.run_files import read_folder
    from railhead.client.timeline import read_moments
    from railhead.contract.run_folder import OWN_FOLDER
    from railhead.history import JOURNAL, read_history

    async with open_files(options, cluster, snapshot.job) as files:
        segments = await read_folder(files, f"{OWN_FOLDER}/{JOURNAL}")
    return list(read_moments(read_history(segments, job=str(snapshot.job["metadata"]["uid"]))))
