"""The operator's Prometheus metrics, and who may read them.

docs/reference/metrics.md describes each; a test compares the two. Nothing here grows with the number of jobs: labels
take few values, or are namespaces, and gauges are read for a scrape.

With a thousand namespaces the text takes half a second of processor time. So it is written at most once a second,
whoever asks for it, and by a thread: the event loop only reads what changes in it.

Over HTTPS only those read them whom the API server lets `get` the path, as for its own /metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from railhead._version import __version__
from railhead.api.goodput import GoodputStatus
from railhead.api.parsed_spec import JobKey
from railhead.api.status import JobStatus
from railhead.contract.failure import FailureClass, Payer
from railhead.controller.installation import AdmissionPolicy
from railhead.controller.job_gauges import JobGauges, build_gauge
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.leadership import Leadership
from railhead.controller.report.schedule import Urgency
from railhead.controller.store import Store
from railhead.controller.tokens import NotYet, TokenReviews, Verdict, read_bearer, review
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.informer import WatchState
from railhead.kube.kinds import SUBJECT_ACCESS_REVIEW
from railhead.planning.facts.goodput_account import count_seconds

METRICS_PATH = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS = 1.0
PIECE_BYTES = 16 * 1024  # of an answer: for a client that reads slowly, aiohttp and asyncio hold 140 KB of these
REJECTIONS = {401: "a bearer token is required, or it is not valid", 403: f"no right to get {METRICS_PATH}"}
LOSSES = {  # by the budget that pays for an attempt; the metric counts no others
    Payer.APPLICATION: "application",
    Payer.INFRASTRUCTURE: "infrastructure",
    Payer.DISRUPTION: "infrastructure",
    Payer.STARTUP: "startup",
}
PASS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
REPORT_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True)
class Sources:
    """The parts of the operator whose state is read at scrape time; `watches` are those of TrainJobs and pods."""

    store: Store
    queue: KeyedQueue[JobKey]
    client: KubeClient
    leadership: Leadership
    policy: AdmissionPolicy
    watches: Sequence[WatchState]


@dataclass(frozen=True)
class Families(Collector):
    """Metrics for one scrape."""

    families: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


class States(Collector):
    """The values read for a scrape instead of counted here; only the event loop may read them."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        found = self._sources
        gauge = GaugeMetricFamily
        ahead = found.client.clock.machine_offset.total_seconds()
        yield gauge("railhead_queue_depth", "Jobs waiting for a pass.", found.queue.depth)
        yield gauge(
            "railhead_queue_oldest_seconds", "How long the first of them has waited.", found.queue.oldest_seconds
        )
        yield gauge(
            "railhead_clock_offset_seconds", "How far this machine's clock is ahead of the API server's.", ahead
        )
        yield gauge("railhead_leader", "1 while this replica plans.", found.leadership.is_leading())
        yield gauge("railhead_avoided_nodes", "Nodes that jobs avoid, summed over the jobs.", found.store.avoided_nodes)
        missing = "1 while the admission policy that restricts jobs is gone."
        yield gauge("railhead_admission_policy_missing", missing, found.policy.is_missing)
        names = ["verb", "resource", "code"]
        requests = CounterMetricFamily("railhead_api_requests", "Requests to the API server.", labels=names)
        for request, number in found.client.answers.items():
            requests.add_metric([request.verb, request.resource, str(request.code)], number)
        yield requests
        yield from self._collect_watches()

    def _collect_watches(self) -> Iterator[Metric]:
        refused = "1 while the API server refuses this watch (403, 404)."
        age = "Since this watch delivered an event, a bookmark or a list."
        watches = {(watch.kind.plural, watch.namespace or ""): watch for watch in self._sources.watches}
        refusals = {place: 1 for place, watch in watches.items() if watch.is_refused}
        yield build_gauge("railhead_refused_watches", refused, ["resource", "namespace"], refusals)
        ages = {place: watch.age for place, watch in watches.items()}
        yield build_gauge("railhead_watch_age_seconds", age, ["resource", "namespace"], ages)


