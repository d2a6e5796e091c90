"""spec.ttlSecondsAfterFinished: the children of a finished job go, the TrainJob stays.

A GitOps tool that still has the TrainJob in its repository would make a deleted one again, and it
would train again; so only what it has never heard of is removed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from railhead.api import names
from railhead.planning.hands_off import may_commit
from railhead.planning.observed import Observed
from railhead.planning.plan import Plan, Remove, delete_all
from railhead.planning.status_write import build_status_write, format_time, parse_time
from railhead.planning.success import last_checkpoint


def clean_up_due(observed: Observed) -> datetime | None:
    limit = observed.spec.ttl_seconds_after_finished if observed.spec else None
    ended = parse_time(observed.status.completion_time)
    if limit is None or ended is None or not observed.status.is_finished:
        return None
    return ended + timedelta(seconds=limit)


def decide_clean_up(observed: Observed) -> Plan | None:
    """Once, after the time: what is not seen again, such as Secrets, is remembered as removed when it is."""
    due = clean_up_due(observed)
    if due is None or due > observed.now:
        return None
    head = observed.head
    if head is not None and (may_commit(observed, head) or last_checkpoint(observed, head.outcome)):
        return None  # its last word comes first
    deletes = delete_all(observed.pods)
    if observed.status.clean_up_time:
        return Plan(deletes=deletes)
    done = build_status_write(observed, list(observed.status.conditions), cleanUpTime=format_time(observed.now))
    return Plan(deletes=deletes, removes=_children(observed), last=done)


def _children(observed: Observed) -> tuple[Remove, ...]:
    """All but the pods, and the bundle, which belongs to the namespace."""
    job, uid = observed.name, observed.uid
    source = observed.spec.source.config_map if observed.spec and observed.spec.source else None
    return (
        Remove("Service", names.service_name(job, uid)),
        Remove("Secret", names.secret_name(job, uid)),
        Remove("ConfigMap", names.input_name(job, uid)),
        *([Remove("ConfigMap", names.source_name(job, uid))] if source is not None else []),
        *(
            [Remove("NetworkPolicy", names.network_policy_name(job, uid))]
            if observed.settings.has_network_policies
            else []
        ),
    )
