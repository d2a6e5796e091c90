"""Whether jobs in trouble delay the others: how long a small job waits for its pods, without and beside three bad ones.

- `gang`: runs with thousands of pods, and each of STORM_PER_SECOND changes of one asks for a pass.
- `hangs`: each create of its pods takes as long as a webhook may, which never answers.
- `fails`: each create of its pods is refused.

What they cost the API server is there without them, too: as many pods of no job, which change as often, and the webhook
and the policy that make the other two bad.
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
from string import Template as Text

from benchmarks.run import RunFailed
from benchmarks.scale.api import METADATA, Api, Object, connect
from benchmarks.scale.counting import ADDED, counting
from benchmarks.scale.kubelet import run_pods
from benchmarks.scale.plane import NAMESPACE, PODS
from benchmarks.scale.process import installed
from benchmarks.scale.subject import Subject
from benchmarks.scale.table import describe_medians, find_percentile, group_turns
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
    """Of one turn: seconds from a small job's creation until all its pods exist, and in a second run beside `pods`.

    Attributes:
        without_create, beside_create: the 99th percentile of the requests that create the TrainJobs, which no operator
            delays.
    """

    name: str
    jobs: int
    pods: int
    without_p50: float
    without_p99: float
    without_create: float
    beside_p50: float
    beside_p99: float
    beside_create: float


async def run_fairness(plane: ControlPlane, subject: Subject, *, jobs: int, workers: int, gang: int) -> Figures:
    """Both runs, with one operator and one API server."""
    with installed(plane, subject) as process:
        process.start()
        async with connect(plane) as api:
            await process.wait_ready()
            async with await _install_admission(api):
                await _measure(api, subject, range(WARM_UP), workers=workers)
                async with _storm(api, await _create_plain_pods(api, gang)):
                    numbers = range(WARM_UP, WARM_UP + jobs)
                    without = await _measure(api, subject, numbers, workers=workers)
                async with _trouble(api, subject, workers=workers, gang=gang):
                    numbers = range(WARM_UP + jobs, WARM_UP + 2 * jobs)
                    beside = await _measure(api, subject, numbers, workers=workers)
    return Figures(subject.name, jobs, gang, *without, *beside)


async def _measure(api: Api, subject: Subject, numbers: range, *, workers: int) -> tuple[float, float, float]:
    """How long these jobs wait, p50 and p99, and p99 of the requests that create them.

    They come one after the other, so that they do not wait for each other.
    """
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    created: dict[int, float] = {}
    answered: list[float] = []
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
            answered.append(time.monotonic() - created[number])
        await asyncio.wait_for(done.wait(), 60)
    waits = waited.values()
    return find_percentile(waits, 50), find_percentile(waits, 99), find_percentile(answered, 99)


@asynccontextmanager
async def _trouble(api: Api, subject: Subject, *, workers: int, gang: int) -> AsyncIterator[None]:
    """The three bad jobs."""
    path = Text(subject.jobs).substitute(namespace=NAMESPACE)
    async with counting(api, gang + subject.pods_per_job) as complete:
        await api.request("POST", path, subject.build_job("gang", namespace=NAMESPACE, workers=gang))
        await complete.wait()
    pods = await find_pods(api, "gang-")
    await run_pods(api, pods)
    for name in ("hangs", "fails"):
        await api.request("POST", path, subject.build_job(name, namespace=NAMESPACE, workers=workers))
    async with _storm(api, [str(pod["metadata"]["name"]) for pod in pods]):
        yield
    if await find_pods(api, "hangs-") or await find_pods(api, "fails-"):
        raise RunFailed("the bad jobs have pods")


async def _create_plain_pods(api: Api, number: int) -> list[str]:
    """Running pods of no job, like those of one; their names."""
    like = (await find_pods(api, "job-"))[0]
    bare: Object = {"apiVersion": "v1", "kind": "Pod", "spec": like["spec"]}
    pods: list[Object] = [{**bare, "metadata": {"name": f"plain-{n}"}} for n in range(number)]
    await api.for_all(("POST", PODS, json.dumps(pod).encode()) for pod in pods)
    await run_pods(api, pods)
    return [str(pod["metadata"]["name"]) for pod in pods]


@asynccontextmanager
async def _storm(api: Api, pods: Sequence[str]) -> AsyncIterator[None]:
    """STORM_PER_SECOND of these pods change."""
    storm = asyncio.create_task(_change(api, pods))
    await asyncio.sleep(SETTLE_SECONDS)
    try:
        yield
        if storm.done():
            storm.result()
    finally:
        storm.cancel()
        await asyncio.gather(storm, return_exceptions=True)


async def _change(api: Api, pods: Sequence[str]) -> None:
    began = time.monotonic()
    for number in range(10**9):
        await asyncio.sleep(began + number / STORM_PER_SECOND - time.monotonic())
        change: Object = {"status": {"message": f"change {number}"}}
        await api.merge(f"{PODS}/{pods[number % len(pods)]}/status", change)


async def _install_admission(api: Api) -> asyncio.Server:
    """What makes jobs with the names `hangs` and `fails` bad; the webhook's server."""
    silent = await asyncio.start_server(_say_nothing, "127.0.0.1", 0)
    for plural, body in _build_admission(silent.sockets[0].getsockname()[1]):
        await api.request("POST", f"{ADMISSION}/{plural}", json.dumps(body).encode())
    return silent


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
    lines = [
        f"{'':16}{'jobs':>6}{'gang':>6}{'without s p50, p99 (create)':>30}{'beside s p50, p99 (create)':>30}"
        f"{'ratios p99':>20}"
    ]
    for (jobs, name), turns in group_turns(figures).items():
        lines.append(
            f"{name:16}{jobs:6}{turns[0].pods:6}"
            f"{describe_medians(turns, lambda t: [t.without_p50, t.without_p99, t.without_create], digits=3):>30}"
            f"{describe_medians(turns, lambda t: [t.beside_p50, t.beside_p99, t.beside_create], digits=3):>30}"
            f"{describe_medians(turns, _compare, digits=2):>20}"
        )
    return lines


def _compare(turn: Figures) -> list[float]:
    return [turn.beside_p99 / turn.without_p99, turn.beside_create / turn.without_create]
