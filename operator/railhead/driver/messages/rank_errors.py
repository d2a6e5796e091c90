"""The table of errors that one rank has, or that the driver has found in the worker group.

A row says which failure of the attempt such an error becomes, and what it means for the errors of other ranks. A
detector with a reason of its own is one kind and one row here, beside the code that finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from railhead.contract.failure import BUS_ERROR, GPU_FAILED, GPU_LOST, FailureClass
from railhead.contract.metric_rule import METRIC_RULE
from railhead.contract.report import NO_STEPS, NOT_REPORTED

NOT_RETURNED = "TrainFunctionNotReturned"


class RankErrorKind(Enum):
    """What an error of a rank is, also of one that a rank cannot report itself."""

    RAISED = "raised"  # train_func raised
    UNUSABLE = "unusable"  # the entrypoint cannot be imported or called
    UNFENCED = "unfenced"  # our callbacks do not run in Ray Train's controller
    MISSING = "missing"  # a library of the framework cannot be imported on the workers
    DIED = "died"  # the training process died
    KILLED_FOR_MEMORY = "killed-for-memory"  # by Ray's memory monitor
    PREEMPTED = "preempted"  # its node announced that it is leaving
    ABANDONED = "abandoned"  # one of Ray's own actors, which synchronizes or feeds the ranks, was lost
    STORAGE = "storage"  # a checkpoint could not be written
    GPU = "gpu"  # a GPU or its link is broken
    GPU_LOST = "gpu-lost"  # a GPU with which the node has trained is gone
    SHARED_MEMORY = "shared-memory"  # /dev/shm is full
    BUS = "bus"  # killed by SIGBUS
    NETWORK = "network"  # a peer does not answer; often the consequence of another rank's error
    UNANSWERED = "unanswered"  # a collective did not end
    SIGNALLED = "signalled"  # the watchdog of another rank has reported an error
    STUCK = "stuck"  # training reported nothing for spec.progressDeadlineSeconds
    STEPLESS = "stepless"  # no rank made a step, and spec.hangPolicy is Restart
    RULED_OUT = "ruled-out"  # a rule of spec.metricPolicy ends the job
    RULED_AGAIN = "ruled-again"  # such a rule restarts the worker group
    SILENT = "silent"  # its thread ended without any sign that the function returned


@dataclass(frozen=True)
class RankErrorRow:
    """What an error of this kind means.

    Attributes:
        class_: of the failure that it becomes.
        reason: of that failure.
        beginning: of its message.
        names_pod: the message names the pod first, whose hardware is at fault.
        explains_deaths: a rank that died beside it without a word is its consequence, or was never asked.
        is_waiting: the rank waits for the one that is to blame, so it is no suspect.
        is_found_by_driver: no rank has raised it; the error has the rank for which the others wait, if there is one.
    """

    class_: FailureClass
    reason: str
    beginning: str = ""
    names_pod: bool = False
    explains_deaths: bool = False
    is_waiting: bool = False
    is_found_by_driver: bool = False


# Causes come before their consequences: of several errors the first of these rows is the failure. PREEMPTED has no row,
# since a node that leaves explains all errors of its group.
ROWS: dict[RankErrorKind, RankErrorRow] = {
    RankErrorKind.GPU: RankErrorRow(FailureClass.HARDWARE, GPU_FAILED, names_pod=True, explains_deaths=True),
    RankErrorKind.BUS: RankErrorRow(
        FailureClass.HARDWARE,
        BUS_ERROR,
        "broken memory, a broken disk or a full /dev/shm (sharedMemory): ",
        names_pod=True,
        explains_deaths=True,
    ),
    RankErrorKind.ABANDONED: RankErrorRow(FailureClass.INFRASTRUCTURE, "RayActorLost"),
    RankErrorKind.STORAGE: RankErrorRow(
        FailureClass.INFRASTRUCTURE,
        "CheckpointNotWritten",
        "run.storagePath: a checkpoint could not be written: ",
    ),
    RankErrorKind.UNFENCED: RankErrorRow(FailureClass.CONFIGURATION, "RayTrainNotUsable"),
    RankErrorKind.UNUSABLE: RankErrorRow(FailureClass.CONFIGURATION, "EntrypointNotUsable"),
    RankErrorKind.MISSING: RankErrorRow(FailureClass.CONFIGURATION, "FrameworkMissing"),
    RankErrorKind.RULED_OUT: RankErrorRow(FailureClass.METRIC_RULE, METRIC_RULE, is_found_by_driver=True),
    RankErrorKind.RULED_AGAIN: RankErrorRow(FailureClass.APPLICATION, METRIC_RULE, is_found_by_driver=True),
    RankErrorKind.KILLED_FOR_MEMORY: RankErrorRow(FailureClass.OUT_OF_MEMORY, "OutOfMemory", explains_deaths=True),
    RankErrorKind.SHARED_MEMORY: RankErrorRow(
        FailureClass.APPLICATION,
        "SharedMemoryFull",
        "/dev/shm is full; raise spec.worker.sharedMemory, which can change while the job is suspended: ",
        explains_deaths=True,
    ),
    RankErrorKind.DIED: RankErrorRow(FailureClass.APPLICATION, "TrainingProcessDied"),
    RankErrorKind.RAISED: RankErrorRow(FailureClass.APPLICATION, "TrainFunctionRaised"),
    RankErrorKind.SILENT: RankErrorRow(FailureClass.APPLICATION, NOT_RETURNED),
    RankErrorKind.GPU_LOST: RankErrorRow(FailureClass.HARDWARE, GPU_LOST, names_pod=True, explains_deaths=True),
    RankErrorKind.UNANSWERED: RankErrorRow(
        FailureClass.HANG, "CollectiveTimedOut", explains_deaths=True, is_waiting=True
    ),
    RankErrorKind.NETWORK: RankErrorRow(FailureClass.HARDWARE, "NetworkFailed"),
    RankErrorKind.SIGNALLED: RankErrorRow(FailureClass.HANG, "CollectiveTimedOut", is_waiting=True),
    RankErrorKind.STUCK: RankErrorRow(FailureClass.HANG, NOT_REPORTED, is_found_by_driver=True),
    RankErrorKind.STEPLESS: RankErrorRow(FailureClass.HANG, NO_STEPS, is_found_by_driver=True),
}
HANGS = frozenset(kind for kind, row in ROWS.items() if row.class_ is FailureClass.HANG)
FOUND_BY_DRIVER = frozenset(kind for kind, row in ROWS.items() if row.is_found_by_driver)
CAUSES_OF_DEATHS = frozenset(kind for kind, row in ROWS.items() if row.explains_deaths)
HANGS_BY_REASON = {ROWS[kind].reason: kind for kind in HANGS & FOUND_BY_DRIVER}
