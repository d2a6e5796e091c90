"""Reasons of the condition Reconciling while pods do not start. `controller/` reads them from responses and events."""

from __future__ import annotations

import re

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
NODE_REFUSED_POD = "NodeRefusedPod"  # the kubelet did, after the scheduler chose its node
POD_NOT_STARTED = "PodNotStarted"  # its node reports an error, while pods like it have started on other nodes
POD_START_SLOW = "PodStartSlow"  # the same, without an error and long after them
NODE_REBOOTED = "NodeRebooted"  # under a pod
POD_KILLED = "PodKilled"  # by SIGKILL, and neither the kubelet nor the driver says why
REPORTS_MISSING = "ReportsMissing"
FOREIGN_OBJECT = "ForeignObject"
OBJECT_COUNT_EXCEEDED = "ObjectCountExceeded"
ADMISSION_DENIED = "AdmissionDenied"
POD_SECURITY_VIOLATED = "PodSecurityViolated"
# Between the name of a pod and what keeps it from starting: `railhead why` knows such a message by these words.
CANNOT_START = "cannot start"
# The API server's admission has no codes, only texts: the one that begins first in a message counts. What follows a
# webhook's name are its own words, which may be any. The paths are those of Kubernetes' source.
ADMISSION_TEXTS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        # plugin/pkg/admission of apiserver: resourcequota
        ("exceeded quota", QUOTA_EXCEEDED),
        ("failed quota: .*must specify", "ResourceUnspecified"),
        ("status unknown for quota", "QuotaNotCounted"),
        ("insufficient quota to (consume|match)", "QuotaMissing"),
        # and of kubernetes: limitranger, priority, runtimeclass
        (r"m(in|ax)imum \S+ usage per \S+ is|max limit to request ratio per", "LimitRangeViolated"),
        ("no PriorityClass with name", "PriorityClassNotFound"),
        ("the integer value of priority|the string value of PreemptionPolicy", POD_INVALID),
        (r"pod rejected: RuntimeClass \S+ not found", "RuntimeClassNotFound"),
        ("pod rejected: Pod('s)? Overhead|conflict: runtimeClass", POD_INVALID),
        # podtolerationrestriction, podnodeselector
        (r"pod tolerations .*conflict with its|pod node label selector (labels )?conflict", "PlacementForbidden"),
        ("error looking up service account|no service account specified", "ServiceAccountNotFound"),
        ("because service account .* does not reference that", ADMISSION_DENIED),
        ("image policy webhook backend denied", ADMISSION_DENIED),
        # namespace/lifecycle
        (r'because it is being terminated|namespaces "[^"]+" not found', "NamespaceTerminating"),
        # gc, and the authorizer
        ("cannot set blockOwnerDeletion|cannot set an ownerRef", "FinalizersForbidden"),
        (r'User "[^"]+" cannot ', "OperatorForbidden"),
        ('violates PodSecurity|admission webhook "pod-security-webhook', POD_SECURITY_VIOLATED),
        # of OpenShift's apiserver-library-go
        ("unable to validate against any security context constraint", "SecurityConstraintsViolated"),
        ("request is too large|Request entity too large|message larger than max", "ObjectTooLarge"),
        ("admission webhook .*denied the request|denied the request|denied request", ADMISSION_DENIED),
    )
)


REJECTIONS = frozenset(
    {
        SOURCE_NOT_FOUND,
        CREATE_REFUSED,
        POD_INVALID,
        WEBHOOK_FAILED,
        SCHEDULER_MISSING,
        FOREIGN_OBJECT,
        OBJECT_COUNT_EXCEEDED,
        *(reason for _, reason in ADMISSION_TEXTS),
    }
)
FAILED_MOUNT = "FailedMount"
# Of the kubelet (pkg/kubelet/events), before it starts any container; each may be due to its node alone.
NODE_EVENTS = frozenset(
    {
        FAILED_MOUNT,
        "FailedMapVolume",
        "FailedCreatePodSandBox",
        "FailedCreatePodContainer",
        "FailedPrepareDynamicResources",
        "NetworkNotReady",
    }
)
# Only in pod events, with those of the attach controller; image and config problems are in the pod's status.
POD_EVENTS = NODE_EVENTS | {"FailedAttachVolume"}
# What may be due to the node alone: not an invalid name or a missing Secret, and not a volume that another node has.
OF_ONE_NODE = NODE_EVENTS | frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "CreateContainerError",
        "RunContainerError",
    }
)
PARTIAL_START = "PartialStartDeadlineExceeded"  # too few pods got a node
BY_QUOTA = frozenset({QUOTA_EXCEEDED, EXCEEDS_QUOTA})
# Of attempts that released their pods for want of what other jobs may have.
RELEASED = BY_QUOTA | {PARTIAL_START}
GIVEN_UP = REJECTIONS | RELEASED  # of attempts that released their pods, since they could not get the others
STATUS_DENIED = "StatusDenied"  # only of an event, since no condition can be written
GATED = frozenset({SCHEDULING_GATED, HELD_BY_KUEUE})
THAT_PASS = frozenset({UNSCHEDULABLE, *GATED, EXCEEDS_QUOTA, *REJECTIONS, *POD_EVENTS})
# Why a job waits for its queue, beside the reasons that Kueue gives; client/explain/causes.toml lists these too.
QUEUED = "Queued"
DEACTIVATED = "Deactivated"
UNSATISFIED = "UnsatisfiedAdmissionChecks"
QUEUE_MISSING = "QueueMissing"
QUEUE_NAME_CONFLICT = "QueueNameConflict"
FLAVOR_MISSING = "FlavorMissing"
PRIORITY_CLASS_MISSING = "PriorityClassMissing"
MAX_TIME_INVALID = "MaxExecTimeInvalid"


def read_admission_reason(kind: str, message: str) -> str:
    """Returns the reason that the message of a refusal tells; "" if it tells none."""
    found = []
    for row, (pattern, reason) in enumerate(ADMISSION_TEXTS):
        match = pattern.search(message)
        if match is not None:
            found.append((match.start(), row, reason))
    # The earliest match, and of those at the same place the first row.
    *_, reason = min(found, default=(0, 0, ""))
    if reason == QUOTA_EXCEEDED and kind != "Pod":
        # Whether a job fits into the quota does not follow from the number of its other objects, which are few.
        return OBJECT_COUNT_EXCEEDED
    return reason
