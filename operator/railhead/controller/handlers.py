"""The watch of TrainJobs. Nothing else knows kopf, and kopf is used for this only:

1. It finds the resource by discovery, and logs in again when its credentials expire.
2. It lists the TrainJobs in pages and passes each one to one handler, with event type None.
3. It watches from there with bookmarks, reconnects after an error or silence, and lists again after a 410 event.
4. It delivers the events of one job in order, and those of different jobs concurrently.

kopf gives up after a minute of errors, and waits without end for a CRD that it did not find at its start. So it starts
once the API server lists the namespace's jobs, and again after an answer that may be another one next time. It ends
with any other error; then the operator ends, and Kubernetes restarts it.

It passes on no bookmark and bounds no page by its bytes; `replace_parts_of_kopf` makes up for both.

It keeps no state in annotations or finalizers: `loop.py` reconciles. A deletion that it missed it
never reports: see `watch_guard.sweep_once`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import kopf
from kopf._cogs.clients import watching

from railhead.api import names
from railhead.controller.job_pages import fetch_pages
from railhead.json_object import Object
from railhead.kube.errors import KubeError, is_refusal
from railhead.kube.informer import WatchState
from railhead.kube.pages import PAGE_SIZE
from railhead.together import run_together

log = logging.getLogger(__name__)
OnJob = Callable[[str | None, Object], None]
Ask = Callable[[str | None], Awaitable[None]]
EXPIRED = 410
PASSING = (403, 404, EXPIRED, 429)  # and 5xx
LONGEST_PAUSE_SECONDS = 30.0
# kopf keeps a task and the last event of each job for that long: at a start, of all jobs.
WORKER_IDLE_SECONDS = 0.2


@dataclass(frozen=True)
class WatchLimits:
    """How kopf lists and watches.

    Attributes:
        page_size: jobs per request of a list; after a page with too many bytes, half as many (`kube/pages.py`).
        request_timeout_seconds: for one page. kopf's default of 5 minutes is as long as the API server keeps the
            version of a list, so the page after one that hangs would always be too late.
        inactivity_timeout_seconds: a watch without an event or bookmark for that long is dead. The API server
            sends a bookmark each minute (plus up to 1.25 s) and caches events for 75 s: between the two, a
            healthy watch is never cut off, and the next one continues where a dead one ended.
        label_selector: of the jobs; "" = all. The API server reports one whose labels match no more as deleted.
        relist_pause_seconds: between an error that stopped kopf and the next list, so as not to flood a server
            that answers every request with it.
        retry_seconds: the pauses between kopf's tries of one request; None = kopf's own, 54 s in all.
    """

    page_size: int = PAGE_SIZE
    request_timeout_seconds: float = 60.0
    inactivity_timeout_seconds: float = 70.0
    relist_pause_seconds: float = 5.0
    retry_seconds: tuple[float, ...] | None = None
    label_selector: str = ""


class NoDiffs(kopf.DiffBaseStorage):
    """kopf copies each object for handlers of changes, which do not exist here: a tenth of the operator's time."""

    def build(self, **_: object) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        pass


_on_delivery: ContextVar[Callable[[], None]] = ContextVar("on_delivery")  # kopf's tasks inherit it
_deliver: Callable[..., Any] = watching.continuous_watch  # kopf's own


async def _note_deliveries(**arguments: object) -> AsyncIterator[Any]:
    """Yields what kopf's watch delivers: listed objects, the end of a list, events and bookmarks."""
    async with aclosing(_deliver(**arguments)) as delivered:
        async for event in delivered:
            _on_delivery.get()()
            yield event


def replace_parts_of_kopf() -> None:
    """Puts two functions of ours into kopf, for all its watches of this process.

    kopf has no setting for either: it tells nobody of a bookmark, so a quiet watch would look like a dead one, and it
    reads each page of a list whole. A test compares the signatures with those of the kopf that is installed.
    """
    watching.continuous_watch = _note_deliveries
    cast(Any, watching).fetching = SimpleNamespace(fetch_objs=fetch_pages)


