"""kopf's part: the watch of TrainJobs. Nothing else knows kopf."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any, cast

import kopf

from railhead.api import names

OnJob = Callable[[str | None, dict[str, Any]], None]


def build_registry(on_job: OnJob) -> kopf.OperatorRegistry:
    """A registry of its own, so that two operators in one process (tests) do not share handlers.

    `on_job` is called with the event's type (None while listing) and the raw object; it
    must not block.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def trainjob(event: Any, **_: Any) -> None:
        on_job(event["type"], dict(event["object"]))

    @kopf.on.login(registry=registry, retries=3)
    async def login(**kwargs: Any) -> Any:
        return kopf.login_with_kubeconfig(**kwargs) or kopf.login_with_service_account(**kwargs)

    return registry


def build_settings() -> kopf.OperatorSettings:
    """kopf only watches: no peering, no events, no scanning for CRDs, no annotations."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None  # the end is the operator's own affair
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return settings


async def watch_jobs(on_job: OnJob, namespaces: tuple[str, ...], *, on_signal: Callable[[], None]) -> None:
    """Tells of every TrainJob, of these namespaces or of all, until it is cancelled.

    kopf takes SIGTERM and SIGINT for itself, and would wait for all tasks of the process
    before it ends. They are taken back, so that the operator ends in its own order.
    """
    existing = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=build_registry(on_job),
        settings=build_settings(),
        standalone=True,
        # Unused without peering; but kopf would ask for a user name, which a numeric user has not.
        identity=cast(Any, "railhead"),
        clusterwide=not namespaces,
        namespaces=namespaces,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    await kopf.run_tasks(tasks, ignored=existing)
