"""Kubernetes Events about TrainJobs. A repeated Event increments its count."""

from __future__ import annotations

import logging
from typing import Any

from railhead.api import names
from railhead.api.job import JobKey
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.event import build_event
from railhead.kube.kinds import EVENT
from railhead.planning.plan import Event

log = logging.getLogger(__name__)


class EventRecorder:
    """Posts Events. A rejected Event is logged and dropped: Events are informational only."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def record(self, key: JobKey, uid: str, event: Event) -> None:
        about = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
        }
        built = build_event(
            about,
            type_=event.type,
            reason=event.reason,
            message=event.message,
            component="railhead",
            identity="" if event.is_series else None,
        )
        body = {**built, "reportingComponent": names.MANAGER, "reportingInstance": "railhead"}
        try:
            await self._post(key, body)
        except KubeError as error:
            log.warning("event %s of %s/%s was not posted: %s", event.reason, key.namespace, key.name, error)

    async def _post(self, key: JobKey, body: dict[str, Any]) -> None:
        try:
            await self._client.create(EVENT, body, namespace=key.namespace)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise
            name = body["metadata"]["name"]
            known = await self._client.get(EVENT, name, namespace=key.namespace)
            again = {"message": body["message"], "lastTimestamp": body["lastTimestamp"]}
            again["count"] = int(known.get("count") or 1) + 1
            await self._client.patch(EVENT, name, again, type_="merge", namespace=key.namespace)
