"""Finds what the watches cannot tell: TrainJobs whose deletion kopf missed, and an etcd that was restored.

After a 410 kopf lists again, but does not compare the lists. After a restore of etcd without a revision bump every
new version is smaller than those in the caches, which ignore it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from railhead.api.job import JobKey
from railhead.controller.store import Store
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError, is_refusal
from railhead.kube.informer import parse_version, uid_of
from railhead.kube.kinds import TRAIN_JOB

log = logging.getLogger(__name__)
PERIOD_SECONDS = 300.0


class WentBack(Exception):
    """The API server's data is older than what was seen of it. The operator exits, and Kubernetes restarts it."""


async def sweep_once(
    client: KubeClient, store: Store, namespaces: tuple[str, ...], *, selector: str = ""
) -> list[JobKey]:
    """Forgets the jobs that are gone, or whose labels match no more; returns their keys. Raises WentBack.

    It leaves out a namespace that the API server refuses to list.
    """
    known = store.newest_version
    before = {key: record for key in store.all_keys() if (record := store.job(key))}
    existing: set[str] = set()
    versions: dict[str | None, int] = {}
    for namespace in namespaces or (None,):
        try:
            listed = await client.list_each(
                TRAIN_JOB, uid_of, namespace=namespace, label_selector=selector, metadata_only=True
            )
        except KubeError as error:
            if not is_refusal(error):
                raise
            log.info("sweep: left out %s: %s", namespace or "all namespaces", error)
            continue
        versions[namespace] = parse_version(listed.version)
        existing.update(listed.items)
    if not versions:
        return []
    oldest, newest = min(versions.values()), max(versions.values())
    if oldest < known:  # a list is never older than anything seen before it was requested
        raise WentBack(
            f"the API server is at version {oldest}, but was at {known}: etcd was restored from a backup. "
            "The operator exits to begin with empty caches"
        )
    store.note_version(newest)
    listed_keys = [key for key in before if not versions.keys().isdisjoint((None, key.namespace))]
    lost = [key for key in listed_keys if before[key].uid not in existing]
    for key in lost:
        store.drop_job(key, before[key].uid, version=newest)
    return lost


async def run_sweep(
    client: KubeClient,
    store: Store,
    namespaces: tuple[str, ...],
    *,
    selector: str,
    look_for_policy: Callable[[], Awaitable[None]],
) -> None:
    """Sweeps and looks for the admission policy every few minutes, until cancelled. Raises WentBack."""
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        await look_for_policy()
        try:
            lost = await sweep_once(client, store, namespaces, selector=selector)
        except KubeError as error:
            log.warning("sweep: %s", error)
        else:
            if lost:
                log.info("sweep: forgot %d jobs that are gone", len(lost))
