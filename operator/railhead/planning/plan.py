"""A plan: what one pass wants to be done, as frozen values. `controller/executor.py` does it.

The status write is the intent and comes first; when it does not succeed, nothing else of
the plan is done. Creates are idempotent by name, deletes name the uid that they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from railhead.planning.pod_view import PodView

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
    grace_seconds: int | None = None


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
class Plan:
    """All that one pass wants. An empty plan means: nothing to do until something changes.

    Attributes:
        announced: the commit that its events tell of.
        ask: the pod whose events may tell why it does not start.
    """

    status: StatusWrite | None = None
    creates: tuple[Create | CopyConfigMap, ...] = ()
    deletes: tuple[Delete, ...] = ()
    events: tuple[Event, ...] = ()
    removes: tuple[Remove, ...] = ()
    last: StatusWrite | None = None  # when all else is done: what cannot be seen afterwards is remembered so
    wake_at: datetime | None = None
    announced: int | None = None
    ask: PodView | None = None

    @property
    def is_empty(self) -> bool:
        writes = self.status or self.last
        return writes is None and not (self.creates or self.deletes or self.removes or self.events)
