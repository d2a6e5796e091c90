"""The watch of TrainJobs. Nothing else knows kopf, and kopf is used for this only:

1. It finds the resource by discovery, and logs in again when its credentials expire.
2. It lists the TrainJobs in pages and passes each one to one handler, with event type None.
3. It watches from there with bookmarks, reconnects after an error or silence, and lists again after a 410 event.
4. It delivers the events of one job in order, and those of different jobs concurrently.
5. It ends with an error that it cannot handle; then the operator ends, and Kubernetes restarts it.

It keeps no state in annotations or finalizers: `loop.py` reconciles. A deletion that it missed it
never reports: see `sweep.py`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import kopf

from railhead.api import names
from railhead.kube.types import Object
from railhead.together import run_together

log = logging.getLogger(__name__)
OnJob = Callable[[str | None, Object], None]
EXPIRED = 410
# The API server stores JSON of 10,000 levels, and trainLoopConfig may have as many. To Python's parser each is a call:
# with its default of 1000, one such job would end the watch of all jobs, again and again.
MOST_CALLS = 20_000
WORKER_IDLE_SECONDS = 0.2  # kopf keeps a task and the last event of each job for that long: at a start, of all jobs


@dataclass(frozen=True)
class WatchLimits:
    """How kopf lists and watches.

    Attributes:
        page_size: jobs per request of a list. 10,000 jobs are 20 requests then, as many as client-go would send, and
            the process peaks at 153 MB (docs/benchmarks.md); in one page all would be in memory at once.
        request_timeout_seconds: for one page. kopf's default of 5 minutes is as long as the API server keeps the
            version of a list, so the page after one that hangs would always be too late.
        inactivity_timeout_seconds: a watch without an event or bookmark for that long is dead. The API server
            sends a bookmark each minute (plus up to 1.25 s) and caches events for 75 s: between the two, a
            healthy watch is never cut off, and the next one continues where a dead one ended.
        label_selector: of the jobs; "" = all. The API server reports one whose labels match no more as deleted.
        relist_pause_seconds: between a 410 that stopped kopf and the next list, so as not to flood a server
            that answers every request with 410.
    """

    page_size: int = 500
    request_timeout_seconds: float = 60.0
    inactivity_timeout_seconds: float = 70.0
    relist_pause_seconds: float = 5.0
    label_selector: str = ""


class NoDiffs(kopf.DiffBaseStorage):
    """kopf copies each object for handlers of changes, which do not exist here: a tenth of the operator's time."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


def build_registry(on_job: OnJob) -> kopf.OperatorRegistry:
    """Builds a separate registry, so that two operators in one process (tests) do not share handlers.

    `on_job` receives the event's type (None while listing) and the raw object; it must not block.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def trainjob(event: Any, **_: Any) -> None:
        on_job(event["type"], dict(event["object"]))

    @kopf.on.login(registry=registry, retries=3)
    async def login(**kwargs: Any) -> Any:
        return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)

    return registry


def build_settings(limits: WatchLimits) -> kopf.OperatorSettings:
    """kopf only watches: no peering, no events, no scanning for CRDs, no annotations."""
    settings = kopf.OperatorSettings()
    if limits.label_selector:
        settings.watching.label_selectors[names.GROUP, names.VERSION, names.PLURAL] = limits.label_selector
    settings.watching.chunk_size = limits.page_size
    settings.watching.inactivity_timeout = limits.inactivity_timeout_seconds
    settings.networking.request_timeout = limits.request_timeout_seconds
    settings.persistence.diffbase_storage = NoDiffs()
    settings.queueing.idle_timeout = WORKER_IDLE_SECONDS
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None  # the operator handles its own shutdown
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return settings


async def watch_jobs(
    on_job: OnJob,
    namespaces: tuple[str, ...],
    *,
    on_signal: Callable[[], None],
    limits: WatchLimits = WatchLimits(),
) -> None:
    """Passes every selected TrainJob of these namespaces (or of all) to `on_job`, until it is cancelled.

    Each namespace has its own kopf: when one watch fails, kopf leaves those of the other
    namespaces running, and could not be restarted next to them.
    """
    sys.setrecursionlimit(MOST_CALLS)
    scopes: list[tuple[str, ...]] = [(namespace,) for namespace in namespaces] or [()]
    await run_together(*(_watch_scope(on_job, scope, on_signal=on_signal, limits=limits) for scope in scopes))


async def _watch_scope(
    on_job: OnJob, namespaces: tuple[str, ...], *, on_signal: Callable[[], None], limits: WatchLimits
) -> None:
    """Runs kopf, and restarts it when it stops with a 410: a list page or a watch request came too late.

    Each restart doubles the page size: a list that keeps expiring ends up as a single page, which cannot expire.
    """
    while True:
        try:
            return await _run_kopf(on_job, namespaces, on_signal=on_signal, limits=limits)
        except Exception as error:
            if getattr(error, "status", None) != EXPIRED:  # kopf does not export its APIError
                raise
        limits = replace(limits, page_size=2 * limits.page_size)
        log.warning("a list or watch of TrainJobs expired (410); listing again, %d per page", limits.page_size)
        await asyncio.sleep(limits.relist_pause_seconds)


async def _run_kopf(
    on_job: OnJob, namespaces: tuple[str, ...], *, on_signal: Callable[[], None], limits: WatchLimits
) -> None:
    """Runs kopf until it fails or is cancelled; it never returns otherwise.

    `kopf.run_tasks` is no option: on exit it cancels every task of the process that is younger than kopf. And kopf
    installs its own SIGTERM and SIGINT handlers; they are replaced, so that the operator shuts down in its own order.
    """
    tasks = await kopf.spawn_tasks(
        registry=build_registry(on_job),
        settings=build_settings(limits),
        standalone=True,
        # Unused without peering; but kopf would look up a user name, which a numeric user does not have.
        identity=cast(Any, "railhead"),
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await run_together(*tasks)
