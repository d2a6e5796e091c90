"""The one table of failure classes: what ends an attempt, its exit code, who pays, how the next attempt waits.

Driver, planner, CRD and documents read it. A new class is one row here, one test and one line
in docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional

SUCCEEDED_CODE = 0


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

    def __str__(self) -> str:
        return self.value

    @staticmethod
    def parse(text: str) -> FailureClass:
        """The class of this name. A name of another version means `INFRASTRUCTURE`: no fault of the user's, bounded."""
        return _BY_NAME.get(text, FailureClass.INFRASTRUCTURE)

    @staticmethod
    def of_exit_code(code: Optional[int]) -> Optional[FailureClass]:
        """The class that the head's container ends with this code for, or None."""
        return _BY_CODE.get(code) if code is not None else None

    @property
    def policy(self) -> FailurePolicy:
        return POLICIES[self]

    @property
    def exit_code(self) -> int:
        """Of the head's container. Raises ValueError for a class that only the operator decides on."""
        code = self.policy.exit_code
        if code is None:
            raise ValueError(f"{self} has no exit code")
        return code


class Payer(str, Enum):
    """Which counter of `status.restarts` a lost attempt raises, and so which limit bounds it."""

    APPLICATION = "application"  # bounded by spec.backoffLimit
    INFRASTRUCTURE = "infrastructure"  # bounded by attempts in a row without a commit
    STARTUP = "startup"  # bounded by its backoff only: nothing was trained, nothing was lost
    NOBODY = "nobody"  # no attempt that counts: a later one had the run already


@dataclass(frozen=True)
class Backoff:
    """Seconds until the next attempt: `first`, doubled for each counted loss, at most `limit`.

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
        exit_code: of the head's container; None = only the operator decides on this class. The range 64-113 is free
            of the meanings of shells, signals and Python.
        payer: which counter the lost attempt raises; the backoff grows with it (of `INFRASTRUCTURE` and `NOBODY`
            with the attempts in a row that committed nothing).
        final: why no further attempt is made; empty = one is.
        meaning: one line for documents.
    """

    exit_code: Optional[int]
    payer: Payer
    backoff: Backoff
    meaning: str
    final: str = ""

    @property
    def counts_progress(self) -> bool:
        """Whether a loss without a commit counts in `status.restarts.withoutProgress`."""
        return self.payer in (Payer.APPLICATION, Payer.INFRASTRUCTURE)


_USER = Backoff(first=5, limit=300)
_CLUSTER = Backoff(first=2, limit=300, is_skipped_after_commit=True)
# A limit of 40 s: with the tries before it, room that somebody has made is taken within a minute.
_STARTUP = Backoff(first=5, limit=40)

POLICIES: dict[FailureClass, FailurePolicy] = {
    FailureClass.APPLICATION: FailurePolicy(
        64, Payer.APPLICATION, _USER, "train_func raised, or a training process died"
    ),
    FailureClass.CONFIGURATION: FailurePolicy(
        65, Payer.INFRASTRUCTURE, _CLUSTER, "the job cannot run as it is", final="trying again would not help"
    ),
    FailureClass.INFRASTRUCTURE: FailurePolicy(
        66, Payer.INFRASTRUCTURE, _CLUSTER, "a pod, a node, Ray or the storage failed"
    ),
    FailureClass.OUT_OF_MEMORY: FailurePolicy(67, Payer.APPLICATION, _USER, "a process was killed for memory"),
    FailureClass.PREEMPTION: FailurePolicy(
        68, Payer.INFRASTRUCTURE, _CLUSTER, "the head was asked to end (SIGTERM); its last checkpoint is committed"
    ),
    FailureClass.FENCED: FailurePolicy(
        69, Payer.NOBODY, _CLUSTER, "a later attempt has taken over the run; nothing more was committed or deleted"
    ),
    FailureClass.HANG: FailurePolicy(
        70, Payer.INFRASTRUCTURE, _CLUSTER, "training reported nothing for spec.progressDeadlineSeconds"
    ),
    FailureClass.STARTUP: FailurePolicy(
        None, Payer.STARTUP, _STARTUP, "training did not start in time, or pods were refused"
    ),
    FailureClass.DEADLINE_EXCEEDED: FailurePolicy(
        None, Payer.NOBODY, _CLUSTER, "spec.activeDeadlineSeconds is over", final="no further attempt is made"
    ),
}
_BY_NAME = {each.value: each for each in FailureClass}
_BY_CODE = {policy.exit_code: each for each, policy in POLICIES.items() if policy.exit_code is not None}


@dataclass(frozen=True)
class Failure:
    """What ended an attempt, or keeps a job from running.

    Attributes:
        reason: one CamelCase word for the status (`TrainFunctionRaised`).
        message: a sentence for the user: what is wrong, in which field or object, and what to do.
    """

    class_: FailureClass
    reason: str
    message: str
