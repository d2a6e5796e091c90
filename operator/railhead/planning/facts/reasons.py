"""Reasons of the condition Reconciling while pods do not start. `controller/` reads them out of answers and events."""

from __future__ import annotations

UNSCHEDULABLE = "Unschedulable"
SOURCE_NOT_FOUND = "SourceNotFound"
CREATE_REFUSED = "CreateRefused"
POD_INVALID = "PodInvalid"
WEBHOOK_FAILED = "AdmissionWebhookFailed"
# The API server's own admission has no codes: the first of these texts in its message counts.
ADMISSION_TEXTS = (
    ("exceeded quota", "QuotaExceeded"),
    ("failed quota", "QuotaExceeded"),
    ("violates PodSecurity", "PodSecurityViolated"),
    ("error looking up service account", "ServiceAccountNotFound"),
    ("denied the request", "AdmissionDenied"),
    ("denied request", "AdmissionDenied"),
)
REJECTIONS = frozenset(
    {SOURCE_NOT_FOUND, CREATE_REFUSED, POD_INVALID, WEBHOOK_FAILED, *(reason for _, reason in ADMISSION_TEXTS)}
)
# The kubelet's and the attach controller's, in events about the pod only; images and configuration are in its status.
POD_EVENTS = frozenset({"FailedMount", "FailedMapVolume", "FailedAttachVolume", "FailedCreatePodSandBox"})
THAT_PASS = frozenset({UNSCHEDULABLE, *REJECTIONS, *POD_EVENTS})
