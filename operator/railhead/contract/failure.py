"""The table of failure classes, and the rules of spec.failurePolicy about them.

A row says what ended an attempt, its exit code, which counter it raises and the backoff after it. Driver, planner, CRD,
`railhead why` and docs all use it. A new class is one row here, one test and one line in docs/concepts/failures.md. The
operator applies the rules to a lost attempt, the driver before a restart in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional, Sequence, Tuple

SUCCEEDED_CODE = 0
FAIL = "Fail"
RESTART = "Restart"
RESTART_AND_IGNORE = "RestartAndIgnore"
# Reasons of class Hardware with a suspect pod, given by the driver: the operator judges that pod's node by them.
GPU_FAILED = "GPUFailed"  # an uncorrectable error of a GPU or of its NVLink
PROCESS_NOT_ENDING = "ProcessNotEnding"  # SIGKILL does not end it, since the GPU's driver holds it
NODE_EVICTED = "NodeEvicted"  # by the health checks of Ray Train
GPU_LOST = "GPULost"
BUS_ERROR = "BusError"
BROKEN_NODE = frozenset({GPU_FAILED, PROCESS_NOT_ENDING, NODE_EVICTED})  # beyond doubt
SUSPECT_NODE = frozenset({GPU_LOST, BUS_ERROR})  # probably; twice on one node is enough


class FailureClass(str, Enum):
    """Why an attempt ended; the value is `status.failure.class`."""

    APPLICATION = "Application"
    CONFIGURATION = "Configuration"
    INFRASTRUCTURE = "Infrastructure"
    OUT_OF_MEMORY = "OutOfMemory"
    PREEMPTION = "Preemption"
    STARTUP = "Startup"
    HANG = "Hang"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    FENCED = "Fenced"
    HARDWARE = "Hardware"
    METRIC_RULE = "MetricRule"

    def __str__(self) -> str:
        return self.value

    @staticmethod
    def parse(text: str) -> FailureClass:
        """Returns the class of this name. Another version's name is `INFRASTRUCTURE`: not the user's fault, bounded."""
        return _BY_NAME.get(text, FailureClass.INFRASTRUCTURE)

    @staticmethod
    def of_exit_code(code: Optional[int]) -> Optional[FailureClass]:
        """Returns the class that this exit code of the head's container stands for, or None."""
        if code is not None:
            return _BY_CODE.get(code)
        return None

    @property
    def policy(self) -> FailurePolicy:
        return POLICIES[self]

    @property
    def exit_code(self) -> int:
        """Returns the head container's exit code. Raises ValueError for a class that only the operator assigns."""
        code = self.policy.exit_code
        if code is None:
            raise ValueError(f"{self} has no exit code")
        return code


class Payer(str, Enum):
    """The budget that a lost attempt spends, and thus the limit that bounds it."""

    APPLICATION = "application"  # bounded by spec.backoffLimit
    INFRASTRUCTURE = "infrastructure"  # bounded by spec.noProgressLimit: attempts in a row without a commit
    DISRUPTION = "disruption"  # bounded by spec.disruptionLimit, if set
    IGNORED = "ignored"  # by spec.failurePolicy: bounded by its backoff only
    STARTUP = "startup"  # bounded by its backoff only: nothing was trained, nothing was lost
    NOBODY = "nobody"  # does not count: a later attempt owned the run, or hardware failed on a node unknown as sick


@dataclass(frozen=True)
class Backoff:
    """Seconds until the next attempt: `first`, doubled for each counted loss, up to `limit`.

    Attributes:
        is_skipped_after_commit: the next attempt starts at once when the lost one committed a checkpoint.
    """

    first: int
    limit: int
    is_skipped_after_commit: bool = False


@dataclass(frozen=True)
class FailurePolicy:
    """One row of the table.

    Attributes:
        exit_code: of the head's container; None = only the operator assigns this class. Shells, signals and Python
            give no meaning to the range 64-113.
        payer: the budget that the lost attempt spends. The backoff grows with the failures that count in it (for
            `NOBODY` with those of `INFRASTRUCTURE`), or for `STARTUP`, `DISRUPTION` and `IGNORED` with the attempts
            since the newest checkpoint that were lost alike.
        final: why there is no further attempt; empty = there is one.
        meaning: one line for the docs.
        can_have_rule: a rule of spec.failurePolicy may name it, and matches it.
        ends_script: fit() fails with it, and the script only follows: the script's exit code tells nothing about it.
        needs_new_pods: the same GPUs are likely to fail again, so that a second restart in the same pods is of no use.
        suspects_node: the node of the suspect pod is probably at fault, whatever the reason.
        comes_from_outside: such losses come at a rate that grows with the hardware, so the advice how often to save
            counts them. Any other loss says more of the code.
    """

    exit_code: Optional[int]
    payer: Payer
    backoff: Backoff
    meaning: str
    final: str = ""
    can_have_rule: bool = True
    ends_script: bool = False
    needs_new_pods: bool = False
    suspects_node: bool = False
    comes_from_outside: bool = False


