"""Finds watches that are dead, which deliver nothing although the API server answers, and what living ones miss.

The watches notice silence and errors themselves, and connect again. This is for what they cannot notice: a watch that
hangs in this process, or a proxy that withholds what the API server sends. `/healthz` fails then, and the kubelet
restarts the operator, which begins with new lists.

A watch that the API server refuses is not dead, nor is any while the API server is away. A dead one has been silent in
so many looks in a row, the later ones with an answer of the API server each. So an outage counts from its end only, and
so does the time for which this process was paused.

A quiet watch may lack its bookmarks: the API server sends none that is older than the watch, and by default etcd tells
its progress every ten minutes only. Asking helps: for a consistent list the API server asks etcd for its progress (from
Kubernetes 1.31 on, `ConsistentListFromCache`), and the next bookmark comes a minute later.

The sweep finds what the watches cannot tell: TrainJobs whose deletion kopf missed, since after a 410 it lists again but
does not compare the lists, and an etcd that was restored without a revision bump, whose versions are smaller than those
in the caches, which ignore them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from railhead.api.parsed_spec import JobKey
from railhead.controller.store import Store
from railhead.kube.client import KubeClient, Scope
from railhead.kube.errors import KubeError, is_refusal
from railhead.kube.informer import WatchState, parse_version, uid_of
from railhead.kube.kinds import TRAIN_JOB, Kind

log = logging.getLogger(__name__)
PERIOD_SECONDS = 15.0
# A bookmark comes each minute, plus up to 1.25 s; after this time the API server is asked.
LATE_SECONDS = 75.0
DEAD_SECONDS = 180.0
SWEEP_SECONDS = 300.0
SILENT_LOOKS = round(DEAD_SECONDS / PERIOD_SECONDS)


class WatchGuard:
    """Looks at all watches every PERIOD_SECONDS."""

    def __init__(self, watches: Sequence[WatchState], ask: Callable[[Kind, str | None], Awaitable[None]]) -> None:
        """`ask` lists one object of that kind and namespace, and raises KubeError."""
        self._watches = watches
        self._ask = ask
        self._silent = {watch: (watch.delivered_at, 0) for watch in watches}  # since when, and in how many looks

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.look()

    async def look(self) -> None:
        for watch in self._watches:
            since, looks = self._silent[watch]
            now = watch.delivered_at
            is_silent = since == now and not watch.is_refused
            # Asked only when a bookmark is overdue, so that a healthy watch costs no request.
            if is_silent and watch.age > LATE_SECONDS:
                is_silent = await self._is_answered(watch)
            self._silent[watch] = (now, looks + 1 if is_silent else 0)
            if is_silent and looks + 1 == SILENT_LOOKS:
                log.error("%s; /healthz fails until it does", _describe(watch))

    def list_problems(self) -> list[str]:
        """Returns a sentence about each dead watch."""
        return [
            _describe(watch)
            for watch, (since, looks) in self._silent.items()
            if looks >= SILENT_LOOKS and since == watch.delivered_at
        ]

    async def _is_answered(self, watch: WatchState) -> bool:
        try:
            await self._ask(watch.kind, watch.namespace)
        except KubeError:
            return False
        return True


def _describe(watch: WatchState) -> str:
    return f"the watch of {watch.place} has delivered nothing for {watch.age:.0f} s, although the API server answers"


class WentBack(Exception):
    """The API server's data is older than what was seen of it. The operator exits, and Kubernetes restarts it."""


async def sweep_once(
    client: KubeClient, store: Store, namespaces: tuple[str, ...], *, selector: str = ""
) -> list[JobKey]:
    """Forgets the jobs that are gone, or whose labels match no more; returns their keys. Raises WentBack.

    It leaves out a namespace that the API server refuses to list.
    """
    known = store.newest_version
    before = {record.key: record for record in store.all_records()}
    existing: set[str] = set()
    versions: dict[str | None, int] = {}
    for namespace in namespaces or (None,):
        try:
            scope = Scope(TRAIN_JOB, namespace, label_selector=selector)
            listed = await client.list_each(scope, uid_of, metadata_only=True)
        except KubeError as error:
            if not is_refusal(error):
                raise
            log.info("sweep: left out %s: %s", namespace or "all namespaces", error)
            continue
        versions[namespace] = parse_version(listed.version)
        existing.update(listed.items)
    if not versions:
        return []
    oldest = min(versions.values())
    newest = max(versions.values())
    # A list is never older than anything seen before it was requested.
    if oldest < known:
        raise WentBack(
            f"the API server is at version {oldest}, but was at {known}: etcd was restored from a backup. "
            "The operator exits to begin with empty caches"
        )
    # Lists have the newest version of all, also where no job has changed for long.
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
        await asyncio.sleep(SWEEP_SECONDS)
        await look_for_policy()
        try:
            lost = await sweep_once(client, store, namespaces, selector=selector)
        except KubeError as error:
            log.warning("sweep: %s", error)
        else:
            if lost:
                log.info("sweep: forgot %d jobs that are gone", len(lost))
