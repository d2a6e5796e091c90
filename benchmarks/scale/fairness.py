"""Whether jobs in trouble delay the others: how long a small job waits for its pods, alone and beside three bad ones.

- `gang`: runs with thousands of pods, and each of STORM_PER_SECOND changes of one asks for a pass.
- `hangs`: each create of its pods takes as long as a webhook may, which never answers.
- `fails`: each create of its pods is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import quantiles
from string import Template as Text

from benchmarks.run import RunFailed
from benchmarks.scale.api import METADATA, Api, Object, connect
from benchmarks.scale.counting import ADDED, counting
from benchmarks.scale.kubelet import run_pods
from benchmarks.scale.plane import NAMESPACE, PODS
from benchmarks.scale.process import installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, group_turns
from benchmarks.scale.templates import find_pods
from railhead.local.control_plane import ControlPlane

WARM_UP = 10  # jobs: the first one waits for the namespace's driver
JOBS_PER_SECOND = 5.0
STORM_PER_SECOND = 50.0
HANG_SECONDS = 30  # the longest that the API server waits for a webhook
SETTLE_SECONDS = 10.0
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OWN = re.compile(r"job-([0-9]+)-")


@dataclass(frozen=True)
class Figures:
    """Of one turn: seconds from a small job's creation until all its pods exist, and in a second run beside `pods`."""

    name: str
    jobs: int
    pods: int
    alone_p50: float
    alone_p99: float
    beside_p50: float
    beside_p99: float


async def run_fairness(plane: ControlPlane, subject: Subject, *, jobs: int, workers: int, gang: int) -> Figures:
    """Both runs, with one operator and one API server."""
    with installed(plane, subject) as process:
        process.start()
        async with connect(plane) as api:
            await process.wait_ready()
            await _measure(api, subject, range(WARM_UP), workers=workers)
            alone = await _measure(api, subject, range(WARM_UP, WARM_UP + jobs), workers=workers)
            async with _trouble(api, subject, workers=workers, gang=gang):
                numbers = range(WARM_UP + jobs, WARM_UP + 2 * jobs)
                beside = await _measure(api, subject, numbers, workers=workers)
    (alone_p50, alone_p99), (beside_p50, beside_p99) = _quantiles(alone), _quantiles(beside)
    return Figures(subject.name, jobs, gang, alone_p50, alone_p99, beside_p50, beside_p99)


def _quantiles(seconds: list[float]) -> tuple[float, float]:
    found = quantiles(seconds, n=100, method="inclusive")
    return found[49], found[98]


async def _measure(api: Api, subject: Subject, numbers: range, *, workers: int) -> list[float]:
    """How long each of these jobs waits. They come one after the other, so that they do not wait for each other."""
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    created: dict[int, float] = {}
    waited: dict[int, float] = {}
    seen: Counter[int] = Counter()
    done = asyncio.Event()

    def look(line: bytes) -> None:
        own = OWN.match(json.loads(line)["object"]["metadata"]["name"]) if line.startswith(ADDED) else None
        if own and int(own[1]) in created:
            number = int(own[1])
            seen[number] += 1
            if seen[number] == workers + subject.pods_per_job:
                waited[number] = time.monotonic() - created[number]
        if len(waited) == len(numbers):
            done.set()

    async with api.watching(PODS, look, accept=METADATA):
        began = time.monotonic()
        for place, number in enumerate(numbers):
            await asyncio.sleep(began + place / JOBS_PER_SECOND - time.monotonic())
            created[number] = time.monotonic()
            await api.request("POST", path, subject.build_job(f"job-{number}", namespace=NAMESPACE, workers=workers))
        await asyncio.wait_for(done.wait(), 60)
    return list(waited.values())


@asynccontextmanager
async def _trouble(api: Api, subject: Subject, *, workers: int, gang: int) -> AsyncIterator[None]:
    """The three bad jobs."""
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    silent = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    for plural, body in _build_admission(port):
        await api.request("POST", f"{ADMISSION}/{plural}", json.dumps(body).encode())
    async with counting(api, gang + subject.pods_per_job) as complete:
        await api.request("POST", path, subject.build_job("gang", namespace=NAMESPACE, workers=gang))
        await complete.wait()
    pods = await find_pods(api, "gang-")
    await run_pods(api, pods)
    for name in ("hangs", "fails"):
        await api.request("POST", path, subject.build_job(name, namespace=NAMESPACE, workers=workers))
    await asyncio.sleep(SETTLE_SECONDS)
    storm = asyncio.create_task(_storm(api, [str(pod["metadata"]["name"]) for pod in pods]))
    try:
        yield
        if storm.done():
            storm.result()
        if await find_pods(api, "hangs-") or await find_pods(api, "fails-"):
            raise RunFailed("the bad jobs have pods")
    finally:
        storm.cancel()
        await asyncio.gather(storm, return_exceptions=True)
        silent.close()


async def _storm(api: Api, pods: list[str]) -> None:
    began = time.monotonic()
    for number in range(10**9):
        await asyncio.sleep(began + number / STORM_PER_SECOND - time.monotonic())
        change: Object = {"status": {"message": f"change {number}"}}
        await api.merge(f"{PODS}/{pods[number % len(pods)]}/status", change)


async def _say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def _build_admission(port: int) -> list[tuple[str, Object]]:
    """A webhook that hangs for the pods of one job, and a policy that refuses those of another, by their names."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "hangs.bench.example",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [rule],
        "timeoutSeconds": HANG_SECONDS,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "own", "expression": "object.metadata.name.startsWith('hangs-')"}],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!object.metadata.name.startsWith('fails-')"}],
    }
    binding = {"policyName": "bench-fails", "validationActions": ["Deny"]}
    base: Object = {"apiVersion": "admissionregistration.k8s.io/v1"}
    policy = "ValidatingAdmissionPolicy"
    metadata = {"name": "bench-fails"}
    return [
        (
            "validatingwebhookconfigurations",
            {**base, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hangs"}, "webhooks": [hook]},
        ),
        ("validatingadmissionpolicies", {**base, "kind": policy, "metadata": metadata, "spec": spec}),
        (
            "validatingadmissionpolicybindings",
            {**base, "kind": f"{policy}Binding", "metadata": metadata, "spec": binding},
        ),
    ]


def describe(figures: Sequence[Figures]) -> list[str]:
    """Medians of all turns."""
    lines = [f"{'':16}{'jobs':>6}{'gang':>6}{'alone s p50, p99':>20}{'beside s p50, p99':>20}{'ratio p99':>11}"]
    for (jobs, name), turns in group_turns(figures).items():
        lines.append(
            f"{name:16}{jobs:6}{turns[0].pods:6}"
            f"{describe_medians(turns, lambda t: [t.alone_p50, t.alone_p99], digits=3):>20}"
            f"{describe_medians(turns, lambda t: [t.beside_p50, t.beside_p99], digits=3):>20}"
            f"{describe_medians(turns, lambda t: [t.beside_p99 / t.alone_p99], digits=2):>11}"
        )
    return lines
