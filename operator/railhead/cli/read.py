"""`railhead status`, `why` and `timeline`: what a job does, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from railhead.api.run_status import list_uids
from railhead.cli.cluster_command import open_files
from railhead.cli.output import Column, Console
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.summary import summarize
from railhead.client.explain.timeline import Moment, build_timeline, read_moments
from railhead.client.explain.why import Finding, explain_job
from railhead.client.outputs import Explanation, Timeline
from railhead.client.run.run_files import read_folder
from railhead.contract.run_folder import OWN_FOLDER
from railhead.history import JOURNAL, read_history


async def do_status(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    screen = summarize(await cluster.read_snapshot(options.name))
    if console.print_if_data(screen, options.output):
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


async def do_why(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    snapshot = await cluster.read_snapshot(options.name)
    findings = explain_job(snapshot)
    if console.print_if_data(Explanation(tuple(findings), snapshot.notes), options.output):
        return 0
    phase = snapshot.status.phase or "not seen by an operator"
    attempt = snapshot.status.attempt
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


async def do_timeline(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    snapshot = await cluster.read_snapshot(options.name)
    moments = build_timeline(snapshot, await _read_journal(options, cluster, snapshot) if options.journal else ())
    if console.print_if_data(Timeline(tuple(moments), snapshot.notes), options.output):
        return 0
    columns = (Column("TIME"), Column("WHAT"), Column("DETAILS", can_be_cut=True), Column("SOURCE", drop=1))
    console.table(columns, [(each.time, each.what, each.details, each.source) for each in moments])
    _print_notes(snapshot.notes, console)
    return 0


async def _read_journal(options: argparse.Namespace, cluster: Cluster, snapshot: JobSnapshot) -> list[Moment]:
    async with open_files(options, cluster, snapshot.job) as files:
        segments = await read_folder(files, f"{OWN_FOLDER}/{JOURNAL}")
    uids = list_uids(str(snapshot.job["metadata"]["uid"]), snapshot.status.run)
    return list(read_moments(read_history(segments, job=uids)))
