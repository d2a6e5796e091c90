"""Jobs where an administrator restricts them: what each uses, and which admission refuses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

# Values of the chart: `jobs`.
RESTRICTED = {
    "restrictPodTemplate": True,
    "allowedServiceAccounts": ["default", "trainer"],
    "allowedSecrets": ["keys", "git"],
    "allowedClaims": ["runs"],
}
ONLY_TRAINER = {"allowedServiceAccounts": ["trainer"]}
STRICTEST = {"restrictPodTemplate": True}
ANYTHING_NAMED = {
    "restrictPodTemplate": True,
    "allowedServiceAccounts": ["*"],
    "allowedSecrets": ["*"],
    "allowedClaims": ["*"],
}
POD = "spec.podTemplate.spec"
GIT = {"repository": "https://git.example/a.git", "revision": "0" * 40}


class By(Enum):
    """Which admission refuses a job or its pods. The policy is the chart's and judges the job."""

    NONE = "none"
    UNLISTED = "the policy, because it names an object that jobs may not use"
    UNLESS_LISTED = "the policy, only where the object that it names is not listed"
    POLICY = "the policy, whatever is listed"
    BASELINE = "Pod Security baseline, and restricted"
    RESTRICTED = "Pod Security restricted"
    TYPE = "the API server's own validation of pods"


@dataclass(frozen=True)
class Case:
    """A job, as changes to the smallest one.

    Attributes:
        refused: text of the message that refuses it, which names the field.
    """

    changes: Mapping[str, Any]
    by: By = By.NONE
    refused: str = ""

    def __str__(self) -> str:
        return f"{self.by.name} {dict(self.changes)}"


def _pod(value: Mapping[str, Any], by: By = By.NONE, refused: str = "") -> Case:
    return Case({POD: value}, by, refused)


def _ray(value: Mapping[str, Any], by: By = By.NONE, refused: str = "") -> Case:
    return _pod({"containers": [{"name": "ray", **value}]}, by, refused)


def _init(value: Mapping[str, Any], by: By, refused: str) -> Case:
    return _pod({"initContainers": [{"name": "setup", "image": "a:1", **value}]}, by, refused)


def _volume(value: Mapping[str, Any], by: By = By.NONE, refused: str = "") -> Case:
    return _pod({"volumes": [{"name": "v", **value}]}, by, refused)


def _context(value: Mapping[str, Any], by: By = By.NONE, refused: str = "") -> tuple[Case, Case]:
    """Returns the cases of a pod and of a container with this security context."""
    return _pod({"securityContext": value}, by, refused), _ray({"securityContext": value}, by, refused)


def _secret(name: str) -> dict[str, Any]:
    return {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "a"}}}


