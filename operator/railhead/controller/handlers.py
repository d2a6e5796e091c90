"""kopf's handlers: TrainJobs come into the store, their keys into the queue. Nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

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
    settings.process.ultimate_exiting_timeout = 5
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return settings
