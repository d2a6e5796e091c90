"""The part of the table of `railhead why` about queues: why a job waits for its quota."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.client.cause import MESSAGE, Cause, change

_QUOTA = Cause(
    "Other jobs use the quota of the queue, or it is being freed.", "Wait; Kueue admits the job in its turn."
)
_TOO_LARGE = Cause(
    "The job does not fit into the quota of its queue even alone.",
    change("scaling.resourcesPerWorker.memory=32Gi", "Have the quota raised; or, to request less per worker, "),
)
_CHECKS = Cause("An admission check of the ClusterQueue is not satisfied.", MESSAGE)
_NO_QUEUE = Cause(
    "The LocalQueue or the ClusterQueue does not exist, or is not active.",
    "Have it created, or correct spec.scheduling.queueName while the job is queued.",
)
_EVICTED = Cause("Kueue has taken the quota back; the job continues once it has quota again.", MESSAGE)
QUEUES: Mapping[str, Cause] = {
    "Queued": Cause("The job has asked its queue for quota.", "Wait; Kueue admits the job in its turn."),
    **dict.fromkeys(
        ("WaitingForQuota", "WaitingForPreemptedWorkloads", "WaitingForPodsReady", "PendingEvaluation"), _QUOTA
    ),
    **dict.fromkeys(("ExceedsMaxQuota", "NoMatchingFlavor", "TopologyPlacementFailed"), _TOO_LARGE),
    **dict.fromkeys(("NoReservation", "UnsatisfiedAdmissionChecks"), _CHECKS),
    **dict.fromkeys(("Inadmissible", "Misconfigured"), _NO_QUEUE),
    **dict.fromkeys(("Preempted", "PodsReadyTimeout", "AdmissionCheck", "NodeFailures"), _EVICTED),
    **dict.fromkeys(("ClusterQueueStopped", "LocalQueueStopped"), _EVICTED),
    "Deactivated": Cause(
        "An administrator, or Kueue after too many tries, holds the job by spec.active of its Workload.",
        "Have spec.active of the Workload in the message set to true.",
    ),
    "FailedToStart": Cause(
        "The pods cannot have what the queue gave them.",
        "Correct what the message above says, then delete the Workload that it names.",
    ),
    "DeactivatedDueToMaximumExecutionTimeExceeded": Cause(
        "The job was admitted for as long as its label kueue.x-k8s.io/max-exec-time-seconds allows.",
        "Have spec.active of the Workload in the message set to true, and the job gets the same time again.",
    ),
    "MaxExecTimeInvalid": Cause(
        "The label kueue.x-k8s.io/max-exec-time-seconds is no number of seconds.", "Correct the label."
    ),
    "QueueMissing": Cause(
        "The job names a queue, but the operator cannot watch Kueue's objects.",
        "Have Kueue installed, and Railhead's chart with queue.kueue.enabled=true.",
    ),
    "FlavorMissing": Cause("The ResourceFlavor that Kueue chose does not exist.", "Have it created."),
    "PriorityClassMissing": Cause(
        "The label kueue.x-k8s.io/priority-class names no WorkloadPriorityClass.", "Correct the label."
    ),
    "QueueNameConflict": Cause(
        "The field spec.scheduling.queueName and the label kueue.x-k8s.io/queue-name differ.",
        "Remove one of them, or make them equal.",
    ),
}