_ACCOUNT = "podTemplate.spec.serviceAccountName must be one of the service accounts that jobs may use: ["
ACCOUNTS = (
    _pod({"serviceAccountName": "trainer"}, By.UNLESS_LISTED, _ACCOUNT),
    _pod({"serviceAccountName": "admin"}, By.UNLISTED, _ACCOUNT),
    _pod({"serviceAccount": "admin"}, By.UNLISTED, _ACCOUNT),
    _pod({"serviceAccountName": "trainer", "serviceAccount": "admin"}, By.UNLISTED, _ACCOUNT),
    _pod({"serviceAccountName": None}, By.UNLISTED, _ACCOUNT),
    _pod({"serviceAccountName": ""}, By.UNLISTED, _ACCOUNT),
    _pod({"serviceAccountName": ["trainer"]}, By.UNLISTED, _ACCOUNT),
    Case(
        {POD: {"serviceAccountName": "trainer"}, "spec.head.podTemplate.spec": {"serviceAccountName": "admin"}},
        By.UNLISTED,
        _ACCOUNT,
    ),
    Case(
        {
            POD: {"serviceAccountName": "trainer"},
            "spec.worker.podTemplate.spec": {"serviceAccountName": None, "nodeSelector": {}},
        },
        By.UNLISTED,
        _ACCOUNT,
    ),
)
HOST = (
    *(_pod({field: True}, By.BASELINE, f"{field}=true") for field in ("hostNetwork", "hostPID", "hostIPC")),
    _pod({"hostNetwork": False, "hostPID": False, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}),
    _pod({"hostNetwork": "true"}, By.TYPE, "hostNetwork"),
    _pod({"hostNetwork": 0}, By.TYPE, "hostNetwork"),
    _pod({"nodeName": "node-1"}, By.POLICY, "podTemplate.spec.nodeName must not be set"),
    _pod({"nodeName": ""}, By.POLICY, "podTemplate.spec.nodeName must not be set"),
    _pod({"automountServiceAccountToken": True}, By.POLICY, "automountServiceAccountToken must be false"),
    _pod({"automountServiceAccountToken": "true"}, By.POLICY, "automountServiceAccountToken must be false"),
    _pod({"automountServiceAccountToken": False}),
    Case({"spec.worker.podTemplate.spec": {"automountServiceAccountToken": True}}, By.POLICY, "must be false"),
    Case({"spec.worker.podTemplate.spec": {"hostIPC": True}}, By.BASELINE, "hostIPC=true"),
    Case({"spec.head.podTemplate.spec": {"hostPID": True}, POD: {"hostPID": False}}, By.BASELINE, "hostPID=true"),
    _ray({"ports": [{"containerPort": 80}, {"containerPort": 8080, "hostPort": 0}]}),
    _ray({"ports": [{"containerPort": 80}, {"containerPort": 8080, "hostPort": 8080}]}, By.BASELINE, "hostPort 8080"),
    _init({"ports": [{"containerPort": 80, "hostPort": 80}]}, By.BASELINE, "hostPort 80"),
    _ray({"livenessProbe": {"httpGet": {"port": 80, "path": "/"}}}),
    _ray({"livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}, By.BASELINE, "probe"),
    _ray({"lifecycle": {"postStart": {"tcpSocket": {"port": 80, "host": "h"}}}}, By.BASELINE, "lifecycle"),
)
PRIVILEGES = (
    _ray({"securityContext": {"privileged": True, "allowPrivilegeEscalation": True}}, By.BASELINE, "privileged"),
    _ray({"securityContext": {"privileged": True}}, By.TYPE, "allowPrivilegeEscalation"),  # false by default
    _init({"securityContext": {"privileged": True}}, By.BASELINE, "privileged"),
    _ray({"securityContext": {"privileged": False, "allowPrivilegeEscalation": False}}),
    _ray({"securityContext": {"runAsUser": 0}}, By.RESTRICTED, "runAsUser=0"),
    _ray({"securityContext": {"allowPrivilegeEscalation": True}}, By.RESTRICTED, "allowPrivilegeEscalation != false"),
    _ray({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, By.BASELINE, "SYS_ADMIN"),
    _ray({"securityContext": {"capabilities": {"add": ["CHOWN"]}}}, By.RESTRICTED, "unrestricted capabilities"),
    _ray({"securityContext": {"capabilities": {"add": "SYS_ADMIN"}}}, By.TYPE, "capabilities"),
    _ray({"securityContext": {"capabilities": {"add": [], "drop": ["ALL"]}}}),
    _ray({"securityContext": {"capabilities": {"add": None, "drop": ["ALL"]}}}),
    _ray({"securityContext": {"procMount": "Unmasked"}}, By.TYPE, "hostUsers"),
    *_context({"seccompProfile": {"type": "Unconfined"}}, By.BASELINE, "seccompProfile"),
    *_context({"appArmorProfile": {"type": "Unconfined"}}, By.BASELINE, "AppArmor profile"),
    *_context({"seLinuxOptions": {"level": "s0:c123,c456"}}),
    *_context({"seLinuxOptions": {"type": "spc_t"}}, By.BASELINE, "seLinuxOptions"),
    *_context({"seLinuxOptions": {"user": "system_u"}}, By.BASELINE, "seLinuxOptions"),
    *_context({"seLinuxOptions": {"role": "sysadm_r"}}, By.BASELINE, "seLinuxOptions"),
    *_context({"windowsOptions": {"hostProcess": True}}, By.TYPE, "hostNetwork must be true"),
    _pod(
        {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}}, By.BASELINE, "hostProcess"
    ),
    *_context({"seccompProfile": {"type": "RuntimeDefault"}, "seLinuxOptions": None}),
    _pod({"securityContext": None}),
    _pod({"securityContext": {"runAsNonRoot": None}}, By.RESTRICTED, "runAsNonRoot"),
    _pod({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}}),
    _pod({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, By.BASELINE, "kernel.msgmax"),
    Case(
        {"spec.podTemplate.metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/ray": "unconfined"}},
        By.BASELINE,
        "container.apparmor.security.beta.kubernetes.io",
    ),
    Case({"spec.podTemplate.metadata": {"annotations": {"team": "a"}, "labels": {"team": "a"}}}),
)
_MUST = "must be one of the Secrets that jobs may use: ["
_ENV, _ENV_FROM = f"env[].valueFrom.secretKeyRef.name {_MUST}", f"envFrom[].secretRef.name {_MUST}"
_PULL, _GIT = f"imagePullSecrets[].name {_MUST}", f"source.git.secretName {_MUST}"
_SECRET_VOLUME = f"volumes[].secret.secretName and volumes[].projected.sources[].secret.name {_MUST}"
SECRETS = (
    Case(
        {"spec.envFrom": [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}]},
        By.UNLESS_LISTED,
        _ENV_FROM,
    ),
    Case({"spec.envFrom": [{"configMapRef": {"name": "settings"}}]}),
    Case({"spec.envFrom": [{"secretRef": {"name": "root"}}]}, By.UNLISTED, _ENV_FROM),
    Case({"spec.env": [{"name": "B", "value": "1"}, _secret("keys")]}, By.UNLESS_LISTED, _ENV),
    Case({"spec.env": [_secret("root")]}, By.UNLISTED, _ENV),
    Case({"spec.imagePullSecrets": [{"name": "root"}]}, By.UNLISTED, _PULL),
    Case({"spec.source": {"git": {**GIT, "secretName": "git"}}}, By.UNLESS_LISTED, _GIT),
    Case({"spec.source": {"git": {**GIT, "secretName": "root"}}}, By.UNLISTED, _GIT),
    _pod({"imagePullSecrets": [{"name": "keys"}, {"name": "root"}]}, By.UNLISTED, _PULL),
    _ray({"env": [_secret("root")]}, By.UNLISTED, _ENV),
    _ray({"envFrom": [{"secretRef": {"name": "keys"}}]}, By.UNLESS_LISTED, _ENV_FROM),
    _ray({"envFrom": [{"secretRef": {"name": "root"}}]}, By.UNLISTED, _ENV_FROM),
    _init({"envFrom": [{"secretRef": {"name": "root"}}]}, By.UNLISTED, _ENV_FROM),
    Case({"spec.worker.podTemplate.spec": {"imagePullSecrets": [{"name": "root"}]}}, By.UNLISTED, _PULL),
    _volume({"secret": {"secretName": "keys"}}, By.UNLESS_LISTED, _SECRET_VOLUME),
    _volume({"secret": {"secretName": "root"}}, By.UNLISTED, _SECRET_VOLUME),
    _volume(
        {"projected": {"sources": [{"secret": {"name": "keys"}}, {"configMap": {"name": "any"}}]}},
        By.UNLESS_LISTED,
        _SECRET_VOLUME,
    ),
    _volume({"projected": {"sources": [{"secret": {"name": "root"}}]}}, By.UNLISTED, _SECRET_VOLUME),
)
_TOKEN = {"serviceAccountToken": {"path": "token"}}
_CLAIM = "persistentVolumeClaim.claimName must be one of the PersistentVolumeClaims that jobs may use: ["
VOLUMES = (
    *(_volume({kind: {}}) for kind in ("emptyDir", "downwardAPI")),
    _volume({"configMap": {"name": "any"}}),
    _volume({"image": {"reference": "data:1"}}),
    *(
        _volume({kind: {}}, By.POLICY, "volumes[] must be one of configMap, ")
        for kind in ("hostPath", "csi", "nfs", "rbd", "cephfs", "iscsi", "flexVolume", "azureFile", "gitRepo")
    ),
    _volume({"hostPath": {"path": "/"}, "emptyDir": {}}, By.POLICY, "volumes[] must be one of"),
    _volume(
        {"projected": {"sources": [_TOKEN]}},
        By.POLICY,
        "volumes[].projected.sources[] must be one of clusterTrustBundle, configMap",
    ),
    _volume({"projected": {"sources": [{"podCertificate": {}}]}}, By.POLICY, "volumes[].projected.sources[] must be"),
    _volume({"persistentVolumeClaim": {"claimName": "runs"}}, By.UNLESS_LISTED, f"volumes[].{_CLAIM}"),
    _volume({"persistentVolumeClaim": {"claimName": "other"}}, By.UNLISTED, f"volumes[].{_CLAIM}"),
    Case(
        {"spec.run.storageVolume.persistentVolumeClaim.claimName": "other"}, By.UNLISTED, f"run.storageVolume.{_CLAIM}"
    ),
    Case(
        {"spec.run.storageVolume.persistentVolumeClaim.claimName": "runs"},
        By.UNLESS_LISTED,
        f"run.storageVolume.{_CLAIM}",
    ),
    _volume(
        {
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "fast",
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            }
        }
    ),
    *(
        _volume({"ephemeral": {"volumeClaimTemplate": {"spec": {field: {}}}}}, By.POLICY, "volumes[].ephemeral must")
        for field in ("dataSource", "dataSourceRef", "volumeName", "selector")
    ),
)
# As programs in Go write templates.
NULLS = (
    _pod({"containers": None, "initContainers": None, "volumes": None}),
    Case({"spec.podTemplate": {"metadata": {"creationTimestamp": None}, "spec": None}}),
    Case({"spec.podUser": "Cluster", "spec.childMetadata": {"labels": {"team": "a"}}}),
)
CASES = (Case({}), *NULLS, *ACCOUNTS, *HOST, *PRIVILEGES, *SECRETS, *VOLUMES)
# Where `default` is not allowed, each pod has to name another account.
_REQUIRED = "podTemplate.spec.serviceAccountName is required: it must be one of the service accounts"
NAMING = (
    Case({}, By.POLICY, _REQUIRED),
    Case({"spec.head.podTemplate.spec.serviceAccountName": "trainer"}, By.POLICY, _REQUIRED),
    Case({"spec.worker.podTemplate.spec.serviceAccountName": "trainer"}, By.POLICY, _REQUIRED),
    Case(
        {
            "spec.head.podTemplate.spec.serviceAccountName": "trainer",
            "spec.worker.podTemplate.spec.serviceAccountName": "trainer",
        }
    ),
    Case({POD: {"serviceAccountName": "trainer", "hostNetwork": True}, "spec.envFrom": [{"secretRef": {"name": "x"}}]}),
    Case({POD: {"serviceAccountName": "default"}}, By.POLICY, _ACCOUNT),
)
