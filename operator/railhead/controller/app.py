"""Wires the operator: client, stores, watches, election, loop, report endpoint, probes. Stops when any part stops.

Every replica watches, answers probes and accepts reports; only the leader plans.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import ssl
import sys
import time
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from railhead.api.parsed_spec import JobKey
from railhead.api.status import JobStatus
from railhead.controller.cluster_state import ClusterState
from railhead.controller.config import OperatorConfig
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.controller.handlers import WatchLimits, watch_jobs
from railhead.controller.installation import AdmissionPolicy, check_definition
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.leadership import Elector, Leadership, Timing, make_candidate
from railhead.controller.loop import Loop
from railhead.controller.operator_metrics import OperatorMetrics, Page, Sources, build_metrics, judge_reader
from railhead.controller.probes import build_listener, build_probes, watch_stalls
from railhead.controller.report.authority import JobFacts
from railhead.controller.report.certificate import (
    CHECK_FOLDER_SECONDS,
    CHECK_SECONDS,
    Certificates,
    build_ssl_context,
    derive_token_key,
    ensure_certificates,
    follow_certificates,
    present,
    read_certificates,
)
from railhead.controller.report.schedule import WriteSchedule
from railhead.controller.report.server import ReportHandler, build_app
from railhead.controller.report.writer import ReportWriter
from railhead.controller.serve import serve
from railhead.controller.store import Store
from railhead.controller.tokens import TokenReviews, judge_pod
from railhead.controller.watch_guard import WatchGuard, run_sweep
from railhead.kube.client import KubeClient, connect
from railhead.kube.errors import RetryAfter
from railhead.kube.informer import WatchState
from railhead.kube.kinds import TRAIN_JOB
from railhead.listener import Listener
from railhead.resources.base import OperatorSettings
from railhead.resources.bundle import build_bundle, bundle_name
from railhead.together import run_together

log = logging.getLogger(__name__)
START_AGAIN_SECONDS = 1.0
MOST_SCRAPERS = 64  # connections to /metrics over HTTPS at a time
TLS_BUFFER_BYTES = 16 * 1024
# The API server stores JSON of 10,000 levels, and trainLoopConfig may have as many. To Python's parser each is a call:
# with its default of 1000, one such job would end the watch of all jobs, again and again.
MOST_CALLS = 20_000
GARBAGE_THRESHOLD = 10_000  # objects; Python's default is 700
Answer = TypeVar("Answer")


def change_process() -> None:
    """Changes what holds for the whole process: the buffer of a TLS connection, the depth of calls, the number of open
    files, and how often Python looks for garbage.

    asyncio fills a buffer with zeros for each TLS connection, 256 KiB by default, which would be most of the operator's
    memory; a record of TLS has 16 KiB. A container may begin with 1,024 files, and each driver has a connection: so the
    process takes all that is allowed, as Go programs do. Parsed JSON is thousands of objects without cycles, and Python
    looks through it, again and again, while it grows: with its defaults that is a third of the time of a list.
    """
    # A class attribute of asyncio's, which has no option for it.
    sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
    sys.setrecursionlimit(MOST_CALLS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # What is imported by now stays, so that no collection need look at it again.
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)


async def _choose_certificates(config: OperatorConfig, client: KubeClient) -> Certificates:
    if config.report_tls is not None:
        return read_certificates(config.report_tls)
    host = urlsplit(config.report_url).hostname or "localhost"
    hosts = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
    return await ensure_certificates(client, config.namespace, hosts, config.common_metadata)


def _leadership(config: OperatorConfig, client: KubeClient) -> Leadership:
    if config.lease_seconds is None:
        return Leadership()
    return Elector(
        client,
        namespace=config.namespace,
        candidate=make_candidate(config.pod_uid),
        timing=Timing(config.lease_seconds),
        monotonic=time.monotonic,
        common=config.common_metadata,
    )


@dataclass(frozen=True)
class Parts:
    """The parts of one operator that need no answer of the API server.

    Attributes:
        job_watches: of each watched namespace, or of all at once.
    """

    client: KubeClient
    store: Store
    queue: KeyedQueue[JobKey]
    state: ClusterState
    job_watches: list[WatchState]
    guard: WatchGuard
    leadership: Leadership
    policy: AdmissionPolicy
    metrics: OperatorMetrics


def _build_parts(config: OperatorConfig, client: KubeClient) -> Parts:
    store = Store()
    queue: KeyedQueue[JobKey] = KeyedQueue(asyncio.get_running_loop().call_later, time.monotonic)
    leadership = _leadership(config, client)
    policy = AdmissionPolicy(client, config.admission_policy)
    metrics = OperatorMetrics()
    job_watches = [WatchState(TRAIN_JOB, namespace) for namespace in config.watch_namespaces or (None,)]

    def on_change(namespace: str, old: JobStatus, new: JobStatus) -> None:
        # Counted by the leader only: each replica sees the change.
        if leadership.is_leading():
            metrics.count_change(namespace, old, new)

    state = ClusterState(
        client,
        store,
        queue,
        namespaces=config.watch_namespaces,
        selector=config.job_selector,
        on_change=on_change,
        uses_kueue=config.uses_kueue,
    )
    watches = [*job_watches, *(informer.state for informer in state.informers)]
    metrics.add_states(Sources(store, queue, client, leadership, policy, watches))
    if state.queues:
        of_queues = [informer.state for informer in state.queues.informers]
    else:
        of_queues = []
    guard = WatchGuard([*watches, *of_queues], client.ask_list)
    return Parts(client, store, queue, state, job_watches, guard, leadership, policy, metrics)


def _build_loop(config: OperatorConfig, parts: Parts, certificates: Certificates) -> Loop:
    bundle = build_bundle()
    settings = OperatorSettings(
        config.report_url,
        certificates.ca.certificate,
        bundle,
        bundle_name(bundle),
        derive_token_key(certificates),
        job_network_policy=config.job_network_policy,
        job_selector=config.job_selector.text,
        archive_policy=config.archive_policy,
        common_metadata=config.common_metadata,
        pod_user=config.pod_user,
    )
    # Only the writes of passes are fenced. Reports are written by every replica, with a compare of their own.
    leaders = parts.client.fenced(parts.leadership.is_leading)
    executor = Executor(leaders, parts.state, EventRecorder(leaders))
    count = parts.metrics.count_pass
    return Loop(
        parts.store,
        parts.queue,
        executor,
        settings,
        now=parts.client.clock.now,
        count=count,
        is_current=parts.state.is_current,
    )


def _build_writer(config: OperatorConfig, parts: Parts) -> ReportWriter:
    state = parts.state

    def find_current_facts(key: JobKey) -> JobFacts | None:
        if state.is_current(key.namespace):
            return state.find_facts(key)
        return None

    return ReportWriter(
        parts.client,
        WriteSchedule(config.report_writes, time.monotonic),
        lookup=find_current_facts,
        record_job=state.record_job,
        call_later=asyncio.get_running_loop().call_later,
        denials=StatusDenials(parts.client, EventRecorder(parts.client)),
        count_delay=parts.metrics.count_delay,
    )


def _serve_probes(config: OperatorConfig, parts: Parts, page: Page) -> AbstractAsyncContextManager[None]:
    """Serves the probes, on a port that every pod of the cluster may reach."""
    open_page = page if config.metrics_listen is None else None
    probes = build_probes(lambda: parts.state.are_synced, parts.guard.list_problems, open_page)
    return serve(probes, config.probe_listen, listener=build_listener())


def _serve_metrics(
    config: OperatorConfig, context: ssl.SSLContext, parts: Parts, page: Page
) -> AbstractAsyncContextManager[None]:
    """Serves the metrics with authentication, if so configured; else the probe port serves them."""
    if config.metrics_listen is None:
        return nullcontext()
    reviews = TokenReviews(partial(judge_reader, parts.client), time.monotonic)
    listener = Listener(context, most=MOST_SCRAPERS, requests=1)
    return serve(build_metrics(reviews, page), config.metrics_listen, listener=listener)


def _serve_reports(
    config: OperatorConfig, context: ssl.SSLContext, parts: Parts, writer: ReportWriter
) -> AbstractAsyncContextManager[None]:
    listener = Listener(context)
    handler = ReportHandler(
        parts.state,
        TokenReviews(partial(judge_pod, parts.client), time.monotonic),
        writer,
        listener=listener,
        now=parts.client.clock.now,
    )
    return serve(build_app(handler, parts.metrics.count_report), config.report_listen, listener=listener)


async def run_operator(config: OperatorConfig) -> None:
    """Runs until SIGTERM or SIGINT, or until one of its parts stops; Kubernetes then restarts it.

    Raises:
        KubeError: the API server refuses a request of the startup.
        BadFolder: the --report-tls folder has no usable certificate.
        WentBack: etcd was restored from a backup.
        WrongDefinition: the CRD is missing, or older than this operator.
    """
    change_process()
    stop = asyncio.Event()
    # Before anything else starts, so that a signal ends an operator that still waits for the API server.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_together(_run(config, on_signal=stop.set), stop.wait())


async def _run(config: OperatorConfig, *, on_signal: Callable[[], None]) -> None:
    async with connect(config.kubeconfig, hides_values=True) as client:
        parts = _build_parts(config, client)
        state = parts.state
        page = Page(parts.metrics.begin_render, time.monotonic)
        async with _serve_probes(config, parts, page):
            await _wait_answer(partial(check_definition, client))
            await parts.policy.look()
            find = partial(_choose_certificates, config, client)
            # Before the loop: pods are created with the CA that their driver is to trust.
            certificates = await _wait_answer(find)
            context = build_ssl_context(certificates)
            loop = _build_loop(config, parts, certificates)
            writer = _build_writer(config, parts)
            pause = CHECK_SECONDS if config.report_tls is None else CHECK_FOLDER_SECONDS
            renew = partial(follow_certificates, find, certificates, partial(present, context), pause=pause)
            limits = WatchLimits(label_selector=config.job_selector.text)
            ask = partial(client.ask_list, TRAIN_JOB)
            watch = partial(watch_jobs, state.on_job, parts.job_watches, ask=ask, on_signal=on_signal, limits=limits)
            try:
                async with (
                    _serve_reports(config, context, parts, writer),
                    _serve_metrics(config, context, parts, page),
                ):
                    await _run_parts(config, parts, loop, renew(), watch())
            finally:
                # After the endpoint: the reports it accepted still get written.
                await writer.close()


async def _wait_answer(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Asks until the API server answers: an outage at startup costs no restart, after which Kubernetes would wait."""
    while True:
        try:
            return await ask()
        except RetryAfter as error:
            log.warning("startup: %s; retrying in %.0f s", error, START_AGAIN_SECONDS)
        await asyncio.sleep(START_AGAIN_SECONDS)


