"""What follows an interruption: by Railhead's own rules, or with new pods each time. Pure.

The seconds of a start are measured: docs/internals/benchmarks.md has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from benchmarks.goodput_simulation.faults import HEAD, Fault, Kind
from railhead.api import names
from railhead.api.attempts import Attempt
from railhead.api.parsed_spec import parse_spec
from railhead.api.status import (
    Budget,
    CheckpointStatus,
    FailureStatus,
    JobStatus,
    ProgressStatus,
    RestartStatus,
    WorkersStatus,
    replace_status,
)
from railhead.contract.failure import Failure, FailureClass, Payer
from railhead.contract.times import format_time
from railhead.driver.messages.rank_errors import RankErrorKind as ErrorKind
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
    RestartHistory,
    classify_failure,
    decide_retry,
    is_of_broken_gpu,
)
from railhead.planning.facts.avoided_nodes import compute_avoidance
from railhead.planning.facts.failure_budget import charge_failures, count_allowed_restarts
from railhead.planning.facts.lost_workers import replacement_at
from railhead.planning.facts.settlement import settle
from railhead.planning.job import Job
from railhead.planning.observed import Observed
from railhead.planning.pod_view import PodView
from railhead.resources.base import OperatorSettings

FRESH = (13.0, 10.6)  # make bench-head-loss: a fresh job
HEAD_LOST = (10.7, 11.8)  # likewise: from the loss of the head to the first step
WORKER_LOST = (6.1, 6.7, 6.5)  # make bench-worker-loss
IN_PLACE = (6.9, 16.9)  # make bench-in-place
NEW_ATTEMPT = (24.6, 24.1)  # likewise: the error is left to the operator
_START = datetime(2026, 1, 1, tzinfo=UTC)
_SETTINGS = OperatorSettings(report_url="", report_ca="", bundle=b"", bundle_name="", token_key=b"")
_ERRORS = {
    Kind.GPU: ErrorKind.GPU,
    Kind.SOFTWARE: ErrorKind.RAISED,
    Kind.NETWORK: ErrorKind.NETWORK,
    Kind.HANG: ErrorKind.UNANSWERED,
}


class GaveUp(Exception):
    """The rules let the job fail."""


@dataclass(frozen=True)
class Loss:
    """An interruption of a group.

    Attributes:
        node: of the pod that the fault hit; empty for the head's.
        trained: seconds of training since the last interruption; `commits`: checkpoints since then.
    """

    fault: Fault
    node: str
    trained: float
    commits: int


@dataclass(frozen=True)
class Response:
    """What follows.

    Attributes:
        starts: seconds from running pods to the first step, of which one is drawn.
        slots: of the worker pods that are replaced; None = all pods are new.
        delay: seconds until new pods are created.
        avoided: nodes that new pods avoid.
    """

    starts: Sequence[float]
    slots: tuple[int, ...] | None = None
    delay: float = 0.0
    avoided: tuple[str, ...] = ()


class Rules(Protocol):
    """Says what follows an interruption."""

    def respond(self, loss: Loss) -> Response: ...


class NewPods:
    """Replaces all pods at once after any interruption, and avoids no node."""

    def respond(self, loss: Loss) -> Response:  # noqa: ARG002
        return Response(HEAD_LOST + NEW_ATTEMPT)


class Railhead:
    """Asks the driver's and the operator's own functions, with a job in the state that they need."""

    def __init__(self, slots: int, *, limits: Mapping[str, int]) -> None:
        """`limits`: fields of the spec."""
        spec = {
            **limits,
            "image": "train:1",
            "trainer": {"trainFunc": "train:main"},
            "scaling": {"numWorkers": slots, "useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 8}},
            "run": {"storagePath": "/runs"},
        }
        self._spec = parse_spec(spec)
        self._status = JobStatus(attempt=1, workers=WorkersStatus(desired=slots, ready=slots, joined=slots))
        self._restarts = self._same = self._hangs = 0
        self._last: tuple[FailureClass, str] | None = None

    def respond(self, loss: Loss) -> Response:
        """Raises GaveUp if the job fails."""
        self._note(loss)
        now = _START + timedelta(seconds=loss.fault.at)
        pod = f"worker-{loss.fault.slot}"
        if loss.fault.slot == HEAD:
            failure = Failure(FailureClass.INFRASTRUCTURE, "NodeLost", "the head's node is lost")
            return self._begin_attempt(failure, loss, now)
        facts = _find_facts(loss, pod)
        failure = classify_failure(facts)
        self._count(failure)
        allowed = count_allowed_restarts(self._spec, self._status, now)
        history = RestartHistory(unexplained=self._same, same=self._same, hangs=self._hangs, allowed=allowed)
        if not decide_retry(facts, failure, history):
            return self._begin_attempt(failure, loss, now)
        return self._restart(failure, loss, pod, now)

    def _note(self, loss: Loss) -> None:
        """Adds the training and the checkpoints since the last interruption to the status."""
        now = _START + timedelta(seconds=loss.fault.at)
        changes: dict[str, object] = {}
        if not self._status.attempts and loss.trained:
            began = format_time(now - timedelta(seconds=loss.trained))
            changes["attempts"] = [Attempt(number=self._status.attempt, running_time=began)]
        if loss.commits:
            index = self._status.newest_index + loss.commits
            changes["checkpoint"] = CheckpointStatus(index=index, attempt=self._status.attempt, time=format_time(now))
            self._last = None
        if self._status.budget is not None:
            seconds = self._status.budget.running_seconds + int(loss.trained)
            changes["budget"] = Budget(running_seconds=seconds, checkpoint=self._status.budget.checkpoint)
        self._status = self._status.model_copy(update=changes)

    def _count(self, failure: Failure) -> None:
        kind = (failure.class_, failure.reason)
        self._same = self._same + 1 if kind == self._last else 1
        self._hangs += failure.class_ is FailureClass.HANG
        self._last = kind

    def _restart(self, failure: Failure, loss: Loss, pod: str, now: datetime) -> Response:
        """Restarts the group in its pods, of which a lost one, or that of a broken GPU, is replaced first."""
        self._restarts += 1
        restart = RestartStatus(
            number=self._restarts,
            class_=failure.class_,
            reason=failure.reason,
            suspect_pod=failure.suspect_pod,
            time=format_time(now),
        )
        progress = ProgressStatus(attempt=self._status.attempt, restart=restart)
        self._status = self._status.model_copy(update={"progress": progress})
        lost = PodView(pod, pod, names.WORKER, self._status.attempt, loss.fault.slot, node=loss.node, is_deleting=True)
        job = self._observe(now, lost)
        if failure.class_.policy.payer is Payer.APPLICATION:
            self._status = charge_failures(job, self._status, 1)
        if loss.fault.kind is not Kind.HOST and not is_of_broken_gpu(failure):
            return Response(IN_PLACE, slots=())
        delay = (replacement_at(job) - now).total_seconds()
        return Response(WORKER_LOST, slots=(loss.fault.slot,), delay=delay, avoided=self._avoid(job))

    def _begin_attempt(self, failure: Failure, loss: Loss, now: datetime) -> Response:
        """All pods are new, those that are left end."""
        recorded = FailureStatus(
            class_=failure.class_,
            reason=failure.reason,
            attempt=self._status.attempt,
            suspect_node=loss.node if failure.suspect_pod else "",
            time=format_time(now),
        )
        self._status = self._status.model_copy(update={"failure": recorded})
        job = self._observe(now)
        settlement = settle(job, recorded, committed=self._status.newest_index)
        if settlement.refusal:
            raise GaveUp(settlement.refusal)
        avoided = self._avoid(job)
        counted = settlement.count(self._status)
        self._status = replace_status(counted, attempt=self._status.attempt + 1, attempts=None)
        self._restarts = self._hangs = 0
        self._last = None
        delay = max((settlement.next_attempt_at - now).total_seconds(), 0.0)
        return Response(HEAD_LOST if loss.fault.slot == HEAD else NEW_ATTEMPT, delay=delay, avoided=avoided)

    def _avoid(self, job: Job) -> tuple[str, ...]:
        found = compute_avoidance(job)
        lists = {"avoided_nodes": list(found.nodes), "formerly_avoided_nodes": list(found.former)}
        self._status = self._status.model_copy(update=lists)
        return tuple(node.name for node in found.nodes)

    def _observe(self, now: datetime, *pods: PodView) -> Job:
        observed = Observed(now, "default", "job", "uid", 1, False, self._spec, self._status, pods, _SETTINGS)
        return Job.of(observed, self._spec)


def _find_facts(loss: Loss, pod: str) -> FailureFacts:
    """What the driver finds: a lost node, or the error of a rank."""
    if loss.fault.kind is Kind.HOST:
        return FailureFacts(FailureOrigin.WORKERS, lost_nodes=(loss.node,), lost_pods=(pod,))
    error = RankError(loss.fault.slot, _ERRORS[loss.fault.kind], loss.fault.kind.value, pod=pod)
    return FailureFacts(FailureOrigin.WORKERS, errors=(error,))
