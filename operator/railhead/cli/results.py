"""`railhead metrics` and `railhead checkpoints`: what a run has left in its folder, with its pods or without."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

from railhead.cli.cluster_command import open_files
from railhead.cli.output import Column, Console, remark
from railhead.client.cluster.connection import Cluster
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.outputs import Checkpoints, ReportList
from railhead.client.run.checkpoints import CheckpointRow, choose_checkpoint
from railhead.client.run.curves import Curve, RankReport, build_curves, compute_range, draw, drop_repeated, write_csv
from railhead.client.run.plot import check_plot, write_plot
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_results import (
    download_checkpoint,
    find_best,
    read_checkpoints,
    read_metrics,
    read_recorded_best,
    verify_checkpoints,
)
from railhead.client.run.run_storage import open_copy
from railhead.client.submit.code_files import format_size


async def do_metrics(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints a line per curve, or all reports as CSV, JSON or YAML; returns 1 if no report has such a metric."""
    if options.plot:
        check_plot(options.plot)
    reports: list[RankReport] = []
    gaps: list[str] = []
    for name in options.names:
        job = await cluster.get_job(name)
        async with open_files(options, cluster, job) as files:
            found, missing = await read_metrics(files, name, options.metric)
        reports += found
        gaps += missing
    return _print_reports(reports, gaps, options, console)


def do_metrics_of_folder(options: argparse.Namespace) -> int:
    """Prints the same of --folder, without a cluster: the name is only a title."""
    if len(options.names) > 1:
        raise ClientError("--folder is the run of one job; name one", ExitCode.USAGE)
    if options.plot:
        check_plot(options.plot)
    files = open_copy(options.folder)
    reports, gaps = asyncio.run(read_metrics(files, options.names[0], options.metric))
    return _print_reports(reports, gaps, options, Console())


def _print_reports(
    reports: Sequence[RankReport], gaps: Sequence[str], options: argparse.Namespace, console: Console
) -> int:
    code = ExitCode.DONE
    if not any(report.metrics for report in reports):
        code = ExitCode.FAILED
    if options.plot:
        write_plot(build_curves(drop_repeated(reports)), options.plot)
        remark(f"wrote {options.plot}")
    if console.print_if_data(ReportList(tuple(reports), tuple(gaps)), options.output):
        return code
    if options.output == "csv":
        for line in write_csv(reports).split("\n"):
            console.line(line)
    else:
        _print_curves(build_curves(drop_repeated(reports)), console)
    for gap in gaps:
        remark(gap)
    return code


def _print_curves(curves: Sequence[Curve], console: Console) -> None:
    width = min(60, max(16, (console.width or 100) - 60))
    rows = []
    for curve in curves:
        low, high = compute_range([each for each in curves if each.metric == curve.metric])
        own_low, own_high = compute_range([curve])
        line = draw(curve.values, width, low=low, high=high)
        rows.append((curve.metric, curve.job, line, *(f"{n:.4g}" for n in (curve.values[-1], own_low, own_high))))
    columns = (Column("METRIC", can_be_cut=True), Column("JOB", can_be_cut=True), Column("CURVE"), Column("LAST"))
    if rows:
        console.table((*columns, Column("LOWEST", drop=2), Column("HIGHEST", drop=1)), rows)


async def do_checkpoints(options: argparse.Namespace, cluster: Cluster, console: Console) -> int:
    """Prints a line per checkpoint, or copies one; returns 1 if one that was checked is lost or damaged."""

    async def read_best() -> str:
        return find_best(await cluster.get_job(options.name))

    job = await cluster.get_job(options.name)
    async with open_files(options, cluster, job) as files:
        return await _show_checkpoints(files, read_best, options, console)


def do_checkpoints_of_folder(options: argparse.Namespace) -> int:
    """Prints or copies the same of --folder, without a cluster."""
    files = open_copy(options.folder)

    async def read_best() -> str:
        return await read_recorded_best(files)

    return asyncio.run(_show_checkpoints(files, read_best, options, Console()))


async def _show_checkpoints(
    files: RunFiles, read_best: Callable[[], Awaitable[str]], options: argparse.Namespace, console: Console
) -> int:
    if options.download:
        await download_checkpoint(files, read_best, options.checkpoint, options.download, remark)
        console.line(str(options.download))
        return 0
    rows = await read_checkpoints(files, await read_best())
    if options.checkpoint:
        rows = [choose_checkpoint(rows, options.checkpoint)]
    if options.verify:
        rows = await verify_checkpoints(files, rows)
    if not console.print_if_data(Checkpoints(tuple(rows)), options.output):
        print_checkpoints(options.name, rows, console)
    return int(any(row.verification and (row.verification.damage or _is_lost(row)) for row in rows))


def _is_lost(row: CheckpointRow) -> bool:
    return not row.files and not row.is_empty


def _write_size(row: CheckpointRow) -> str:
    if _is_lost(row):
        return "lost"
    if row.is_empty:
        return "empty"
    return format_size(row.bytes)


def print_checkpoints(job: str, rows: Sequence[CheckpointRow], console: Console) -> None:
    """Prints a line per checkpoint, and what is wrong with those that were verified."""
    if not rows:
        console.line(f"The run of {job} has no checkpoints.")
        return

    def describe(row: CheckpointRow) -> str:
        if not row.verification or not row.files:
            return "-"
        if row.verification.damage:
            state = "damaged"
        elif row.verification.checked:
            state = "intact"
        else:
            state = "unknown"
        return f"{state}, {row.verification.checked} of {row.files} checked"

    are_verified = any(row.verification for row in rows)
    cells = [
        (
            row.name,
            row.time or "-",
            "-" if row.step is None else str(row.step),
            _write_size(row),
            " ".join(word for word, holds in (("best", row.is_best), ("newest", row.is_newest)) if holds),
            *([describe(row)] if are_verified else []),
            ", ".join(f"{key} {value}" for key, value in row.metrics.items()),
        )
        for row in rows
    ]
    columns = [Column("NAME"), Column("TIME", drop=1), Column("STEP"), Column("SIZE"), Column("IS")]
    columns += [Column("FILES")] if are_verified else []
    console.table([*columns, Column("METRICS", can_be_cut=True)], cells)
    for row in rows:
        for damage in row.verification.damage if row.verification else ():
            console.paragraph(f"{row.name}: {damage}")
