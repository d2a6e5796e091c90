"""Reasons of the condition Reconciling while pods do not start. `controller/` reads them from responses and events."""

from __future__ import annotations

UNSCHEDULABLE = "Unschedulable"
SCHEDULING_GATED = "SchedulingGated"
HELD_BY_KUEUE = "HeldByKueue"  # by its integration for pods, whatever the job's own Workload says
SOURCE_NOT_FOUND = "SourceNotFound"
CREATE_REFUSED = "CreateRefused"
POD_INVALID = "PodInvalid"
WEBHOOK_FAILED = "AdmissionWebhookFailed"
SCHEDULER_MISSING = "SchedulerMissing"  # the API server has no PodGroups of spec.scheduling.gangScheduler
QUOTA_EXCEEDED = "QuotaExceeded"
EXCEEDS_QUOTA = "ExceedsQuota"  # by itself, whatever the other jobs do
WAITING_FOR_TURN = "WaitingForTurn"
NODE_REFUSED_POD = "NodeRefusedPod"  # the kubelet did, after the scheduler chose its node
POD_NOT_STARTED = "PodNotStarted"  # its node reports an error, while pods like it have started on other nodes
POD_START_SLOW = "PodStartSlow"  # the same, without an error and long after them
NODE_REBOOTED = "NodeRebooted"  # under a pod
REPORTS_MISSING = "ReportsMissing"
# The API server's built-in admission has no codes: the first of these texts in its message counts.
ADMISSION_TEXTS = (
    ("exceeded quota", QUOTA_EXCEEDED),
    ("failed quota", QUOTA_EXCEEDED),
    ("violates PodSecurity", "PodSecurityViolated"),
    ("error looking up service account", "ServiceAccountNotFound"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
)
REJECTIONS = frozenset(
    {
        SOURCE_NOT_FOUND,
        CREATE_REFUSED,
        POD_INVALID,
        WEBHOOK_FAILED,
        SCHEDULER_MISSING,
        *(reason for _, reason in ADMISSION_TEXTS),
    }
)
# From the kubelet and the attach controller, only in pod events; image and config problems are in its status.
FAILED_MOUNT = "FailedMount"
POD_EVENTS = frozenset({FAILED_MOUNT, "FailedMapVolume", "FailedAttachVolume", "FailedCreatePodSandBox"})
# What may be due to the node alone: not an invalid name or a missing Secret, and not a volume that another node has.
OF_ONE_NODE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerError",
        "RunContainerError",
        FAILED_MOUNT,
        "FailedMapVolume",
        "FailedCreatePodSandBox",
    }
)
PARTIAL_START = "PartialStartDeadlineExceeded"  # too few pods got a node
RELEASED = frozenset({QUOTA_EXCEEDED, EXCEEDS_QUOTA, PARTIAL_START})  # of attempts whose next one waits for its turn
GIVEN_UP = REJECTIONS | RELEASED  # of attempts that released their pods, since they could not get the others
GATED = frozenset({SCHEDULING_GATED, HELD_BY_KUEUE})
THAT_PASS = frozenset({UNSCHEDULABLE, *GATED, EXCEEDS_QUOTA, WAITING_FOR_TURN, *REJECTIONS, *POD_EVENTS})
# Why a job waits for its queue, beside the reasons that Kueue gives; client/causes.toml lists these too.
QUEUED, DEACTIVATED, UNSATISFIED = "Queued", "Deactivated", "UnsatisfiedAdmissionChecks"
QUEUE_MISSING, QUEUE_NAME_CONFLICT = "QueueMissing", "QueueNameConflict"
FLAVOR_MISSING, PRIORITY_CLASS_MISSING = "FlavorMissing", "PriorityClassMissing"
MAX_TIME_INVALID = "MaxExecTimeInvalid"