_USER = Backoff(first=5, limit=300)
_CLUSTER = Backoff(first=2, limit=300, is_skipped_after_commit=True)
# A limit of 40 s: together with the tries before it, freed capacity is used within a minute.
_STARTUP = Backoff(first=5, limit=40)

POLICIES: dict[FailureClass, FailurePolicy] = {
    FailureClass.APPLICATION: FailurePolicy(
        64, Payer.APPLICATION, _USER, "train_func raised, or a training process died"
    ),
    FailureClass.CONFIGURATION: FailurePolicy(
        65, Payer.INFRASTRUCTURE, _CLUSTER, "the job cannot run as specified", final="retrying would not help"
    ),
    FailureClass.INFRASTRUCTURE: FailurePolicy(
        66,
        Payer.INFRASTRUCTURE,
        _CLUSTER,
        "a pod, a node, Ray or the storage failed",
        ends_script=True,
        comes_from_outside=True,
    ),
    FailureClass.OUT_OF_MEMORY: FailurePolicy(67, Payer.APPLICATION, _USER, "a process was killed for its memory use"),
    FailureClass.PREEMPTION: FailurePolicy(
        68,
        Payer.DISRUPTION,
        _CLUSTER,
        "a pod was preempted, evicted or drained; the head committed a last checkpoint",
        comes_from_outside=True,
    ),
    FailureClass.FENCED: FailurePolicy(
        69,
        Payer.NOBODY,
        _CLUSTER,
        "another head has taken over the run; nothing more was committed or deleted",
        can_have_rule=False,
    ),
    FailureClass.HANG: FailurePolicy(
        70,
        Payer.INFRASTRUCTURE,
        _CLUSTER,
        "training reported nothing for spec.progressDeadlineSeconds",
        ends_script=True,
        needs_new_pods=True,
        suspects_node=True,
        comes_from_outside=True,
    ),
    FailureClass.HARDWARE: FailurePolicy(
        71,
        Payer.INFRASTRUCTURE,
        _CLUSTER,
        "a GPU, or the network between GPUs, failed",
        ends_script=True,
        needs_new_pods=True,
        comes_from_outside=True,
    ),
    FailureClass.METRIC_RULE: FailurePolicy(
        72,
        Payer.NOBODY,
        _CLUSTER,
        "a rule of spec.metricPolicy ended the job",
        final="no other attempt would help",
        can_have_rule=False,
        ends_script=True,
    ),
    FailureClass.STARTUP: FailurePolicy(
        None, Payer.STARTUP, _STARTUP, "training did not start in time, or pods were rejected"
    ),
    FailureClass.DEADLINE_EXCEEDED: FailurePolicy(
        None,
        Payer.NOBODY,
        _CLUSTER,
        "spec.activeDeadlineSeconds has passed",
        final="there is no further attempt",
        can_have_rule=False,
    ),
}
_BY_NAME = {each.value: each for each in FailureClass}
_BY_CODE = {policy.exit_code: each for each, policy in POLICIES.items() if policy.exit_code is not None}


@dataclass(frozen=True)
class Failure:
    """What ended an attempt, or prevents a job from running.

    Attributes:
        reason: one CamelCase word for the status (`TrainFunctionRaised`).
        message: a sentence for the user: what is wrong, in which field or object, and what to do.
        process_exit_code: of the script, 128 + n after signal n, or of a rank that called sys.exit(); None if unknown.
        suspect_pod: the pod of the rank that seems to have failed first; empty if unknown.
    """

    class_: FailureClass
    reason: str
    message: str
    process_exit_code: Optional[int] = None
    suspect_pod: str = ""


@dataclass(frozen=True)
class FailureRule:
    """One rule, with one of `classes`, `reasons` and `exit_codes`; `is_not_in`: any known exit code but those."""

    action: str
    classes: Tuple[str, ...] = ()
    reasons: Tuple[str, ...] = ()
    exit_codes: Tuple[int, ...] = ()
    is_not_in: bool = False

    def matches(self, class_: str, reason: str, exit_code: Optional[int]) -> bool:
        if self.exit_codes:
            return exit_code is not None and (exit_code in self.exit_codes) != self.is_not_in
        return class_ in self.classes or reason in self.reasons


def find_rule(rules: Sequence[FailureRule], class_: str, reason: str, exit_code: Optional[int]) -> Optional[int]:
    """Returns the index of the first rule that matches."""
    return next((number for number, rule in enumerate(rules) if rule.matches(class_, reason, exit_code)), None)
