"""Classifies a failure of the worker group and decides whether Ray restarts the group. Pure.

Ray charges every lost worker to `max_failures`; here a lost node counts as infrastructure, which
does not consume the user's budget, and the errors it causes on other ranks never outweigh it.
Knows nothing of Ray: `failure_policy` supplies the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional, Tuple

from railhead.contract.failure import BROKEN_NODE, Failure, FailureClass, Payer
from railhead.contract.text import write_ranks
from railhead.driver.messages.rank_errors import FOUND_BY_DRIVER, HANGS, NOT_RETURNED, ROWS, RankErrorKind


class FailureOrigin(Enum):
    """Where a failure surfaces."""

    WORKERS = "workers"
    STARTUP = "startup"  # the group could not be started
    CONTROLLER = "controller"


# Infrastructure failures in a row while all nodes are alive.
UNEXPLAINED_LIMIT = 10
SAME_LIMIT = 2  # the same failure this often in a row, or so many hangs: the next group gets new pods


@dataclass(frozen=True)
class RankError:
    """One rank's error, or the controller's with `rank` -1; `age`: seconds since then, None when unknown.

    One that the driver has found (`FOUND_BY_DRIVER`) has the rank for which the others wait, if there is one.
    """

    rank: int
    kind: RankErrorKind
    text: str
    age: Optional[float] = None
    exit_code: Optional[int] = None
    pod: str = ""


@dataclass(frozen=True)
class FailureFacts:
    """What is known at the time of a failure.

    `lost_nodes` are those of the failed group, `lost_pods` the names of their pods; `refusal` is what
    one of our checks found; `is_waiting`: the group cannot start before more nodes join. `difference`: what
    tells some ranks' collectives from the others', `odd_pod`: the only pod with ranks that are to blame for it.
    """

    source: FailureOrigin
    errors: tuple[RankError, ...] = ()
    lost_nodes: tuple[str, ...] = ()
    text: str = ""
    refusal: Optional[Failure] = None
    lost_pods: tuple[str, ...] = ()
    is_waiting: bool = False
    difference: str = ""
    odd_pod: str = ""

    @property
    def is_explained(self) -> bool:
        """Returns whether a node that left, or nodes that have not joined yet, explain it: deadlines bound that."""
        return (
            self.is_waiting
            or bool(self.lost_nodes)
            or any(error.kind == RankErrorKind.PREEMPTED for error in self.errors)
        )


@dataclass(frozen=True)
class RestartHistory:
    """What came before a failure.

    Attributes:
        unexplained: infrastructure failures in a row, this one included, without a commit in between.
        same: failures of this class and reason in a row, this one included, without a commit in between.
        hangs: failures of class Hang, this one included, whatever was committed in between.
        charged: restarts in place of this attempt that spec.backoffLimit counts.
        allowed: how many it may have in all; None = the operator has not answered yet.
        max_failures: how many of them run.failure.maxFailures or FailureConfig allows; None = neither is set.
    """

    unexplained: int = 0
    same: int = 1
    hangs: int = 0
    charged: int = 0
    allowed: Optional[int] = None
    max_failures: Optional[int] = None

    @property
    def may_restart(self) -> bool:
        """Returns whether a restart is left: of the user's number for any failures, else until the same failure came
        twice."""
        return self.is_allowed and (self.max_failures is not None or self.same < SAME_LIMIT)

    @property
    def is_allowed(self) -> bool:
        """Returns whether the user's limits leave a restart in place."""
        if self.max_failures is None:
            return self.charged < (self.allowed or 0)
        is_left = self.allowed is None or self.charged < self.allowed
        return is_left and (self.max_failures < 0 or self.charged < self.max_failures)


