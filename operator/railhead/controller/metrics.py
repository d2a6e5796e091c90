"""The operator's Prometheus metrics. docs/metrics.md describes each; a test compares the two.

Nothing here grows with the number of jobs: labels take few values, and gauges are read
at scrape time.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

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

from railhead import __version__
from railhead.api.status import JobStatus
from railhead.kube.client import RequestLabels
from railhead.kube.watch_state import WatchState

PASS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Sources:
    """Where gauges are read from, at scrape time.

    Attributes:
        jobs: how many jobs are in each phase.
        due: keys waiting for a pass.
        is_leading: whether this replica plans.
        requests: the API server's responses, by request.
        watches: of TrainJobs and pods, per watched namespace.
        avoided_nodes: how many nodes jobs avoid, summed over the jobs.
    """

    jobs: Callable[[], Tally[str]]
    due: Callable[[], int]
    is_leading: Callable[[], bool]
    requests: Callable[[], Tally[RequestLabels]]
    watches: Callable[[], Iterable[WatchState]]
    avoided_nodes: Callable[[], int] = lambda: 0


class States(Collector):
    """The values read at scrape time instead of counted here."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("railhead_jobs", "TrainJobs known to this replica.", labels=["phase"])
        for phase, number in self._sources.jobs().items():
            jobs.add_metric([phase or "Pending"], number)
        yield jobs
        yield GaugeMetricFamily("railhead_queue_depth", "Jobs waiting for a pass.", value=self._sources.due())
        leading = float(self._sources.is_leading())
        yield GaugeMetricFamily("railhead_leader", "1 while this replica plans.", value=leading)
        avoided = float(self._sources.avoided_nodes())
        yield GaugeMetricFamily("railhead_avoided_nodes", "Nodes that jobs avoid, summed over the jobs.", value=avoided)
        requests = CounterMetricFamily(
            "railhead_api_requests", "Requests to the API server.", labels=["verb", "resource", "code"]
        )
        for request, number in self._sources.requests().items():
            requests.add_metric([request.verb, request.resource, str(request.code)], number)
        yield requests
        refused = GaugeMetricFamily(
            "railhead_refused_watches",
            "1 while the API server refuses this watch (403, 404).",
            labels=["resource", "namespace"],
        )
        for watch in self._sources.watches():
            if watch.is_refused:
                refused.add_metric([watch.kind.plural, watch.namespace or ""], 1)
        yield refused


class Metrics:
    """One operator's registry."""

    def __init__(self, sources: Sources) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they double each counter's series
        self.registry = CollectorRegistry()
        self.registry.register(States(sources))
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
            "railhead_restarts", "Failures that jobs restarted from.", ["class"], registry=self.registry
        )

    def count_pass(self, result: str, seconds: float) -> None:
        self._passes.labels(result).observe(seconds)

    def count_report(self, code: int) -> None:
        self._reports.labels(str(code)).inc()

    def count_change(self, old: JobStatus, new: JobStatus) -> None:
        """Counts what changed from a job's old status to its new one."""
        for name, before, after in (
            ("application", old.restarts.application, new.restarts.application),
            ("infrastructure", old.restarts.infrastructure, new.restarts.infrastructure),
        ):
            if after > before:
                self._restarts.labels(name).inc(after - before)

    def render(self) -> bytes:
        """The text format, which Prometheus accepts whatever formats it prefers."""
        return generate_latest(self.registry)
