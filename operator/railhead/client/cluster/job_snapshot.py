"""What a command sees of one job at one moment: the job, its pods and its events, as values with queries. Pure.

Pods and events come from the cluster and may hold anything; a part of an unexpected type counts as absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from railhead.api import names
from railhead.api.status import JobStatus, parse_status
from railhead.client.cluster.job_rows import count_gpus
from railhead.contract.loss_rate import NO_JOB_LOSSES, JobLosses
from railhead.contract.times import parse_time
from railhead.json_object import Object, part, parts, text

BEFORE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class PodState:
    """One pod of the job.

    Attributes:
        slot: of a worker pod; -1 for a head.
        host: the IP address of its node; "" before it has one.
        reason: why it does not run, or how it ended; empty while it runs.
        message: of the component that gave the reason.
    """

    name: str
    role: str
    attempt: int
    slot: int
    node: str
    host: str
    phase: str
    reason: str
    message: str
    is_deleting: bool

    @property
    def is_running(self) -> bool:
        return self.phase == "Running" and not self.reason and not self.is_deleting


@dataclass(frozen=True)
class EventNote:
    """One event about the job; a repeated event has the time of its last occurrence."""

    at: datetime | None
    type: str
    reason: str
    message: str
    count: int


@dataclass(frozen=True)
class JobSnapshot:
    """One job.

    Attributes:
        job: the TrainJob.
        now: the API server's time.
        notes: what could not be read, as sentences.
        namespace_losses: of the namespace's jobs, where the job's own say too little.
    """

    job: Object
    raw_pods: tuple[Object, ...]
    raw_events: tuple[Object, ...]
    now: datetime
    notes: tuple[str, ...] = ()
    namespace_losses: JobLosses = NO_JOB_LOSSES

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.job["metadata"].get("namespace") or "")

    @cached_property
    def spec(self) -> Object:
        return part(self.job, "spec")

    @cached_property
    def status(self) -> JobStatus:
        """Returns the status, with the time until the driver's last report."""
        # A list of jobs, which needs no snapshot, would begin later with the planner imported.
        from railhead.planning.facts.goodput_account import settle_reported_time

        status = parse_status(self.job.get("status"))
        return settle_reported_time(status, gpus=count_gpus(part(self.spec, "scaling"), status.workers.desired))

    @property
    def is_deleting(self) -> bool:
        return bool(self.job["metadata"].get("deletionTimestamp"))

    @property
    def created_at(self) -> datetime | None:
        return parse_time(text(self.job["metadata"], "creationTimestamp"))

    @cached_property
    def pods(self) -> tuple[PodState, ...]:
        """Returns the pods, the newest attempt first, its head before its workers."""
        return tuple(sorted(map(read_pod, self.raw_pods), key=_rank_pod))

    @cached_property
    def current_pods(self) -> tuple[PodState, ...]:
        """Returns the pods of the current attempt."""
        return tuple(pod for pod in self.pods if pod.attempt == self.status.attempt)

    @cached_property
    def events(self) -> tuple[EventNote, ...]:
        """Returns the events, the oldest first."""
        return tuple(sorted(map(_read_event, self.raw_events), key=_read_time))


def _rank_pod(pod: PodState) -> tuple[int, int, str]:
    return -pod.attempt, pod.slot, pod.name


def _read_time(event: EventNote) -> datetime:
    return event.at or BEFORE


def read_pod(pod: Object) -> PodState:
    """Returns the state of one pod."""
    metadata = part(pod, "metadata")
    status = part(pod, "status")
    labels = part(metadata, "labels")
    reason, message = _read_problem(status)
    return PodState(
        name=text(metadata, "name"),
        role=text(labels, names.LABEL_ROLE),
        attempt=_number(text(labels, names.LABEL_ATTEMPT), 0),
        slot=_number(text(labels, names.LABEL_SLOT), -1),
        node=text(part(pod, "spec"), "nodeName"),
        host=text(status, "hostIP"),
        phase=text(status, "phase") or "Pending",
        reason=reason,
        message=message,
        is_deleting=bool(metadata.get("deletionTimestamp")),
    )


def _read_problem(status: Object) -> tuple[str, str]:
    """Returns the reason and message of the first container that waits or has ended, else of the scheduler."""
    for container in [*parts(status, "initContainerStatuses"), *parts(status, "containerStatuses")]:
        state = part(container, "state")
        waiting = part(state, "waiting")
        ended = part(state, "terminated")
        if waiting:
            return text(waiting, "reason") or "Waiting", text(waiting, "message")
        if ended and (ended.get("exitCode") != 0 or container.get("name") == names.CONTAINER):
            return text(ended, "reason") or "Ended", text(ended, "message")
    for condition in parts(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition, "reason"), text(condition, "message")
    return text(status, "reason"), text(status, "message")


def _read_event(event: Object) -> EventNote:
    series = part(event, "series")
    stamps = (text(event, "lastTimestamp"), text(series, "lastObservedTime"), text(event, "eventTime"))
    at = next((found for found in map(parse_time, stamps) if found is not None), None)
    count = event.get("count")
    return EventNote(
        at=at,
        type=text(event, "type"),
        reason=text(event, "reason"),
        message=text(event, "message"),
        count=count if isinstance(count, int) else 1,
    )


def _number(value: str, default: int) -> int:
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return default