def classify_failure(facts: FailureFacts) -> Failure:
    """Names the cause. The order matters: causes come before the errors that they explain."""
    if facts.refusal:
        return facts.refusal
    by_kind = {kind: [error for error in facts.errors if error.kind == kind] for kind in RankErrorKind}
    if facts.lost_nodes:
        return _infrastructure("NodeLost", f"lost {_join(facts.lost_nodes)} while training")
    if by_kind[RankErrorKind.PREEMPTED]:
        return _infrastructure("NodeDraining", f"a node was drained: {by_kind[RankErrorKind.PREEMPTED][0].text}")
    for kind, row in ROWS.items():
        errors = by_kind[kind]
        if errors:
            first = _choose_first(errors)
            where = ""
            if row.names_pod and first.pod:
                where = f"pod {first.pod}: "
            is_of_others = row.is_waiting or (kind == RankErrorKind.NETWORK and len(errors) > 1)
            suspect = "" if is_of_others else first.pod
            text = row.beginning + where + _describe(errors)
            if kind in HANGS and facts.difference:
                text = f"{facts.difference}: {text}"
                suspect = facts.odd_pod or suspect
            return Failure(row.class_, row.reason, text, first.exit_code, suspect)
    if facts.source == FailureOrigin.STARTUP:
        return _infrastructure("WorkerGroupNotStarted", facts.text)
    if facts.source == FailureOrigin.WORKERS:
        return Failure(FailureClass.APPLICATION, "TrainingFailed", facts.text)
    return _infrastructure("RayTrainFailed", facts.text)


def decide_retry(facts: FailureFacts, failure: Failure, history: RestartHistory) -> bool:
    """Returns whether to restart the group in the same pods, within the same fit()."""
    if failure.class_ is FailureClass.FENCED or failure.class_.policy.final:
        return False
    if facts.source == FailureOrigin.CONTROLLER:
        return False
    if not is_infrastructure(facts, failure):
        return history.may_restart
    # The other pods are as good as before.
    if is_of_broken_gpu(failure) and facts.source != FailureOrigin.STARTUP:
        return history.is_allowed and history.unexplained <= UNEXPLAINED_LIMIT
    if failure.class_.policy.needs_new_pods and not facts.is_explained:
        return history.may_restart and max(history.same, history.hangs) < SAME_LIMIT
    return facts.is_explained or history.unexplained <= UNEXPLAINED_LIMIT


def is_of_broken_gpu(failure: Failure) -> bool:
    """Returns whether a GPU is broken beyond doubt: then the operator replaces the pod, and the job avoids its node."""
    return failure.reason in BROKEN_NODE and bool(failure.suspect_pod)


def is_infrastructure(facts: FailureFacts, failure: Failure) -> bool:
    """Returns whether no code of the user failed; also of a group that could not start: train_func has not run."""
    return facts.source == FailureOrigin.STARTUP or failure.class_.policy.payer is Payer.INFRASTRUCTURE


def explain_missing_success() -> Failure:
    """Returns the failure of a fit() that ended without an error, and without a success of the worker group."""
    message = (
        "Ray Train ended without an error, but its controller did not report that the training function returned on "
        "every rank; check the head's log for the cause, and RAY_TRAIN_CALLBACKS if the image or the script sets it"
    )
    return Failure(FailureClass.APPLICATION, NOT_RETURNED, message)


def _infrastructure(reason: str, message: str) -> Failure:
    return Failure(FailureClass.INFRASTRUCTURE, reason, message)


def _describe(errors: list[RankError]) -> str:
    """Writes the earliest one in full: the others are usually its consequences."""
    first = _choose_first(errors)
    others = [error.rank for error in errors if error is not first]
    if first.rank >= 0 and first.kind not in FOUND_BY_DRIVER:
        text = f"rank {first.rank}: {first.text}"
    else:
        text = first.text
    if others:
        return f"{text}; also failed: {write_ranks(others)}"
    return text


def _choose_first(errors: list[RankError]) -> RankError:
    return min(errors, key=_rank_error)


def _rank_error(error: RankError) -> Tuple[bool, float, int]:
    return error.age is None, -(error.age or 0.0), error.rank


def _join(nodes: tuple[str, ...]) -> str:
    text = "node " + ", ".join(nodes[:4])
    if len(nodes) <= 4:
        return text
    return f"{text} and {len(nodes) - 4} more"
