"""Kubernetes Events: posts those about TrainJobs, and reads what those about a pod say.

A repeated Event increments its count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.contract.text import clean_text
from railhead.contract.times import parse_time
from railhead.json_object import Object
from railhead.kube.bodies import build_event
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, KubeError
from railhead.kube.kinds import EVENT
from railhead.planning.facts.reasons import POD_EVENTS
from railhead.planning.plan import Event
from railhead.planning.pod_view import Problem

log = logging.getLogger(__name__)
# From the kubelet, after all volumes are mounted and the pod has its network.
MOUNTED = frozenset({"Pulling", "Pulled", "Created", "Started"})
# From the cluster autoscaler (processors/status/eventing_scale_up_processor.go) and from Karpenter
# (pkg/controllers/provisioning/scheduling/events.go: NominatePodEvent).
NODE_ADDED = frozenset({"TriggeredScaleUp", "Nominated"})


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
        identity = None
        if event.is_series:
            identity = ""
        built = build_event(
            about,
            type_=event.type,
            reason=event.reason,
            message=event.message,
            component="railhead",
            identity=identity,
        )
        body = {**built, "reportingComponent": names.MANAGER, "reportingInstance": "railhead"}
        try:
            await self._post(key, body)
        except KubeError as error:
            log.warning("event %s of %s/%s was not posted: %s", event.reason, key.namespace, key.name, error)

    async def _post(self, key: JobKey, body: Object) -> None:
        try:
            await self._client.create(EVENT, body, namespace=key.namespace)
        except Conflict as error:
            if error.reason != "AlreadyExists":
                raise
            name = body["metadata"]["name"]
            known = await self._client.get(EVENT, name, namespace=key.namespace)
            again = {"message": body["message"], "lastTimestamp": body["lastTimestamp"]}
            # Not a compare-and-set: two operators may count one repetition once, which does no harm.
            again["count"] = int(known.get("count") or 1) + 1
            await self._client.patch(EVENT, name, again, namespace=key.namespace)


def find_problem(events: Iterable[Object]) -> Problem | None:
    """Returns the newest of a pod's Events that explains why it does not start; None if it has got further."""
    relevant = [event for event in events if event.get("reason") in POD_EVENTS | MOUNTED]
    newest = max(relevant, key=_rank, default=None)
    if newest is None or newest["reason"] in MOUNTED:
        return None
    reason = str(newest["reason"])
    return Problem(reason, clean_text(str(newest.get("message") or reason)))


def _rank(event: Object) -> tuple[str, bool]:
    return _time(event), event["reason"] in MOUNTED


def find_node_added(events: Iterable[Object]) -> datetime | None:
    """Returns when an autoscaler last said that it adds a node for the pod."""
    return parse_time(max((_time(event) for event in events if event.get("reason") in NODE_ADDED), default=""))


def _time(event: Object) -> str:
    """Returns the time in RFC 3339, whose texts sort like the times."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
