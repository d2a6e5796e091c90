"""Kubernetes events about TrainJobs. The name of an event is a function of what it says: said again, it is counted."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from typing import Any

from railhead.api import names
from railhead.api.job import JobKey
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.kinds import EVENT
from railhead.planning.plan import Event

log = logging.getLogger(__name__)


class EventRecorder:
    """Posts events; what the API server refuses is logged and forgotten, for events are only words."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def record(self, key: JobKey, uid: str, event: Event) -> None:
        what = "" if event.is_series else event.message
        digest = hashlib.sha256(f"{uid}/{event.reason}/{what}".encode()).hexdigest()[:16]
        name = f"{key.name}.{digest}"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:1024],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": "railhead"},
            "reportingComponent": names.MANAGER,
            "reportingInstance": "railhead",
        }
        try:
            await self._post(key, name, body)
        except KubeError as error:
            log.warning("event %s of %s/%s was not posted: %s", event.reason, key.namespace, key.name, error)

    async def _post(self, key: JobKey, name: str, body: dict[str, Any]) -> None:
        try:
            await self._client.create(EVENT, body, namespace=key.namespace)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise
            known = await self._client.get(EVENT, name, namespace=key.namespace)
            again = {"message": body["message"], "lastTimestamp": body["lastTimestamp"]}
            again["count"] = int(known.get("count") or 1) + 1
            await self._client.patch(EVENT, name, again, type_="merge", namespace=key.namespace)
