"""Wires the operator: client, stores, watches, loop, report endpoint, probes. Ends when any part ends."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from urllib.parse import urlsplit

from railhead.api import names
from railhead.api.job import JobKey
from railhead.controller.config import OperatorConfig
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.controller.handlers import watch_jobs
from railhead.controller.loop import Loop
from railhead.controller.observe import slim_pod
from railhead.controller.probes import serve_probes
from railhead.controller.queue import KeyedQueue
from railhead.controller.report.certificate import ensure_certificates
from railhead.controller.report.reviews import TokenReviews
from railhead.controller.report.server import ReportHandler, serve_reports
from railhead.controller.report.writer import ReportWriter
from railhead.controller.store import Store
from railhead.controller.sweep import run_sweep
from railhead.controller.views import Views
from railhead.kube.client import KubeClient, connect
from railhead.kube.informer import Informer
from railhead.kube.kinds import POD
from railhead.resources.bundle import build_bundle, bundle_name
from railhead.resources.settings import OperatorSettings

log = logging.getLogger(__name__)


def _informers(client: KubeClient, views: Views, namespaces: tuple[str, ...]) -> list[Informer]:
    """One pod watch for the cluster, or one per watched namespace; they share nothing."""
    return [
        Informer(client, POD, on_change=views.on_pod, namespace=n, label_selector=names.LABEL_JOB_UID, slim=slim_pod)
        for n in namespaces or (None,)
    ]


def _certificate_names(report_url: str) -> list[str]:
    host = urlsplit(report_url).hostname or "localhost"
    return list(dict.fromkeys([host, "localhost", "127.0.0.1"]))


async def run_operator(config: OperatorConfig) -> None:
    """Runs until it is asked to end (SIGTERM, SIGINT), or until a part of it ends; Kubernetes starts it again then.

    Raises:
        KubeError: when the API server does not answer at the start.
    """
    async with connect(config.kubeconfig) as client:
        certificates = await ensure_certificates(client, config.namespace, _certificate_names(config.report_url))
        bundle = build_bundle()
        settings = OperatorSettings(config.report_url, certificates.ca.certificate, bundle, bundle_name(bundle))
        store = Store()
        queue: KeyedQueue[JobKey] = KeyedQueue(asyncio.get_running_loop().call_later)
        views = Views(store, queue)
        views.informers = _informers(client, views, config.watch_namespaces)
        executor = Executor(client, views, EventRecorder(client))
        loop = Loop(store, queue, executor, settings, now=lambda: datetime.now(UTC))
        writer = ReportWriter(client, lookup=views.facts, learn=views.job)
        handler = ReportHandler(reviews=TokenReviews(client, time.monotonic), writer=writer, lookup=views.facts)
        try:
            async with (
                serve_reports(config.report_listen, certificates, handler),
                serve_probes(config.probe_listen, lambda: views.are_synced),
            ):
                await _run_parts(config, client, store, views, loop)
        finally:
            await writer.close()  # after the endpoint: what it has taken is written


async def _run_parts(config: OperatorConfig, client: KubeClient, store: Store, views: Views, loop: Loop) -> None:
    """All tasks of the operator; the first that ends, ends the others."""
    stop = asyncio.Event()

    async def work() -> None:
        for informer in views.informers:
            await informer.wait_synced()  # before that, a pod not seen would count as lost
        log.info("watches are synced")
        await loop.run(config.concurrency)

    parts = [
        *(informer.run() for informer in views.informers),
        run_sweep(client, store, config.watch_namespaces),
        work(),
        stop.wait(),
        watch_jobs(views.on_job, config.watch_namespaces, on_signal=stop.set),
    ]
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
