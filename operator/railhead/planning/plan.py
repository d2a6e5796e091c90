"""A plan: what one pass wants to be done, as frozen values. `controller/executor.py` does it.

The status write is the intent and comes first; when it does not succeed, nothing else of
the plan is done. Creates are idempotent by name, deletes name the uid that they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from railhead.planning.pod_view import PodView
from railhead.planning.status_change import StatusChange

ChildKind = Literal["Pod", "Service", "Secret", "ConfigMap", "NetworkPolicy"]


@dataclass(frozen=True)
class Create:
    """One child to make; it is fine when it already exists."""

    kind: ChildKind
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True)
class CopyConfigMap:
    """A child with the data that a ConfigMap of the user has now; once it exists it is never made again.

    Attributes:
        source: name of the user's ConfigMap.
        keys: which keys; empty = all.
        body: the child without its data.
        field: of the spec, for words about a source that is not there.
    """

    source: str
    keys: tuple[str, ...]
    body: Mapping[str, Any]
    field: str
    kind: ChildKind = "ConfigMap"

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True)
class Delete:
    """One pod to remove: exactly this uid, or nothing."""

    name: str
    uid: str


@dataclass(frozen=True)
class Remove:
    """One child other than a pod to remove, by its name, in which the job's uid is; it is fine when it is gone."""

    kind: ChildKind
    name: str


def delete_all(pods: Iterable[PodView]) -> tuple[Delete, ...]:
    """These pods, without those that are on their way out."""
    return tuple(Delete(pod.name, pod.uid) for pod in pods if not pod.is_deleting)


@dataclass(frozen=True)
class StatusWrite:
    """Fields of the status to set, and what must still be true of the object for it.

    Attributes:
        fields: top-level status key -> JSON value; None takes the key away.
        tests: JSON pointer -> value that the object must have (compare-and-set).
        pods: uids of the job's pods as they were seen, when something ends or begins for what is or is not among
            them: the API server must know of no others. None = no matter.
    """

    fields: Mapping[str, Any]
    tests: Mapping[str, Any]
    pods: frozenset[str] | None = None


@dataclass(frozen=True)
class Event:
    """A Kubernetes event about the TrainJob. The same words again are counted in the same event.

    Attributes:
        is_series: there is one for all events of the reason, with the newest message.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    is_series: bool = False


@dataclass(frozen=True)
class Effects:
    """What a pass wants beside the status.

    Attributes:
        wake_at: when the job is looked at again although nothing changes.
        announced: the commit that its events tell of.
        look_up_events_of: the pod whose events may tell why it does not start.
    """

    creates: tuple[Create | CopyConfigMap, ...] = ()
    deletes: tuple[Delete, ...] = ()
    removes: tuple[Remove, ...] = ()
    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None
    announced: int | None = None
    look_up_events_of: PodView | None = None


@dataclass(frozen=True)
class Decision(Effects):
    """What a decision answers and amendments complete. An empty one means: nothing to do until something changes.

    Attributes:
        status: the intent, before anything else is done.
        last: when all else is done; what cannot be seen afterwards is remembered so.
    """

    status: StatusChange | None = None
    last: StatusChange | None = None

    def waking(self, at: datetime | None) -> Decision:
        """At the latest then."""
        times = [each for each in (self.wake_at, at) if each is not None]
        return replace(self, wake_at=min(times, default=None))


@dataclass(frozen=True)
class Plan(Effects):
    """A decision whose status changes have become writes; what changes nothing is not in it."""

    status: StatusWrite | None = None
    last: StatusWrite | None = None