def _name_end(status: JobStatus) -> str:
    """Returns Succeeded, or the class of a finished job's failure."""
    if status.has_condition("Complete"):
        return "Succeeded"
    return str(FailureClass.parse(status.failure.class_ if status.failure else ""))


def classify_loss(old: JobStatus, new: JobStatus) -> str:
    """Returns what the job has lost if it restarts in this change: an attempt to the application, the infrastructure or
    before training ran, or worker pods to the infrastructure. Returns an empty string for any other change."""
    if new.attempt > old.attempt:
        failure = old.failure
        if failure is None or failure.attempt != old.attempt:
            return ""
        return LOSSES.get(failure.class_.policy.payer, "")
    losses = new.worker_losses
    known = old.worker_losses
    if losses is None or new.attempt < old.attempt or new.round <= old.round:
        return ""
    rounds = known.rounds if known and known.checkpoint == losses.checkpoint else 0
    if losses.rounds > rounds:
        return "infrastructure"
    return ""


class OperatorMetrics:
    """One operator's registry."""

    def __init__(self) -> None:
        self._sources: Sources | None = None
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double each counter's series
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("railhead_build", "Version of the operator.", registry=self.registry).info({"version": __version__})
        self._passes = Histogram(
            "railhead_pass_seconds",
            "Duration of a pass over a job.",
            ["result"],
            buckets=PASS_SECONDS,
            registry=self.registry,
        )
        self._reports = Counter("railhead_reports", "Answers of the report endpoint.", ["code"], registry=self.registry)
        self._restarts = Counter(
            "railhead_restarts", "Failures that jobs restarted from.", ["class", "namespace"], registry=self.registry
        )
        self._finished = Counter(
            "railhead_finished_jobs", "Jobs that ended.", ["class", "namespace"], registry=self.registry
        )
        self._evictions = Counter(
            "railhead_evictions", "Jobs with pods that their queue stopped.", ["namespace"], registry=self.registry
        )
        self._seconds = Counter(
            "railhead_training_seconds",
            "What the time of jobs was spent on: productive, or the cause of its loss.",
            ["cause", "namespace"],
            registry=self.registry,
        )
        self._gpu_seconds = Counter(
            "railhead_gpu_seconds", "Seconds times GPUs that jobs held.", ["namespace"], registry=self.registry
        )
        self._lost_gpu_seconds = Counter(
            "railhead_lost_gpu_seconds",
            "The part of railhead_gpu_seconds that was not productive.",
            ["namespace"],
            registry=self.registry,
        )
        self._delays = Histogram(
            "railhead_report_delay_seconds",
            "From the arrival of a driver's report to its write in the status.",
            ["urgency"],
            buckets=REPORT_SECONDS,
            registry=self.registry,
        )
        self._late = Counter(
            "railhead_loop_late_seconds", "By how much the event loop was late, in all.", registry=self.registry
        )

    def add_states(self, sources: Sources) -> None:
        """Adds the gauges, and the counters of others."""
        self._sources = sources

    def count_pass(self, result: str, seconds: float) -> None:
        self._passes.labels(result).observe(seconds)

    def count_report(self, code: int) -> None:
        self._reports.labels(str(code)).inc()

    def count_delay(self, urgency: Urgency, seconds: float) -> None:
        """Counts a report that was written so long after it had arrived."""
        self._delays.labels(urgency.name.lower()).observe(seconds)

    def count_late(self, seconds: float) -> None:
        self._late.inc(seconds)

    def count_change(self, namespace: str, old: JobStatus, new: JobStatus) -> None:
        """Counts what changed from the old status of a job in this namespace to its new one."""
        for cause, seconds in count_seconds(old.goodput, new.goodput).items():
            self._seconds.labels(cause, namespace).inc(seconds)
        self._count_gpus(namespace, old.goodput or GoodputStatus(), new.goodput or GoodputStatus())
        loss = classify_loss(old, new)
        if loss:
            self._restarts.labels(loss, namespace).inc()
        # A job that rested already has lost no pods.
        if new.phase == "Queued" and old.attempt and not old.is_resting:
            self._evictions.labels(namespace).inc()
        if new.is_finished and not old.is_finished:
            self._finished.labels(_name_end(new), namespace).inc()

    def _count_gpus(self, namespace: str, old: GoodputStatus, new: GoodputStatus) -> None:
        """Counts GPU seconds. A status that somebody sets back adds nothing: a counter cannot decrease."""
        if new.gpu_seconds > old.gpu_seconds:
            self._gpu_seconds.labels(namespace).inc(new.gpu_seconds - old.gpu_seconds)
        if new.lost_gpu_seconds > old.lost_gpu_seconds:
            self._lost_gpu_seconds.labels(namespace).inc(new.lost_gpu_seconds - old.lost_gpu_seconds)

    def begin_render(self) -> Callable[[], bytes]:
        """Reads what only the event loop may read. What this returns writes the text, and any thread may call it.

        It is the text format, which Prometheus accepts whatever formats it prefers.
        """
        found = self._sources
        if found is None:
            return partial(generate_latest, self.registry)
        states = [*States(found).collect()]
        jobs = JobGauges([*found.store.all_records()], found.client.clock.now())
        return partial(generate_latest, Families(chain(self.registry.collect(), states, jobs.collect())))


