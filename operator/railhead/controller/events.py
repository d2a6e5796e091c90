"""Kubernetes events about TrainJobs. The name of an event is a function of what it says: said twice, it stands once."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime

from railhead.api import names
from railhead.api.job import JobKey
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.kinds import EVENT
from railhead.planning.plan import Event

log = logging.getLogger(__name__)


class EventRecorder:
    """Posts events; what the API server refuses is logged and forgotten, for events are only words."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def record(self, key: JobKey, uid: str, event: Event) -> None:
        digest = hashlib.sha256(f"{uid}/{event.reason}/{event.message}".encode()).hexdigest()[:16]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name}.{digest}", "namespace": key.namespace},
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
            await self._client.create(EVENT, body, namespace=key.namespace)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                log.warning("event %s of %s/%s was not posted: %s", event.reason, key.namespace, key.name, error)
