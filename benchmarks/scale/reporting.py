"""Running jobs whose drivers report and commit: how often the status is written, and how soon a checkpoint is in it.

One process here stands for all drivers, with a connection each. It competes with the operator and the API server for
this machine's processors.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Template as Text

import aiohttp

from benchmarks.scale.api import Api, connect
from benchmarks.scale.bare import create_jobs
from benchmarks.scale.driver import Driver, create_token, find_authority
from benchmarks.scale.kubelet import run_pods
from benchmarks.scale.plane import NAMESPACE
from benchmarks.scale.process import Process, installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, find_percentile, group_turns
from benchmarks.scale.templates import find_pods
from railhead.local.control_plane import ControlPlane

REPORT_SECONDS = 0.5
COMMIT_SECONDS = 60.0
START_SECONDS, START_SECONDS_PER_JOB = 60.0, 0.2  # at most, until all jobs are Running
WARM_UP_SECONDS = 10.0
LAST_SECONDS = 15.0  # for the last checkpoints to appear


@dataclass(frozen=True)
class Pace:
    """When drivers report.

    Attributes:
        report_seconds: between two reports.
        commit_seconds: between two checkpoints.
        is_patient: whether they keep new metrics as long as the endpoint asks for, as real drivers do; a new
            checkpoint does not wait.
    """

    report_seconds: float = REPORT_SECONDS
    commit_seconds: float = COMMIT_SECONDS
    is_patient: bool = False


@dataclass(frozen=True)
class Figures:
    """Of one turn.

    Attributes:
        jobs: that report.
        seconds: between the first count and the last.
        reports: answered per second, and by status in all.
        status_writes: per second, of all jobs together, by the API server's count.
        commits: checkpoints that were reported; `missing` of them did not appear, and no later one of their job either.
        lag_p50, lag_p99, lag_max: seconds from the report of a commit until a watch shows it, or a later one.
        cpu_share: of one processor, of the operator.
    """

    name: str
    jobs: int
    seconds: float
    reports: float
    status_writes: float
    commits: int
    missing: int
    lag_p50: float | None
    lag_p99: float | None
    lag_max: float | None
    cpu_share: float
    rss: float
    answers: dict[int, int] = field(default_factory=dict)


class Lags:
    """When commits were reported, and when the status showed them."""

    def __init__(self) -> None:
        self._reported: dict[str, dict[int, float]] = {}
        self.seconds: list[float] = []

    def report(self, job: str, index: int, *, at: float) -> None:
        self._reported.setdefault(job, {})[index] = at

    def show(self, job: str, index: int, *, at: float) -> None:
        """A checkpoint in the status answers for the earlier ones of its job."""
        waiting = self._reported.get(job, {})
        for each in [each for each in waiting if each <= index]:
            self.seconds.append(at - waiting.pop(each))

    def clear(self) -> None:
        """Forgets what was reported so far."""
        self._reported.clear()
        self.seconds.clear()

    @property
    def missing(self) -> int:
        return sum(len(waiting) for waiting in self._reported.values())

    def quantile(self, percent: int) -> float | None:
        """None when nothing has appeared."""
        if len(self.seconds) < 2:
            return self.seconds[0] if self.seconds else None
        return find_percentile(self.seconds, percent)


async def run_reporting(
    plane: ControlPlane, subject: Subject, *, jobs: int, workers: int, seconds: float, pace: Pace
) -> Figures:
    """Starts the jobs, and lets them report for this long."""
    with installed(plane, subject) as process:
        process.start()
        async with connect(plane) as api:
            await process.wait_ready()
            drivers = await start_drivers(api, subject, process, jobs=jobs, workers=workers)
            lags, path = Lags(), Text(subject.jobs).substitute(namespace=NAMESPACE)
            running, all_run, stop = set[str](), asyncio.Event(), asyncio.Event()

            def look(line: bytes) -> None:
                job = json.loads(line)["object"]
                status = job.get("status", {})
                index = (status.get("checkpoint") or {}).get("index", -1)
                lags.show(job["metadata"]["name"], index, at=time.monotonic())
                if status.get("phase") == "Running":
                    running.add(job["metadata"]["name"])
                if len(running) == jobs:
                    all_run.set()

            async with api.watching(path, look), asyncio.TaskGroup() as group:
                authority = await find_authority(api)
                for driver in drivers:
                    group.create_task(_drive(driver, authority, lags, pace=pace, stop=stop))
                # The first report of each is written before any checkpoint.
                await asyncio.wait_for(all_run.wait(), START_SECONDS + jobs * START_SECONDS_PER_JOB)
                await asyncio.sleep(WARM_UP_SECONDS)
                lags.clear()
                before, used, began = await _count(api, subject, drivers), process.used, time.monotonic()
                await asyncio.sleep(seconds)
                after, took = await _count(api, subject, drivers), time.monotonic() - began
                used = process.used - used
                stop.set()
                await asyncio.sleep(LAST_SECONDS)
            return Figures(
                name=subject.name,
                jobs=jobs,
                seconds=took,
                reports=(after[0] - before[0]) / took,
                status_writes=(after[1] - before[1]) / took,
                commits=len(lags.seconds) + lags.missing,
                missing=lags.missing,
                lag_p50=lags.quantile(50),
                lag_p99=lags.quantile(99),
                lag_max=max(lags.seconds, default=None),
                cpu_share=used / took,
                rss=process.memory(),
                answers=dict(sum((driver.answers for driver in drivers), Counter[int]())),
            )


async def start_drivers(api: Api, subject: Subject, process: Process, *, jobs: int, workers: int) -> list[Driver]:
    """All jobs are created and their pods run; none has reported yet."""
    await create_jobs(api, subject, jobs=jobs, workers=workers)
    pods = await find_pods(api, "job-")
    await run_pods(api, pods)
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    heads = {_job_of(pod["metadata"]): pod for pod in pods if pod["metadata"]["name"].endswith("-head")}
    found = {job["metadata"]["uid"]: job for job in (await api.request("GET", path))["items"]}
    return [
        Driver(found[uid], await create_token(api, head), workers, process.reports, Counter())
        for uid, head in heads.items()
    ]


def _job_of(metadata: dict[str, object]) -> str:
    owners = metadata["ownerReferences"]
    assert isinstance(owners, list)
    return str(owners[0]["uid"])


async def _count(api: Api, subject: Subject, drivers: Sequence[Driver]) -> tuple[int, int]:
    """Reports that were answered, and status writes."""
    requests = await api.count_requests()
    writes = sum(requests[f"{verb} {subject.name_of_jobs}/status"] for verb in ("PATCH", "PUT", "APPLY"))
    return sum(driver.answers.total() for driver in drivers), writes


async def _drive(driver: Driver, authority: ssl.SSLContext, lags: Lags, *, pace: Pace, stop: asyncio.Event) -> None:
    """Reports until `stop`, each driver at its own moments."""
    connector = aiohttp.TCPConnector(ssl=authority, limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        began = time.monotonic() + random.uniform(0, pace.report_seconds)
        number, metrics_at, commit_at = 0, began, began + random.uniform(0, pace.commit_seconds)
        while not stop.is_set():
            await asyncio.sleep(began + number * pace.report_seconds - time.monotonic())
            number, now = number + 1, time.monotonic()
            if now >= commit_at:
                lags.report(driver.name, driver.commit(), at=now)
                commit_at += pace.commit_seconds
            elif now < metrics_at:
                continue
            try:
                await driver.report(session)
            except aiohttp.ClientError:
                driver.answers[0] += 1
            metrics_at = now + (driver.next_seconds if pace.is_patient else 0.0)


def describe(figures: Sequence[Figures]) -> list[str]:
    """Medians of all turns of the same operator and size, then the answers of the report endpoint."""
    lines = [
        f"{'':16}{'jobs':>6}{'reports/s':>11}{'status writes/s':>17}{'commits (missing)':>19}"
        f"{'commit to status s p50, p99, max':>34}{'CPU %':>8}{'RSS MiB':>9}"
    ]
    for (jobs, name), turns in group_turns(figures).items():
        counted = f"{sum(t.commits for t in turns)} ({sum(t.missing for t in turns)})"
        lines.append(
            f"{name:16}{jobs:6}{describe_medians(turns, lambda t: [t.reports], digits=0):>11}"
            f"{describe_medians(turns, lambda t: [t.status_writes], digits=1):>17}{counted:>19}"
            f"{describe_medians(turns, lambda t: [t.lag_p50, t.lag_p99, t.lag_max], digits=2):>34}"
            f"{describe_medians(turns, lambda t: [t.cpu_share], digits=1, factor=100):>8}"
            f"{describe_medians(turns, lambda t: [t.rss], digits=0):>9}"
        )
        answers = sum((Counter(t.answers) for t in turns), Counter[int]())
        counted = ", ".join(f"{code} {number}" for code, number in sorted(answers.items()))
        lines.append(f"answers of {name}, {jobs} jobs: {counted}")
    return lines
