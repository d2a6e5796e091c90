"""Many jobs that are simply there: what they cost in memory and idle CPU, what one event costs, how long a start takes.

The jobs are copies of real ones (`templates.py`), written while the operator is stopped. None of them needs a write.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Template as Text

from benchmarks.scale.api import Api, Object, connect
from benchmarks.scale.metrics import estimate_quantile, read_buckets, select_writes
from benchmarks.scale.plane import NAMESPACE, PODS
from benchmarks.scale.process import Process, installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, group_turns
from benchmarks.scale.templates import Templates, make_templates, write_copies
from railhead.local.control_plane import ControlPlane

IDLE_SECONDS = 25.0
SETTLE_SECONDS = 2.0
EVENTS_PER_SECOND = 100.0


@dataclass(frozen=True)
class Mix:
    """How many jobs of each kind."""

    running: int
    suspended: int
    finished: int

    @staticmethod
    def split(jobs: int, *, running: float, suspended: float) -> Mix:
        """By percentages; the rest is finished."""
        run, hold = round(jobs * running / 100), round(jobs * suspended / 100)
        return Mix(run, hold, max(jobs - run - hold, 0))


@dataclass(frozen=True)
class Start:
    """From the operator's start. `reconciled`: until no key was due any more; None for one without that metric."""

    ready: float
    reconciled: float | None
    cpu_seconds: float
    writes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """Of one turn. Seconds, CPU milliseconds per event, MiB."""

    name: str
    jobs: int
    mix: Mix
    start: Start
    restart: Start
    rss_ready: float
    rss_idle: float
    rss_after: float
    rss_peak: float
    idle_share: float
    ms_per_job_event: float | None
    ms_per_pod_event: float | None
    pass_p50: float | None
    pass_p99: float | None


async def run_present(plane: ControlPlane, subject: Subject, *, mix: Mix, workers: int, events: int) -> Figures:
    """One turn with one number of jobs."""
    with installed(plane, subject) as process:
        async with connect(plane) as api:
            process.start()
            await process.wait_ready()
            templates = await make_templates(api, subject, process, workers=workers)
            process.stop()
            names = await _fill(api, subject, templates, mix)
            start = await _start(api, process, subject)
            rss_ready = process.memory()
            idle = await process.measure_idle(IDLE_SECONDS)
            rss_idle, before = process.memory(), read_buckets(await process.read_metrics(), subject.pass_seconds)
            path = Text(subject.jobs).substitute(namespace=NAMESPACE)
            jobs = [f"{path}/{name}" for name in names]
            pods = await _find_pods(api)
            ms_per_job = await _change(api, process, jobs, events=events, idle=idle)
            ms_per_pod = await _change(api, process, pods, events=events, idle=idle)
            passes = read_buckets(await process.read_metrics(), subject.pass_seconds)
            passes.subtract(before)
            rss_after, rss_peak = process.memory(), process.memory("VmHWM")
            process.stop()
            return Figures(
                name=subject.name,
                jobs=len(names),
                mix=mix,
                start=start,
                restart=await _start(api, process, subject),
                rss_ready=rss_ready,
                rss_idle=rss_idle,
                rss_after=rss_after,
                rss_peak=rss_peak,
                idle_share=idle,
                ms_per_job_event=ms_per_job,
                ms_per_pod_event=ms_per_pod,
                pass_p50=estimate_quantile(passes, 0.5),
                pass_p99=estimate_quantile(passes, 0.99),
            )


async def _fill(api: Api, subject: Subject, templates: Templates, mix: Mix) -> list[str]:
    """Writes the jobs. Their names, in an order that mixes the kinds."""
    finished = templates.finished or templates.suspended
    kinds = {"run": (templates.running, mix.running), "hold": (templates.suspended, mix.suspended)}
    named: list[tuple[float, str]] = []
    for kind, (template, number) in {**kinds, "done": (finished, mix.finished)}.items():
        names = [f"{kind}-{n}" for n in range(number)]
        await write_copies(api, subject, template, names)
        named += [(n / number, name) for n, name in enumerate(names)]
    return [name for _, name in sorted(named)]


async def _find_pods(api: Api) -> list[str]:
    items = (await api.request("GET", f"{PODS}?fieldSelector=status.phase=Running"))["items"]
    return [f"{PODS}/{pod['metadata']['name']}/status" for pod in items]


async def _start(api: Api, process: Process, subject: Subject) -> Start:
    """Starts the operator and waits until it has reconciled all jobs."""
    before, began = await api.count_requests(), time.monotonic()
    process.start()
    await process.wait_ready()
    ready = time.monotonic() - began
    reconciled = await process.wait_idle() - began if subject.queue_depth else None
    cpu = process.used
    await asyncio.sleep(SETTLE_SECONDS)  # a late write counts, too
    writes = select_writes(await api.count_requests() - before)
    return Start(ready, reconciled, cpu, dict(writes))


async def _change(api: Api, process: Process, paths: list[str], *, events: int, idle: float) -> float | None:
    """Changes one object after the other at a fixed rate. CPU milliseconds of the operator for each, beside idling.

    A job gets another annotation, a pod another message in its status. None without objects.
    """
    if not paths:
        return None
    used, began = process.used, time.monotonic()
    for number in range(events):
        await asyncio.sleep(began + number / EVENTS_PER_SECOND - time.monotonic())
        path = paths[number % len(paths)]
        change: Object = {"metadata": {"annotations": {"example.com/change": str(number)}}}
        await api.merge(path, {"status": {"message": f"change {number}"}} if path.endswith("/status") else change)
    await asyncio.sleep(SETTLE_SECONDS)
    return 1000 * (process.used - used - idle * (time.monotonic() - began)) / events


def describe(figures: Sequence[Figures]) -> list[str]:
    """Medians of all turns of the same operator and size, then what was written at the starts."""
    lines = [
        f"{'':16}{'jobs':>7}{'start s: ready, reconciled, CPU':>33}{'restart s':>11}"
        f"{'RSS MiB: ready, idle, after, peak':>35}{'idle %':>8}{'ms/event: job, pod':>20}{'pass ms p50, p99':>18}"
    ]
    groups = group_turns(figures)
    for (jobs, name), turns in groups.items():
        lines.append(
            f"{name:16}{jobs:7}"
            f"{describe_medians(turns, lambda t: _seconds(t.start), digits=1):>33}"
            f"{describe_medians(turns, lambda t: [t.restart.reconciled], digits=1):>11}"
            f"{describe_medians(turns, lambda t: [t.rss_ready, t.rss_idle, t.rss_after, t.rss_peak], digits=0):>35}"
            f"{describe_medians(turns, lambda t: [t.idle_share], digits=2, factor=100):>8}"
            f"{describe_medians(turns, lambda t: [t.ms_per_job_event, t.ms_per_pod_event], digits=2):>20}"
            f"{describe_medians(turns, lambda t: [t.pass_p50, t.pass_p99], digits=1, factor=1000):>18}"
        )
    for (jobs, name), turns in groups.items():
        written = sum((Counter(t.start.writes) + Counter(t.restart.writes) for t in turns), Counter[str]())
        what = ", ".join(f"{each} {number}" for each, number in sorted(written.items())) or "none"
        lines.append(f"writes of {name} at {2 * len(turns)} starts with {jobs} jobs: {what}")
    return lines


def _seconds(start: Start) -> list[float | None]:
    return [start.ready, start.reconciled, start.cpu_seconds]
