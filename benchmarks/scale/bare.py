"""Many jobs at once, no scheduler or kubelets: how fast an operator creates their pods; and the floor, pods alone."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from string import Template

from benchmarks.machine import read_used
from benchmarks.scale.api import Api, Object, connect
from benchmarks.scale.counting import counting
from benchmarks.scale.metrics import estimate_quantile, read_buckets
from benchmarks.scale.plane import NAMESPACE, PODS, prepare
from benchmarks.scale.process import installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, group_turns
from railhead.local.control_plane import ControlPlane

SETTLE_SECONDS = 3.0
IDLE_SECONDS = 10.0
FLOOR = "floor"


@dataclass(frozen=True)
class Figures:
    """Of one turn. Seconds, CPU seconds of the operator and of the API server, MiB; requests per job, by the API
    server's count.

    `pass_p50` and `pass_p99`: seconds of a pass, by the operator's own histogram; None without one. The floor has
    no figures of an operator.
    """

    name: str
    jobs: int
    pods: int
    seconds: float
    pods_per_second: float
    cpu_seconds: float
    idle_share: float | None = None
    rss_before: float | None = None
    rss_after: float | None = None
    rss_peak: float | None = None
    pass_p50: float | None = None
    pass_p99: float | None = None
    requests: dict[str, float] = field(default_factory=dict)
    server_cpu_seconds: float = 0.0


async def run_jobs(plane: ControlPlane, subject: Subject, *, jobs: int, workers: int) -> tuple[Figures, list[Object]]:
    """Creates the jobs and waits for all their pods. The figures, and the pods of the first job."""
    with installed(plane, subject) as process:
        process.start()
        async with connect(plane) as api:
            await process.wait_ready()
            await asyncio.sleep(SETTLE_SECONDS)
            before, used, rss_before = await api.count_requests(), process.used, process.memory()
            used_before = await api.read_used()
            pods = jobs * (workers + subject.pods_per_job)
            seconds = await create_jobs(api, subject, jobs=jobs, workers=workers)
            used_by_server = await api.read_used() - used_before
            await asyncio.sleep(SETTLE_SECONDS)  # writes that follow the last pod count too
            used_all, requests = process.used - used, await api.count_requests() - before
            passes = read_buckets(await process.read_metrics(), subject.pass_seconds)
            found = await api.request("GET", f"{PODS}?limit={workers + 1}")
            return Figures(
                name=subject.name,
                jobs=jobs,
                pods=pods,
                seconds=seconds,
                pods_per_second=pods / seconds,
                cpu_seconds=used_all,
                server_cpu_seconds=used_by_server,
                idle_share=await process.measure_idle(IDLE_SECONDS),
                rss_before=rss_before,
                rss_after=process.memory(),
                rss_peak=process.memory("VmHWM"),
                pass_p50=estimate_quantile(passes, 0.5),
                pass_p99=estimate_quantile(passes, 0.99),
                requests=_per_job(requests, jobs, own=f"POST {subject.name_of_jobs}"),
            ), list(found["items"])


async def create_jobs(api: Api, subject: Subject, *, jobs: int, workers: int) -> float:
    """Creates them and waits until all their pods exist. The seconds that it takes."""
    path = Template(subject.jobs).substitute(namespace=NAMESPACE)
    bodies = [subject.build_job(f"job-{n}", namespace=NAMESPACE, workers=workers) for n in range(jobs)]
    async with counting(api, jobs * (workers + subject.pods_per_job)) as complete:
        began = time.monotonic()
        await api.for_all(("POST", path, body) for body in bodies)
        return await complete.wait() - began


def _per_job(requests: Counter[str], jobs: int, *, own: str) -> dict[str, float]:
    """Without those of this benchmark, and without what does not grow with the jobs."""
    counted = requests - Counter({own: jobs})
    return {what: round(number / jobs, 2) for what, number in sorted(counted.items()) if number >= 0.02 * jobs}


async def run_floor(plane: ControlPlane, pods: list[Object], *, jobs: int) -> Figures:
    """The same pods, created by a plain client that knows them in advance."""
    prepare(plane)
    bodies = [_copy(pod, name=f"floor-{job}-{n}") for job in range(jobs) for n, pod in enumerate(pods)]
    async with connect(plane) as api, counting(api, len(bodies)) as complete:
        used, used_before, began = read_used(os.getpid()), await api.read_used(), time.monotonic()
        await api.for_all(("POST", PODS, body) for body in bodies)
        seconds = await complete.wait() - began
        cpu, used_by_server = read_used(os.getpid()) - used, await api.read_used() - used_before
    return Figures(
        name=FLOOR,
        jobs=jobs,
        pods=len(bodies),
        seconds=seconds,
        pods_per_second=len(bodies) / seconds,
        cpu_seconds=cpu,
        server_cpu_seconds=used_by_server,
    )


def _copy(pod: Object, *, name: str) -> bytes:
    metadata = {key: pod["metadata"][key] for key in ("labels", "annotations") if key in pod["metadata"]}
    return json.dumps({"metadata": {**metadata, "name": name}, "spec": pod["spec"]}).encode()


def describe(figures: Sequence[Figures]) -> list[str]:
    """Medians of all turns of the same operator and size, then the requests per job."""
    lines = [
        f"{'':16}{'jobs':>6}{'pods/s':>8}{'of floor':>10}{'CPU s':>8}{'ms/pod':>8}{'server ms/pod':>15}{'idle %':>8}"
        f"{'pass ms p50, p99':>18}{'RSS MiB: start, after, peak':>30}"
    ]
    groups = group_turns(figures)
    for (jobs, name), turns in groups.items():
        floor = median(each.pods_per_second for each in groups[jobs, FLOOR])
        lines.append(
            f"{name:16}{jobs:6}{describe_medians(turns, lambda t: [t.pods_per_second], digits=0):>8}"
            f"{describe_medians(turns, lambda t: [t.pods_per_second], digits=2, factor=1 / floor):>10}"
            f"{describe_medians(turns, lambda t: [t.cpu_seconds], digits=1):>8}"
            f"{describe_medians(turns, lambda t: [t.cpu_seconds / t.pods], digits=2, factor=1000):>8}"
            f"{describe_medians(turns, lambda t: [t.server_cpu_seconds / t.pods], digits=2, factor=1000):>15}"
            f"{describe_medians(turns, lambda t: [t.idle_share], digits=2, factor=100):>8}"
            f"{describe_medians(turns, lambda t: [t.pass_p50, t.pass_p99], digits=1, factor=1000):>18}"
            f"{describe_medians(turns, lambda t: [t.rss_before, t.rss_after, t.rss_peak], digits=0):>30}"
        )
    for (jobs, name), turns in groups.items():
        if turns[-1].requests:
            counted = ", ".join(f"{what} {number:g}" for what, number in turns[-1].requests.items())
            total = sum(turns[-1].requests.values())
            lines.append(f"requests per job of {name}, {jobs} jobs: {total:.1f} ({counted})")
    return lines