class Page:
    """The text of the metrics as it was less than a second ago, or as a thread is writing it now."""

    def __init__(self, begin_render: Callable[[], Callable[[], bytes]], monotonic: Callable[[], float]) -> None:
        self._begin_render = begin_render
        self._monotonic = monotonic
        self._began = 0.0
        self._text: asyncio.Task[bytes] | None = None

    async def read(self) -> bytes:
        now = self._monotonic()
        if self._text is None or (self._text.done() and now - self._began >= FRESH_SECONDS):
            self._began = now
            self._text = asyncio.create_task(asyncio.to_thread(self._begin_render()))
        # Whoever goes away leaves it to the others.
        return await asyncio.shield(self._text)


async def respond(request: web.Request, page: Page) -> web.StreamResponse:
    """Answers a scrape, in pieces."""
    text = memoryview(await page.read())
    response = web.StreamResponse(headers={"Content-Type": METRICS_TYPE, "Content-Length": str(len(text))})
    # aiohttp would log each client that goes away early, with a traceback.
    with suppress(ConnectionError):
        await response.prepare(request)
        for begin in range(0, len(text), PIECE_BYTES):
            await response.write(text[begin : begin + PIECE_BYTES])
    return response


def build_metrics(reviews: TokenReviews, page: Page) -> web.Application:
    """Builds the application that serves the metrics to those who may read them; `reviews` asks `judge_reader`."""

    async def metrics(request: web.Request) -> web.StreamResponse:
        token = read_bearer(request.headers.get("Authorization", ""))
        try:
            code = (await reviews.judge(token, named="")).code if token else 401
        except NotYet:
            return web.Response(status=429, text="too many unknown tokens; try again\n")
        except KubeError:
            return web.Response(status=503, text="the API server does not answer\n")
        if code != 200:
            return web.Response(status=code, text=REJECTIONS[code] + "\n")
        return await respond(request, page)

    app = web.Application()
    app.add_routes([web.get(METRICS_PATH, metrics, allow_head=False)])
    return app


async def judge_reader(client: KubeClient, token: str) -> Verdict:
    """Returns 200 for a token that may read the metrics, else 401 or 403. Raises KubeError."""
    found = (await review(client, token)).get("status") or {}
    if not found.get("authenticated"):
        return Verdict(401)
    answer = await client.create(SUBJECT_ACCESS_REVIEW, build_access_review(found.get("user") or {}))
    return Verdict(200 if (answer.get("status") or {}).get("allowed") is True else 403)


def build_access_review(user: Object) -> Object:
    """Builds the question whether this user of a TokenReview may get the metrics. Pure."""
    spec = {
        "user": user.get("username") or "",
        "uid": user.get("uid") or "",
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
        "nonResourceAttributes": {"path": METRICS_PATH, "verb": "get"},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