async def _run_parts(config: OperatorConfig, parts: Parts, loop: Loop, *others: Awaitable[None]) -> None:
    """Runs all parts. Releases the Lease once nothing in this operator plans any more."""
    try:
        await run_together(
            *(informer.run() for informer in parts.state.informers),
            *(informer.run() for informer in (parts.state.queues.informers if parts.state.queues else ())),
            parts.guard.run(),
            watch_stalls(parts.metrics.count_late, time.monotonic),
            run_sweep(
                parts.client,
                parts.store,
                config.watch_namespaces,
                selector=config.job_selector.text,
                look_for_policy=parts.policy.look,
            ),
            _lead(config, parts, loop),
            *others,
        )
    finally:
        # Last, when no pass runs any more: the next leader may begin at once.
        await parts.leadership.release()


async def _lead(config: OperatorConfig, parts: Parts, loop: Loop) -> None:
    """Plans whenever it leads, starting with the keys already in the queue."""
    # Before its list a missing pod would count as lost.
    for informer in parts.state.informers:
        # The loop skips a namespace that was refused.
        await informer.answered.wait()
    log.info("caches are synced")
    await run_together(parts.leadership.run(), _plan(config, parts, loop))


async def _plan(config: OperatorConfig, parts: Parts, loop: Loop) -> None:
    """Plans while this replica leads.

    Without the lead the caches stay current and keys accumulate, as in a replica that has never led.
    """
    while True:
        await parts.leadership.wait_lead()
        parts.store.begin_lead(at=parts.client.clock.now())
        # Returns when the lead is lost; passes in progress end first, and the client refuses their writes.
        await run_together(loop.run(config.concurrency), parts.leadership.wait_loss())
