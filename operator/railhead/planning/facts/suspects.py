"""What a failure tells about the node of the pod that its driver suspects, and when noProgressLimit counts it. Pure."""

from __future__ import annotations

from datetime import datetime

from railhead.api.status import AvoidedNode, FailureStatus, JobStatus, RestartStatus
from railhead.contract.failure import BROKEN_NODE, SUSPECT_NODE, FailureClass
from railhead.contract.times import parse_time


def is_sure(failure: FailureStatus | RestartStatus) -> bool:
    """Returns whether the node of the suspect pod is at fault."""
    return failure.class_ is FailureClass.HARDWARE and failure.reason in BROKEN_NODE


def is_likely(failure: FailureStatus | RestartStatus) -> bool:
    """Returns whether the node of the suspect pod is probably at fault. What is neither sure nor likely is a guess."""
    if failure.class_.policy.suspects_node:
        return True
    return failure.class_ is FailureClass.HARDWARE and failure.reason in SUSPECT_NODE


def is_of_new_node(status: JobStatus, failure: FailureStatus) -> bool:
    """Returns whether the hardware of a node failed that the job had no reason to avoid before: the next one may be
    healthy.

    It is no news of a node that the job has avoided and then used again, because no other one was left or the time was
    over.
    """
    if failure.class_ is not FailureClass.HARDWARE or not failure.suspect_node:
        return False
    if not is_sure(failure) and not is_likely(failure):
        return False
    failed_at = parse_time(failure.time)
    listed = (*(status.avoided_nodes or ()), *(status.formerly_avoided_nodes or ()))
    return not any(_was_avoided(node, failed_at) for node in listed if node.name == failure.suspect_node)


def _was_avoided(node: AvoidedNode, failed_at: datetime | None) -> bool:
    """Returns whether the job avoided it before this failure, and not only because of it."""
    since = parse_time(node.since)
    # The list is updated in the write that records the failure, so a later pass finds the node in it for this very
    # failure.
    is_of_this_failure = node.times == 1 and failed_at is not None and since is not None and since >= failed_at
    return node.times > 0 and not is_of_this_failure
