"""What Railhead does with each field of a PodSpec and of a Container that a podTemplate may have: the one table of it.

A test compares the table with the OpenAPI of the API server. So a field of a newer Kubernetes fails that test until
somebody has decided about it, and does not reach a pod before: a container that restarts in its pod, for example,
escapes backoffLimit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class FieldDecision(Enum):
    """What Railhead does with a field."""

    KEPT = "goes into the pod as it is written; the API server judges it"
    MERGED = "what Railhead needs is added to it, and wins where the two meet"
    REFUSED = "a rule of the CRD refuses it"
    OVERWRITTEN = "Railhead's own value replaces it"


KEPT = FieldDecision.KEPT
MERGED = FieldDecision.MERGED
REFUSED = FieldDecision.REFUSED
OVERWRITTEN = FieldDecision.OVERWRITTEN

POD_FIELDS: Mapping[str, FieldDecision] = {
    "activeDeadlineSeconds": KEPT,
    "affinity": MERGED,  # scheduling.topology, and the nodes that the job avoids
    "automountServiceAccountToken": OVERWRITTEN,
    "containers": MERGED,
    "dnsConfig": KEPT,
    "dnsPolicy": KEPT,
    "enableServiceLinks": OVERWRITTEN,
    "ephemeralContainers": REFUSED,  # no new pod may have them
    "evictionResponders": KEPT,
    "hostAliases": KEPT,
    "hostIPC": KEPT,
    "hostNetwork": KEPT,
    "hostPID": KEPT,
    "hostUsers": KEPT,
    "hostname": REFUSED,  # the head's DNS name, by which workers find it
    "hostnameOverride": REFUSED,
    "imagePullSecrets": KEPT,
    "initContainers": MERGED,  # with spec.source.git, one that fetches the code
    "nodeName": KEPT,
    "nodeSelector": MERGED,
    "os": KEPT,
    "overhead": KEPT,
    "preemptionPolicy": KEPT,
    "priority": KEPT,
    "priorityClassName": KEPT,
    "readinessGates": KEPT,
    "resourceClaims": KEPT,
    "resources": KEPT,
    "restartPolicy": REFUSED,
    "runtimeClassName": KEPT,
    "schedulerName": KEPT,
    "schedulingGates": KEPT,
    "schedulingGroup": KEPT,
    "securityContext": KEPT,
    "serviceAccount": KEPT,
    "serviceAccountName": KEPT,
    "setHostnameAsFQDN": KEPT,
    "shareProcessNamespace": KEPT,
    "subdomain": REFUSED,
    "terminationGracePeriodSeconds": MERGED,  # at least what the last checkpoint may take
    "tolerations": MERGED,
    "topologySpreadConstraints": KEPT,
    "volumes": MERGED,
    "workloadRef": KEPT,
}
# Of the container named ray.
CONTAINER_FIELDS: Mapping[str, FieldDecision] = {
    "args": REFUSED,
    "command": REFUSED,
    "env": MERGED,
    "envFrom": KEPT,
    "image": REFUSED,
    "imagePullPolicy": KEPT,
    "lifecycle": KEPT,
    "livenessProbe": KEPT,
    "name": KEPT,
    "ports": MERGED,
    "readinessProbe": KEPT,
    "resizePolicy": KEPT,
    "resources": MERGED,  # rules of the CRD allow only a limit of CPUs and huge pages
    "restartPolicy": REFUSED,
    "restartPolicyRules": REFUSED,
    "securityContext": KEPT,
    "startupProbe": KEPT,
    "stdin": KEPT,
    "stdinOnce": KEPT,
    "terminationMessagePath": OVERWRITTEN,  # how the driver tells the operator its outcome
    "terminationMessagePolicy": OVERWRITTEN,
    "tty": KEPT,
    "volumeDevices": KEPT,
    "volumeMounts": MERGED,
    "workingDir": KEPT,
}
# Of an additional container. One that is missing here is KEPT.
SIDECAR_FIELDS: Mapping[str, FieldDecision] = {"restartPolicy": REFUSED, "restartPolicyRules": REFUSED}


def list_refused(fields: Mapping[str, FieldDecision]) -> tuple[str, ...]:
    """Returns the names of the fields that a rule of the CRD refuses."""
    return tuple(name for name, decision in fields.items() if decision is REFUSED)