def build_registry(on_job: OnJob) -> kopf.OperatorRegistry:
    """Builds a separate registry, so that two operators in one process (tests) do not share handlers.

    `on_job` receives the event's type (None while listing) and the raw object; it must not block.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def trainjob(event: Any, **_: object) -> None:
        on_job(event["type"], dict(event["object"]))

    @kopf.on.login(registry=registry, retries=3)
    async def login(**kwargs: Any) -> Any:
        return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)

    return registry


def build_settings(limits: WatchLimits) -> kopf.OperatorSettings:
    """Lets kopf only watch: no peering, no events, no scanning for CRDs, no annotations."""
    settings = kopf.OperatorSettings()
    if limits.label_selector:
        settings.watching.label_selectors[names.GROUP, names.VERSION, names.PLURAL] = limits.label_selector
    settings.watching.chunk_size = limits.page_size
    settings.watching.inactivity_timeout = limits.inactivity_timeout_seconds
    settings.networking.request_timeout = limits.request_timeout_seconds
    # HTTPS_PROXY, NO_PROXY: as `kube.transport.find_proxy`.
    settings.networking.trust_env = True
    if limits.retry_seconds is not None:
        settings.networking.error_backoffs = limits.retry_seconds
    settings.persistence.diffbase_storage = NoDiffs()
    settings.queueing.idle_timeout = WORKER_IDLE_SECONDS
    settings.posting.enabled = False
    settings.scanning.disabled = True
    # The operator handles its own shutdown.
    settings.process.ultimate_exiting_timeout = None
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return settings


async def watch_jobs(
    on_job: OnJob,
    states: Sequence[WatchState],
    *,
    ask: Ask,
    on_signal: Callable[[], None],
    limits: WatchLimits = WatchLimits(),
) -> None:
    """Passes every selected TrainJob of these namespaces to `on_job`, until it is cancelled.

    Each namespace has its own kopf: when one watch fails, kopf leaves those of the other
    namespaces running, and could not be restarted next to them. `ask` raises KubeError while
    the API server does not list a namespace's jobs.
    """
    replace_parts_of_kopf()
    await run_together(*(_watch_scope(on_job, state, ask=ask, on_signal=on_signal, limits=limits) for state in states))


async def _watch_scope(
    on_job: OnJob, state: WatchState, *, ask: Ask, on_signal: Callable[[], None], limits: WatchLimits
) -> None:
    """Runs kopf, and restarts it when it stops with a passing error.

    A 410 means that a list page or a watch request came too late. Each one doubles the page size: a list that keeps
    expiring ends up as a single page, which cannot expire.
    """
    while True:
        await _wait_listed(state, ask)
        try:
            return await _run_kopf(on_job, state, on_signal=on_signal, limits=limits)
        except Exception as error:
            if not _is_passing(error):
                raise
            log.warning("watch of %s: %s; listing again", state.place, error)
            if _status_of(error) == EXPIRED:
                limits = replace(limits, page_size=2 * limits.page_size)
        await asyncio.sleep(limits.relist_pause_seconds)


async def _wait_listed(state: WatchState, ask: Ask) -> None:
    """Waits until the API server lists the namespace's jobs."""
    for tries in count():
        try:
            await ask(state.namespace)
        except KubeError as error:
            # A refusal may last for as long as a namespace is gone, so it is a state of the watch and no line of the
            # log each time.
            if is_refusal(error):
                state.refuse(error)
            else:
                log.warning("list of %s: %s", state.place, error)
        else:
            state.accept()
            return
        await asyncio.sleep(min(LONGEST_PAUSE_SECONDS, 2.0 ** min(tries, 8)))


def _status_of(error: Exception) -> int:
    # kopf does not export its APIError.
    return getattr(error, "status", 0)


def _is_passing(error: Exception) -> bool:
    """Returns whether the same request may succeed later."""
    status = _status_of(error)
    return status in PASSING or status >= 500 or isinstance(error, aiohttp.ClientConnectionError | TimeoutError)


async def _run_kopf(on_job: OnJob, state: WatchState, *, on_signal: Callable[[], None], limits: WatchLimits) -> None:
    """Runs kopf until it fails or is cancelled; it never returns otherwise.

    `kopf.run_tasks` is no option: on exit it cancels every task of the process that is younger than kopf. And kopf
    installs its own SIGTERM and SIGINT handlers; they are replaced, so that the operator shuts down in its own order.
    """
    _on_delivery.set(state.deliver)
    namespaces: tuple[str, ...] = ()
    if state.namespace is not None:
        namespaces = (state.namespace,)
    tasks = await kopf.spawn_tasks(
        registry=build_registry(on_job),
        settings=build_settings(limits),
        standalone=True,
        # Unused without peering; but kopf would look up a user name, which a numeric user does not have.
        identity=cast(Any, "railhead"),
        clusterwide=state.namespace is None,
        namespaces=namespaces,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await run_together(*tasks)
