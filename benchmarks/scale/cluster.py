"""Many jobs at once in a whole cluster: scheduler, controller manager, and nodes that KWOK simulates.

The simulated kubelets run no program: pods become Running at once, and no head ever reports. So a job of Railhead
stays Starting, and when it would finish cannot be measured here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template as Text

from benchmarks.scale.api import Api, connect
from benchmarks.scale.bare import IDLE_SECONDS, SETTLE_SECONDS
from benchmarks.scale.counting import Complete
from benchmarks.scale.kwok import simulate_nodes
from benchmarks.scale.plane import NAMESPACE, PODS
from benchmarks.scale.process import Process, installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, group_turns
from railhead.local.control_plane import ControlPlane

# By default they limit themselves to 20 and 50 requests per second.
CLIENT_OPTIONS = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True)
class Figures:
    """Of one turn. Seconds since the first job was created, MiB of the operator.

    `deleted`: seconds from the deletion of all jobs until their pods are gone.
    """

    name: str
    jobs: int
    pods: int
    created: float
    running: float
    finished: float | None
    deleted: float
    running_per_second: float
    cpu_seconds: float
    idle_share: float
    rss_before: float
    rss_after: float
    rss_peak: float
    rss_deleted: float


class Stages:
    """Counts pods by one watch: created, running, finished, gone; each pod once in each."""

    def __init__(self, pods: int) -> None:
        self.created, self.running, self.finished, self.gone = (Complete(pods) for _ in range(4))
        self._seen: set[tuple[str, str]] = set()

    def look(self, line: bytes) -> None:
        event = json.loads(line)
        pod, phase = event["object"], event["object"].get("status", {}).get("phase")
        stages = {
            "created": (self.created, True),
            "running": (self.running, phase in ("Running", "Succeeded")),
            "finished": (self.finished, phase == "Succeeded"),
            "gone": (self.gone, event["type"] == "DELETED"),
        }
        for name, (complete, is_there) in stages.items():
            key = (name, pod["metadata"]["uid"])
            if is_there and key not in self._seen:
                self._seen.add(key)
                complete.count()


async def run_cluster(
    plane: ControlPlane, subject: Subject, *, kwok: Path, nodes: int, jobs: int, workers: int
) -> Figures:
    """One turn: all jobs are created, run, and are deleted."""
    with installed(plane, subject) as process:
        process.start()
        with simulate_nodes(plane, kwok, nodes=nodes):
            async with connect(plane) as api:
                await process.wait_ready()
                await asyncio.sleep(SETTLE_SECONDS)
                return await _run(api, subject, process, jobs=jobs, workers=workers)


async def _run(api: Api, subject: Subject, process: Process, *, jobs: int, workers: int) -> Figures:
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    bodies = [subject.build_job(f"job-{n}", namespace=NAMESPACE, workers=workers) for n in range(jobs)]
    stages = Stages(pods := jobs * (workers + subject.pods_per_job))
    async with api.watching(PODS, stages.look):
        used, rss_before, began = process.used, process.memory(), time.monotonic()
        await api.for_all(("POST", path, body) for body in bodies)
        created = await stages.created.wait() - began
        running = await stages.running.wait() - began
        finished = await stages.finished.wait() - began if subject.ends else None
        await asyncio.sleep(SETTLE_SECONDS)
        used, rss_after = process.used - used, process.memory()
        idle = await process.measure_idle(IDLE_SECONDS)
        began = time.monotonic()
        await api.request("DELETE", f"{path}?propagationPolicy=Background")
        deleted = await stages.gone.wait() - began
        await asyncio.sleep(SETTLE_SECONDS)
        return Figures(
            name=subject.name,
            jobs=jobs,
            pods=pods,
            created=created,
            running=running,
            finished=finished,
            deleted=deleted,
            running_per_second=pods / running,
            cpu_seconds=used,
            idle_share=idle,
            rss_before=rss_before,
            rss_after=rss_after,
            rss_peak=process.memory("VmHWM"),
            rss_deleted=process.memory(),
        )


def describe(figures: Sequence[Figures]) -> list[str]:
    """Medians of all turns of the same operator and size."""
    lines = [
        f"{'':16}{'jobs':>6}{'pods: s until created, running':>32}{'running/s':>11}{'finished s':>12}{'deleted s':>11}"
        f"{'CPU s':>8}{'idle %':>8}{'RSS MiB: start, full, peak, deleted':>37}"
    ]
    for (jobs, name), turns in group_turns(figures).items():
        lines.append(
            f"{name:16}{jobs:6}{describe_medians(turns, lambda t: [t.created, t.running], digits=1):>32}"
            f"{describe_medians(turns, lambda t: [t.running_per_second], digits=0):>11}"
            f"{describe_medians(turns, lambda t: [t.finished], digits=1):>12}"
            f"{describe_medians(turns, lambda t: [t.deleted], digits=1):>11}"
            f"{describe_medians(turns, lambda t: [t.cpu_seconds], digits=1):>8}"
            f"{describe_medians(turns, lambda t: [t.idle_share], digits=2, factor=100):>8}"
            f"{describe_medians(turns, _memory, digits=0):>37}"
        )
    if any(each.finished is None for each in figures):
        lines.append(
            "finished -: not measured. Simulated kubelets run no program, so these jobs do not end by themselves."
        )
    return lines


def _memory(turn: Figures) -> list[float | None]:
    return [turn.rss_before, turn.rss_after, turn.rss_peak, turn.rss_deleted]
