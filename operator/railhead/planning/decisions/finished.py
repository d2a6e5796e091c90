"""A finished job holds no worker pods. Its terminated head pod stays for the log, unless a sidecar still runs."""

from __future__ import annotations

from datetime import timedelta

from railhead.api.names import HEAD
from railhead.contract.failure import FailureClass
from railhead.contract.times import parse_time
from railhead.planning.facts.report import change_by_outcome
from railhead.planning.observed import Observed
from railhead.planning.plan import Decision, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.status_change import StatusChange

SIDECAR_SECONDS = 60  # for a head's other containers to end after its driver


def decide_finished(observed: Observed) -> Decision | None:
    """Deletes what is left, even if the spec is no longer valid."""
    if not observed.status.is_finished:
        return None
    head = observed.head
    if head is not None and may_commit(observed, head):
        return Decision(deletes=delete_all([head]), wake_at=head.gone_by)
    due = (parse_time(observed.status.completion_time) or observed.now) + timedelta(seconds=SIDECAR_SECONDS)
    kept = [
        pod for pod in observed.pods if pod.role == HEAD and (pod.is_over or (pod.has_ended and observed.now < due))
    ]
    has_sidecar = any(not pod.is_over and not pod.is_deleting for pod in kept)
    return Decision(
        status=find_last_checkpoint(observed),
        deletes=delete_all(pod for pod in observed.pods if pod not in kept),
        wake_at=due if has_sidecar else None,
    )


def may_commit(observed: Observed, head: PodView) -> bool:
    """Terminated by a deadline: its driver waits for one more committed checkpoint, which needs the workers."""
    failure = observed.status.failure
    if failure is None or failure.class_ != FailureClass.DEADLINE_EXCEEDED or head.has_ended:
        return False
    return not head.is_deleting or head.may_still_end(observed.now)


def find_last_checkpoint(observed: Observed) -> StatusChange | None:
    """The checkpoints that `add_last_checkpoint` would add, or None."""
    change = add_last_checkpoint(observed, StatusChange())
    return change if change != StatusChange() else None


def add_last_checkpoint(observed: Observed, change: StatusChange) -> StatusChange:
    """Adds the checkpoints in the termination message of a terminated head, if the status lacks them."""
    head = observed.head
    if head is None or not head.has_ended:
        return change
    return change_by_outcome(change, observed.status, head.outcome, observed.now)
