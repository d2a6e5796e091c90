"""The turns of each mode: every operator takes its turn with every size in every round."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.scale import bare, cluster, fairness, present, reporting
from benchmarks.scale.api import Object
from benchmarks.scale.kwok import resolve_kwok
from benchmarks.scale.plane import BARE, start_plane
from benchmarks.scale.subject import Subject
from railhead.local.control_plane.binaries import resolve
from railhead.local.control_plane.servers import ALL

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Result:
    """Of all turns of one mode: a table, and the figures for the JSON file."""

    mode: str
    table: list[str]
    turns: Sequence[DataclassInstance]


def bench(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    """In the mode that the options name."""
    if options.present:
        return _bench_present(subjects, options)
    if options.reporting:
        return _bench_reporting(subjects, options)
    if options.fairness:
        return _bench_fairness(subjects, options)
    if options.cluster:
        return _bench_cluster(subjects, options)
    return _bench_bare(subjects, options)


def _take_turns(
    sizes: Sequence[int], subjects: Sequence[Subject], options: argparse.Namespace
) -> Iterator[tuple[int, Subject]]:
    for number in range(1, options.rounds + 1):
        for size in sizes:
            for subject in subjects:
                echo(f"round {number}: {subject.name}, {size} jobs")
                yield size, subject


def _bench_bare(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    """After the last operator the floor takes its turn, with the pods of the first one."""
    binaries, figures, pods = resolve(echo), list[bare.Figures](), list[Object]()
    for jobs, subject in _take_turns(options.jobs, subjects, options):
        with start_plane(binaries, BARE) as plane:
            turn, found = asyncio.run(bare.run_jobs(plane, subject, jobs=jobs, workers=options.workers))
        figures.append(turn)
        if subject == subjects[0]:
            pods = found
        if subject == subjects[-1]:
            with start_plane(binaries, BARE) as plane:
                figures.append(asyncio.run(bare.run_floor(plane, pods, jobs=jobs)))
    return Result("bare", bare.describe(figures), figures)


def _bench_present(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, figures = resolve(echo), list[present.Figures]()
    for jobs, subject in _take_turns(options.present, subjects, options):
        mix = present.Mix.split(jobs, running=options.running, suspended=options.suspended)
        with start_plane(binaries, BARE) as plane:
            run = present.run_present(plane, subject, mix=mix, workers=options.workers, events=options.events)
            figures.append(asyncio.run(run))
    return Result("present", present.describe(figures), figures)


def _bench_reporting(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, figures = resolve(echo), list[reporting.Figures]()
    commits = options.every if options.commit_per_report else reporting.COMMIT_SECONDS
    pace = reporting.Pace(options.every, commits, is_patient=options.patient)
    for jobs, subject in _take_turns(options.reporting, subjects, options):
        with start_plane(binaries, BARE) as plane:
            run = reporting.run_reporting(
                plane, subject, jobs=jobs, workers=options.workers, seconds=options.seconds, pace=pace
            )
            figures.append(asyncio.run(run))
    return Result("reporting", reporting.describe(figures), figures)


def _bench_fairness(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, figures = resolve(echo), list[fairness.Figures]()
    for jobs, subject in _take_turns(options.fairness, subjects, options):
        with start_plane(binaries, BARE) as plane:
            run = fairness.run_fairness(plane, subject, jobs=jobs, workers=options.workers, gang=options.gang)
            figures.append(asyncio.run(run))
    return Result("fairness", fairness.describe(figures), figures)


def _bench_cluster(subjects: Sequence[Subject], options: argparse.Namespace) -> Result:
    binaries, kwok, figures = resolve(echo), resolve_kwok(echo), list[cluster.Figures]()
    for jobs, subject in _take_turns(options.jobs, subjects, options):
        with start_plane(binaries, ALL, cluster.CLIENT_OPTIONS) as plane:
            run = cluster.run_cluster(
                plane, subject, kwok=kwok, nodes=options.nodes, jobs=jobs, workers=options.workers
            )
            figures.append(asyncio.run(run))
    return Result("cluster", cluster.describe(figures), figures)


def echo(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
