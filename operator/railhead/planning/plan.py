"""A plan: the actions of one pass, as frozen values. `controller/executor.py` executes it.

The status write is the intent and comes first, but for the removal of what it forgets; if it fails, the executor skips
the rest of the plan. Creates are idempotent by name, deletes carry the uid of their pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, IntEnum
from typing import Any, Literal

from railhead.api.status import JobStatus
from railhead.planning.observed import Announced, ChildKind, Observed, Remove
from railhead.planning.pod_view import PodView
from railhead.planning.wanted_status import StatusWrite, WantedStatus


class OwnedBy(Enum):
    """The owner of a child."""

    JOB = "the TrainJob"
    INPUT = "the ConfigMap with the job's input"
    NAMESPACE = "no job: it is the same for all jobs of the namespace"


class Verify(Enum):
    """What an object that exists already must share with a child to be used in its place."""

    CONTENT = "owner and content"
    OWNER = "the owner"
    NOTHING = "only the name: the operator has no right to read it"


class Step(IntEnum):
    """The order in which children are created, as far as one refers to another."""

    PROBE = 0
    PREREQUISITES = 1
    OWNED = 2
    PODS = 3


@dataclass(frozen=True)
class ChildPolicy:
    """How the children of one kind are created. What exists of a namespace is looked for first; it is there mostly.

    Attributes:
        is_strict: a field that the API server does not know is an error, because the user may have written it.
        is_watched: the operator watches the kind, and caches the API server's responses.
    """

    kind: ChildKind
    owned_by: OwnedBy
    verify: Verify
    step: Step = Step.PREREQUISITES
    is_strict: bool = False
    is_watched: bool = False


HEADS_SERVICE = ChildPolicy("Service", OwnedBy.NAMESPACE, Verify.CONTENT)
DRIVER = ChildPolicy("ConfigMap", OwnedBy.NAMESPACE, Verify.CONTENT)
INPUT = ChildPolicy("ConfigMap", OwnedBy.JOB, Verify.CONTENT)
SOURCE = ChildPolicy("ConfigMap", OwnedBy.JOB, Verify.OWNER)
SECRET = ChildPolicy("Secret", OwnedBy.INPUT, Verify.NOTHING, Step.OWNED)  # its name has the digest of its content
NETWORK_POLICY = ChildPolicy("NetworkPolicy", OwnedBy.JOB, Verify.OWNER)  # its operator may have had other settings
POD_GROUP = ChildPolicy("PodGroup", OwnedBy.JOB, Verify.OWNER)
WORKLOAD = ChildPolicy("Workload", OwnedBy.JOB, Verify.OWNER, is_watched=True)
QUOTA_PROBE = ChildPolicy("Pod", OwnedBy.JOB, Verify.NOTHING, Step.PROBE)  # a dry run; only a quota's refusal counts
POD = ChildPolicy("Pod", OwnedBy.JOB, Verify.OWNER, Step.PODS, is_strict=True, is_watched=True)


@dataclass(frozen=True)
class Create:
    """One child to create; it may already exist.

    Attributes:
        build: its body; called when it is sent, which may be never.
        owner: name of the ConfigMap in the same plan that owns it, if the policy says INPUT.
        older: created instead where the API server does not serve the version of this one.
    """

    policy: ChildPolicy
    name: str
    build: Callable[[], Mapping[str, Any]] = field(compare=False)
    owner: str = ""
    older: Create | None = None

    @property
    def kind(self) -> ChildKind:
        return self.policy.kind


@dataclass(frozen=True)
class CopyConfigMap:
    """A child with the current data of a user's ConfigMap; once it exists, it is not updated.

    Attributes:
        source: name of the user's ConfigMap.
        keys: the keys to copy; empty = all.
        build: the child without its data.
        field: the field of the spec, for the message about a missing source.
    """

    name: str
    source: str
    keys: tuple[str, ...]
    build: Callable[[], Mapping[str, Any]] = field(compare=False)
    field: str
    policy: ChildPolicy = SOURCE

    @property
    def kind(self) -> ChildKind:
        return self.policy.kind


@dataclass(frozen=True)
class Delete:
    """One pod to delete: exactly this uid, or nothing."""

    name: str
    uid: str


@dataclass(frozen=True)
class WorkloadPatch:
    """A change of the job's Workload: exactly of this version, or nothing.

    Attributes:
        version: its resourceVersion.
        fields: by top-level key what is merged into the object (RFC 7386).
        subresource: status, or "" for the object itself.
    """

    name: str
    version: str
    fields: Mapping[str, Mapping[str, Any]]
    subresource: Literal["", "status"] = ""


@dataclass(frozen=True)
class DeleteJob:
    """The TrainJob to delete: exactly this version of it, or nothing. Garbage collection deletes its children."""

    uid: str
    version: int


def delete_all(pods: Iterable[PodView]) -> tuple[Delete, ...]:
    """Deletes these pods, except those that are already being deleted."""
    # A pod that is being deleted needs no second request, which each pass until its end would send.
    return tuple(Delete(pod.name, pod.uid) for pod in pods if not pod.is_deleting)


@dataclass(frozen=True)
class Event:
    """A Kubernetes event about the TrainJob. A repeated message raises the count of the same event.

    Attributes:
        is_series: one event for all messages of the reason, with the newest message.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    is_series: bool = False


@dataclass(frozen=True)
class Effects:
    """The actions of a pass other than the status write.

    Attributes:
        forgotten: what no status names any more once this pass has written its own. It is removed before that: an
            operator that died in between would leave it until the job is deleted. A denied delete holds nothing up.
        wake_at: when to reconcile the job again even if nothing changes.
        announced: what has an event after its own; None = nothing new.
        look_up_events_of: the pod whose events may explain why it does not start.
        workload: what changes in the job's Workload, after the deletes and before the creates.
    """

    creates: tuple[Create | CopyConfigMap, ...] = ()
    deletes: tuple[Delete, ...] = ()
    removes: tuple[Remove, ...] = ()
    forgotten: tuple[Remove, ...] = ()
    delete_job: DeleteJob | None = None
    events: tuple[Event, ...] = ()
    wake_at: datetime | None = None
    announced: Announced | None = None
    look_up_events_of: PodView | None = None
    workload: WorkloadPatch | None = None


@dataclass(frozen=True)
class Decision(Effects):
    """The result of a decision, completed by amendments. An empty one means: nothing to do until something changes.

    Attributes:
        wanted: the intent, written before anything else is done; None = nothing needs to be written.
        last: written when everything else is done; it records what cannot be observed afterwards.
    """

    wanted: WantedStatus | None = None
    last: WantedStatus | None = None

    def status_after(self, observed: Observed) -> JobStatus:
        """Returns the status that the job has after this decision, but for `last`."""
        if self.wanted is None:
            return observed.status
        return self.wanted.status

    def with_status(self, status: JobStatus) -> Decision:
        """Returns the decision with this status to write, also of a guard; what it requires stays."""
        # A guard that gets a status becomes a write, and keeps what it requires.
        wanted = self.wanted or WantedStatus(status)
        return replace(self, wanted=replace(wanted, status=status, is_guard=False))

    def with_wake_by(self, at: datetime | None) -> Decision:
        """Returns the decision with a wake-up at this time at the latest."""
        if at is None or (self.wake_at is not None and self.wake_at <= at):
            return self
        return replace(self, wake_at=at)


@dataclass(frozen=True)
class Plan(Effects):
    """A decision with its wanted statuses turned into writes; one that the job has already is left out."""

    status: StatusWrite | None = None
    last: StatusWrite | None = None
