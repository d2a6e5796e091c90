"""The end of an attempt without success: its failure is written down before anything is deleted.

Counting is left to the write that begins the next attempt, so that asking twice gives the
same answer.
"""

from __future__ import annotations

from railhead.api import conditions as c
from railhead.api import names
from railhead.api.status import FailureStatus
from railhead.planning.backoff import next_attempt_at
from railhead.planning.classify import APPLICATION_BUDGET, NO_BUDGET, classify_loss
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.status_write import build_condition, build_status_write, format_time, look_first
from railhead.planning.success import last_checkpoint

ROUNDS_PER_ATTEMPT = 20


def decide_loss(observed: Observed) -> Plan | None:
    """Is the attempt lost, and does that end the job?"""
    head = observed.head
    gone = names.head_name(observed.name, observed.uid, observed.attempt)
    if head is not None and head.may_still_end(observed.now):
        return Plan(wake_at=head.gone_by)  # its driver waits for one more commit, which needs the workers
    if head is not None and not head.is_live:
        return lose_attempt(observed, classify_loss(observed, head, gone=gone), head=head)
    if head is None and observed.was_head_up:
        return lose_attempt(observed, classify_loss(observed, None, gone=gone), head=None)
    refused = next((p for p in observed.lost_workers if p.outcome and p.outcome.outcome == "Configuration"), None)
    if refused is not None:
        return lose_attempt(observed, classify_loss(observed, refused, gone=refused.name), head=head)
    if observed.empty_slots and observed.status.round >= ROUNDS_PER_ATTEMPT and observed.lost_workers:
        return lose_attempt(observed, classify_loss(observed, observed.lost_workers[0], gone=""), head=head)
    return None


def spent_budget(observed: Observed, failure: FailureStatus, *, committed: bool) -> str:
    """Why the job must fail now, or nothing."""
    limit = observed.spec.backoff_limit if observed.spec else 0
    restarts = observed.status.restarts
    if failure.class_ == "Configuration":
        return "trying again would not help"
    if failure.class_ in APPLICATION_BUDGET and restarts.application >= limit:
        return f"backoffLimit {limit} is used up"
    if not committed and failure.class_ not in NO_BUDGET and restarts.without_progress >= limit:
        return f"{restarts.without_progress + 1} attempts in a row committed no checkpoint (backoffLimit {limit})"
    if observed.attempt >= names.MAX_ATTEMPT:
        return f"{names.MAX_ATTEMPT} attempts were made"
    return ""


def lose_attempt(observed: Observed, failure: FailureStatus, *, head: PodView | None) -> Plan:
    """The attempt is over; the next one follows, or the job fails."""
    checkpoint = last_checkpoint(observed, head.outcome if head else None)
    committed = observed.has_committed or "checkpoint" in checkpoint
    spent = spent_budget(observed, failure, committed=committed)
    told = {"failure": failure.model_dump(by_alias=True, mode="json"), **checkpoint}
    if spent:
        return _fail(observed, failure, spent=spent, told=told)
    at = next_attempt_at(observed, failure, committed=committed)
    why = f"{failure.class_}: {failure.message[:600]}"
    message = f"Attempt {observed.attempt} was lost ({why}); attempt {observed.attempt + 1} follows"
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.RECONCILING, reason="Restarting", message=message),
            build_condition(
                observed, c.RUNNING, reason=failure.reason or "Restarting", message=message, status="False"
            ),
        ],
        phase="Restarting",
        **told,
    )
    # An ended pod costs nothing and is evidence: it goes when the next attempt begins.
    deletes = delete_all(p for p in observed.pods if p.is_live)
    return Plan(
        status=look_first(observed, status),
        deletes=deletes,
        events=(Event("Warning", "Restarting", message),),
        wake_at=at,
    )


def fail_job(observed: Observed, failure: FailureStatus) -> Plan:
    """No attempt follows, though budgets are left."""
    told: dict[str, object] = {"failure": failure.model_dump(by_alias=True, mode="json")}
    return _fail(observed, failure, spent="no further attempt is made", told=told)


def _fail(observed: Observed, failure: FailureStatus, *, spent: str, told: dict[str, object]) -> Plan:
    message = f"{failure.class_}: {failure.message} ({spent})"
    status = build_status_write(
        observed,
        [
            build_condition(observed, c.FAILED, reason=failure.reason or failure.class_, message=message),
            build_condition(observed, c.STALLED, reason=failure.reason or failure.class_, message=message),
            build_condition(observed, c.RUNNING, reason="Failed", message=message, status="False"),
        ],
        phase="Failed",
        completionTime=format_time(observed.now),
        workers={"desired": observed.desired_workers, "ready": 0, "joined": 0},
        **told,
    )
    deletes = delete_all(p for p in observed.pods if p.role != names.HEAD or p.is_live)
    return Plan(
        status=look_first(observed, status), deletes=deletes, events=(Event("Warning", "Failed", message[:1000]),)
    )
