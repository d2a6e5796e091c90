"""Jobs that this operator leaves alone, and jobs that it cannot understand."""

from __future__ import annotations

from datetime import timedelta

from railhead.api import conditions as c
from railhead.api.names import HEAD, MANAGER
from railhead.planning.classify import DEADLINE
from railhead.planning.observed import Observed
from railhead.planning.plan import Event, Plan, delete_all
from railhead.planning.pod_view import PodView
from railhead.planning.status_write import build_condition, build_status_write, parse_time
from railhead.planning.success import last_checkpoint

SIDECAR_SECONDS = 60  # for the other containers of a head to end after its driver


def decide_hands_off(observed: Observed) -> Plan | None:
    """Being deleted: garbage collection does the rest. Managed by somebody else: theirs."""
    if observed.is_deleting:
        return Plan()
    if observed.spec is not None and observed.spec.managed_by != MANAGER:
        return Plan()
    return None


def decide_finished(observed: Observed) -> Plan | None:
    """A finished job holds no worker pods. Its ended head pod stays for its logs, unless a sidecar runs on in it."""
    if not observed.status.is_finished:
        return None
    head = observed.head
    if head is not None and may_commit(observed, head):
        return Plan(deletes=delete_all([head]), wake_at=head.gone_by)
    due = (parse_time(observed.status.completion_time) or observed.now) + timedelta(seconds=SIDECAR_SECONDS)
    kept = [p for p in observed.pods if p.role == HEAD and (p.is_over or (p.has_ended and observed.now < due))]
    has_sidecar = any(not p.is_over and not p.is_deleting for p in kept)
    told = last_checkpoint(observed, head.outcome if head and head.has_ended else None)
    return Plan(
        status=build_status_write(observed, list(observed.status.conditions), **told) if told else None,
        deletes=delete_all(p for p in observed.pods if p not in kept),
        wake_at=due if has_sidecar else None,
    )


def may_commit(observed: Observed, head: PodView) -> bool:
    """Told to end by a deadline: its driver waits for one more committed checkpoint, which needs the workers."""
    failure = observed.status.failure
    if failure is None or failure.class_ != DEADLINE or head.has_ended:
        return False
    return not head.is_deleting or head.may_still_end(observed.now)


def decide_strays(observed: Observed) -> Plan | None:
    """Pods of an earlier attempt end before anything else is done: never two heads.

    Those that have ended are only cleared away (the operator was ended before it could), and so is
    the older of two pods of one slot (two operators, of which one had seen less).
    """
    deletes = delete_all([*(p for p in observed.pods if p.attempt < observed.attempt), *observed.doubles])
    return Plan(deletes=deletes) if deletes or observed.strays else None


def decide_invalid(observed: Observed) -> Plan | None:
    """A spec that was stored under another schema: said in the status, nothing is touched."""
    if observed.error is None and observed.spec is not None:
        return None
    words = str(observed.error) if observed.error else "spec: missing"
    status = build_status_write(observed, [build_condition(observed, c.STALLED, reason="InvalidSpec", message=words)])
    return Plan(status=status, events=(Event("Warning", "InvalidSpec", words),) if status else ())
