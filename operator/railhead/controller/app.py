"""Wires the operator: client, stores, watches, loop, report endpoint, probes. Ends when any part ends."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import kopf

from railhead.api import names
from railhead.api.job import JobKey
from railhead.controller.config import OperatorConfig
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.controller.handlers import build_registry, build_settings
from railhead.controller.loop import Loop
from railhead.controller.observe import slim_pod
from railhead.controller.probes import serve_probes
from railhead.controller.queue import KeyedQueue
from railhead.controller.report.authority import JobFacts
from railhead.controller.report.certificate import ensure_certificates
from railhead.controller.report.reviews import TokenReviews
from railhead.controller.report.server import ReportHandler, serve_reports
from railhead.controller.report.writer import ReportWriter
from railhead.controller.store import Store
from railhead.controller.sweep import run_sweep
from railhead.kube.client import KubeClient, connect
from railhead.kube.informer import Informer, version_of
from railhead.kube.kinds import POD
from railhead.resources.bundle import build_bundle, bundle_name
from railhead.resources.settings import OperatorSettings

log = logging.getLogger(__name__)

Object = dict[str, Any]


class Views:
    """Where everything seen goes: into the store, and its key into the queue. Knows the pods' informers."""

    def __init__(self, store: Store, queue: KeyedQueue[JobKey]) -> None:
        self._store = store
        self._queue = queue
        self.informers: list[Informer] = []

    def on_job(self, event_type: str | None, raw: Object) -> None:
        if event_type == "DELETED":
            metadata = raw.get("metadata") or {}
            key = JobKey(str(metadata.get("namespace")), str(metadata.get("name")))
            self._store.drop_job(key, metadata["uid"], version=version_of(raw))
        else:
            self.job(raw)

    def on_pod(self, old: Object | None, new: Object | None) -> None:
        key = self._store.change_pod(old, new)
        if key is not None:
            self._queue.add(key)

    def job(self, raw: Object) -> None:
        key = self._store.put_job(raw)
        if key is not None:
            self._queue.add(key)

    def job_gone(self, key: JobKey, uid: str) -> None:
        self._store.drop_job(key, uid)

    def pod(self, raw: Object) -> None:
        namespace = raw["metadata"].get("namespace")
        for informer in self.informers:
            if informer.namespace in (None, namespace):
                informer.learn(raw)

    def facts(self, key: JobKey) -> JobFacts | None:
        record = self._store.job(key)
        return JobFacts(record.uid, record.status, self._store.pods(record.uid)) if record else None

    @property
    def are_synced(self) -> bool:
        return bool(self.informers) and all(i.is_synced for i in self.informers)


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
    """Runs until a part of it ends; Kubernetes starts it again then.

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
        async with (
            serve_reports(config.report_listen, certificates, handler),
            serve_probes(config.probe_listen, lambda: views.are_synced),
        ):
            try:
                await _run_parts(config, client, store, views, loop)
            finally:
                await writer.close()


async def _run_parts(config: OperatorConfig, client: KubeClient, store: Store, views: Views, loop: Loop) -> None:
    """All tasks of the operator; the first that ends, ends the others. kopf's own come last: it
    cancels what was started after it."""

    async def work() -> None:
        for informer in views.informers:
            await informer.wait_synced()  # before that, a pod not seen would count as lost
        log.info("watches are synced")
        await loop.run(config.concurrency)

    tasks = [asyncio.create_task(informer.run()) for informer in views.informers]
    tasks.append(asyncio.create_task(run_sweep(client, store, config.watch_namespaces)))
    tasks.append(asyncio.create_task(work()))
    await asyncio.sleep(0)
    tasks.append(
        asyncio.create_task(
            kopf.operator(
                registry=build_registry(views.on_job),
                settings=build_settings(),
                standalone=True,
                # Unused without peering; but kopf would ask for a user name, which a numeric user has not.
                identity=cast(Any, "railhead"),
                clusterwide=not config.watch_namespaces,
                namespaces=config.watch_namespaces,
            )
        )
    )
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
