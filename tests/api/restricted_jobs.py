"""Jobs for restricted operators: what each uses, and the field that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railhead.api.restrictions import make_restrictions

RESTRICTED = make_restrictions(
    is_restricted=True, service_accounts=["default", "trainer"], secrets=["keys", "git"], claims=["runs"]
)
ONLY_TRAINER = make_restrictions(is_restricted=False, service_accounts=["trainer"], secrets=[], claims=[])
STRICTEST = make_restrictions(is_restricted=True, service_accounts=[], secrets=[], claims=[])
ANYTHING_NAMED = make_restrictions(is_restricted=True, service_accounts=["*"], secrets=["*"], claims=["*"])
POD = "spec.podTemplate.spec"
GIT = {"repository": "https://git.example/a.git", "revision": "0" * 40}


@dataclass(frozen=True)
class Case:
    """A job, as changes to the smallest one.

    Attributes:
        refused: the field at fault and what is wrong with it; empty = the job is allowed.
    """

    changes: Mapping[str, Any]
    refused: str = ""

    def __str__(self) -> str:
        return self.refused or str(dict(self.changes))


def _pod(value: Mapping[str, Any], refused: str = "") -> Case:
    return Case({POD: value}, f"{POD}.{refused}" if refused else "")


def _ray(value: Mapping[str, Any], refused: str = "", *, at: str = "containers", name: str = "ray") -> Case:
    container = {"name": name, **value}
    return _pod({at: [container]}, f"{at}[{name}].{refused}" if refused else "")


def _init(value: Mapping[str, Any], refused: str) -> Case:
    return _ray({"image": "a:1", **value}, refused, at="initContainers", name="setup")


def _volume(value: Mapping[str, Any], refused: str = "") -> Case:
    return _pod({"volumes": [{"name": "v", **value}]}, f"volumes[v].{refused}" if refused else "")


def _context(value: Mapping[str, Any], refused: str = "") -> tuple[Case, Case]:
    """Of a pod and of a container."""
    field = f"securityContext.{refused}" if refused else ""
    return _pod({"securityContext": value}, field), _ray({"securityContext": value}, field)


def _secret(name: str) -> dict[str, Any]:
    return {"name": "A", "valueFrom": {"secretKeyRef": {"name": name, "key": "a"}}}


ACCOUNTS = (
    _pod({"serviceAccountName": "trainer"}),
    _pod({"serviceAccountName": "admin"}, "serviceAccountName: is none of the service accounts that jobs may use: ["),
    _pod({"serviceAccount": "admin"}, "serviceAccount: is none of the service accounts"),
    _pod({"serviceAccountName": "trainer", "serviceAccount": "admin"}, "serviceAccount: is none of"),
    _pod({"serviceAccountName": None}, "serviceAccountName: is none of"),
    _pod({"serviceAccountName": ""}, "serviceAccountName: is none of"),
    _pod({"serviceAccountName": ["trainer"]}, "serviceAccountName: is none of"),
    Case(
        {POD: {"serviceAccountName": "trainer"}, "spec.head.podTemplate.spec": {"serviceAccountName": "admin"}},
        "spec.head.podTemplate.spec.serviceAccountName: is none of",
    ),
    Case(
        {
            POD: {"serviceAccountName": "trainer"},
            "spec.worker.podTemplate.spec": {"serviceAccountName": None, "nodeSelector": {}},
        },
        "spec.worker.podTemplate.spec.serviceAccountName: is none of",
    ),
)
HOST = (
    *(_pod({field: True}, f"{field}: must be false") for field in ("hostNetwork", "hostPID", "hostIPC")),
    _pod({"hostNetwork": False, "hostPID": False, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}),
    _pod({"hostNetwork": "true"}, "hostNetwork: must be false"),
    _pod({"hostNetwork": 0}, "hostNetwork: must be false"),
    _pod({"automountServiceAccountToken": True}, "automountServiceAccountToken: must be false"),
    Case(
        {"spec.worker.podTemplate.spec": {"hostIPC": True}},
        "spec.worker.podTemplate.spec.hostIPC: must be false",
    ),
    Case(
        {"spec.head.podTemplate.spec": {"hostPID": True}, POD: {"hostPID": False}},
        "spec.head.podTemplate.spec.hostPID: must be false",
    ),
    _ray({"ports": [{"containerPort": 80}, {"containerPort": 8080, "hostPort": 0}]}),
    _ray({"ports": [{"containerPort": 80}, {"containerPort": 8080, "hostPort": 8080}]}, "ports[].hostPort: must be 0"),
    _init({"ports": [{"containerPort": 80, "hostPort": 80}]}, "ports[].hostPort: must be 0"),
    _ray({"livenessProbe": {"httpGet": {"port": 80, "path": "/"}}}),
    _ray({"livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}, "livenessProbe.httpGet.host: is not"),
    _ray({"lifecycle": {"postStart": {"tcpSocket": {"port": 80, "host": "h"}}}}, "lifecycle.postStart.tcpSocket.host"),
)
PRIVILEGES = (
    _ray({"securityContext": {"privileged": True}}, "securityContext.privileged: must be false"),
    _init({"securityContext": {"privileged": True}}, "securityContext.privileged: must be false"),
    _ray({"securityContext": {"privileged": False, "allowPrivilegeEscalation": False, "runAsUser": 0}}),
    _ray({"securityContext": {"allowPrivilegeEscalation": True}}, "securityContext.allowPrivilegeEscalation: must be"),
    _ray({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "securityContext.capabilities.add[]: is not"),
    _ray({"securityContext": {"capabilities": {"add": "SYS_ADMIN"}}}, "securityContext.capabilities.add[]"),
    _ray({"securityContext": {"capabilities": {"add": [], "drop": ["ALL"]}}}),
    _ray({"securityContext": {"capabilities": {"add": None, "drop": ["ALL"]}}}),
    _ray({"securityContext": {"procMount": "Unmasked"}}, 'securityContext.procMount: must be "Default"'),
    *_context({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile.type: must be one of RuntimeDefault, Local"),
    *_context({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile.type: must be one of"),
    *_context({"seLinuxOptions": {"level": "s0:c123,c456"}}),
    *_context({"seLinuxOptions": {"type": "spc_t"}}, "seLinuxOptions.type: must be one of container_t"),
    *_context({"seLinuxOptions": {"user": "system_u"}}, "seLinuxOptions.user: is not allowed"),
    *_context({"seLinuxOptions": {"role": "sysadm_r"}}, "seLinuxOptions.role: is not allowed"),
    *_context({"windowsOptions": {"hostProcess": True}}, "windowsOptions.hostProcess: must be false"),
    *_context({"seccompProfile": {"type": "RuntimeDefault"}, "seLinuxOptions": None}),
    _pod({"securityContext": None}),
    _pod({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}}),
    _pod({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "securityContext.sysctls[].name"),
    Case(
        {"spec.podTemplate.metadata.annotations": {"container.apparmor.security.beta.kubernetes.io/ray": "unconfined"}},
        "spec.podTemplate.metadata.annotations.*: must not begin with container.apparmor.security.beta.kubernetes.io/",
    ),
    Case({"spec.podTemplate.metadata": {"annotations": {"team": "a"}, "labels": {"team": "a"}}}),
)
SECRETS = (
    Case({"spec.envFrom": [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}]}),
    Case({"spec.envFrom": [{"secretRef": {"name": "root"}}]}, "spec.envFrom[].secretRef.name: is none of the Secrets"),
    Case({"spec.env": [{"name": "B", "value": "1"}, _secret("keys")]}),
    Case({"spec.env": [_secret("root")]}, "spec.env[].valueFrom.secretKeyRef.name: is none of the Secrets that jobs"),
    Case({"spec.imagePullSecrets": [{"name": "root"}]}, "spec.imagePullSecrets[].name: is none of the Secrets"),
    Case({"spec.source": {"git": {**GIT, "secretName": "git"}}}),
    Case({"spec.source": {"git": {**GIT, "secretName": "root"}}}, "spec.source.git.secretName: is none of the Secrets"),
    _pod({"imagePullSecrets": [{"name": "keys"}, {"name": "root"}]}, "imagePullSecrets[].name: is none of the Secrets"),
    _ray({"env": [_secret("root")]}, "env[].valueFrom.secretKeyRef.name: is none of the Secrets"),
    _ray({"envFrom": [{"secretRef": {"name": "keys"}}]}),
    _ray({"envFrom": [{"secretRef": {"name": "root"}}]}, "envFrom[].secretRef.name: is none of the Secrets"),
    _init({"envFrom": [{"secretRef": {"name": "root"}}]}, "envFrom[].secretRef.name: is none of the Secrets"),
    _volume({"secret": {"secretName": "keys"}}),
    _volume({"secret": {"secretName": "root"}}, "secret.secretName: is none of the Secrets that jobs may use: ["),
    _volume({"projected": {"sources": [{"secret": {"name": "keys"}}, {"configMap": {"name": "any"}}]}}),
    _volume({"projected": {"sources": [{"secret": {"name": "root"}}]}}, "projected.sources[].secret.name: is none of"),
)
_TOKEN = {"serviceAccountToken": {"path": "token"}}
VOLUMES = (
    *(_volume({kind: {}}) for kind in ("emptyDir", "downwardAPI")),
    _volume({"configMap": {"name": "any"}}),
    _volume({"image": {"reference": "data:1"}}),
    *(
        _volume({kind: {}}, "*: must be one of name, configMap, ")
        for kind in ("hostPath", "csi", "nfs", "rbd", "cephfs", "iscsi", "flexVolume", "azureFile", "gitRepo")
    ),
    _volume({"hostPath": {"path": "/"}, "emptyDir": {}}, "*: must be one of"),
    _volume(
        {"projected": {"sources": [_TOKEN]}}, "projected.sources[].*: must be one of clusterTrustBundle, configMap"
    ),
    _volume({"projected": {"sources": [{"podCertificate": {}}]}}, "projected.sources[].*: must be one of"),
    _volume({"persistentVolumeClaim": {"claimName": "runs"}}),
    _volume({"persistentVolumeClaim": {"claimName": "other"}}, "persistentVolumeClaim.claimName: is none of the Pers"),
    Case(
        {"spec.run.storageVolume.persistentVolumeClaim.claimName": "other"},
        "spec.run.storageVolume.persistentVolumeClaim.claimName: is none of the PersistentVolumeClaims that jobs may",
    ),
    Case({"spec.run.storageVolume.persistentVolumeClaim.claimName": "runs"}),
    _volume({"ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast", "resources": {}}}}}),
    *(
        _volume({"ephemeral": {"volumeClaimTemplate": {"spec": {field: {}}}}}, "ephemeral.volumeClaimTemplate.spec.*:")
        for field in ("dataSource", "dataSourceRef", "volumeName", "selector")
    ),
)
CASES = (Case({}), *ACCOUNTS, *HOST, *PRIVILEGES, *SECRETS, *VOLUMES)
# Where `default` is not allowed, each pod has to name another account.
NAMING = (
    Case({}, "spec.podTemplate.spec.serviceAccountName: is required"),
    Case({"spec.head.podTemplate.spec.serviceAccountName": "trainer"}, "spec.podTemplate.spec.serviceAccountName: is"),
    Case(
        {"spec.worker.podTemplate.spec.serviceAccountName": "trainer"}, "spec.podTemplate.spec.serviceAccountName: is"
    ),
    Case(
        {
            "spec.head.podTemplate.spec.serviceAccountName": "trainer",
            "spec.worker.podTemplate.spec.serviceAccountName": "trainer",
        }
    ),
    Case({POD: {"serviceAccountName": "trainer", "hostNetwork": True}, "spec.envFrom": [{"secretRef": {"name": "x"}}]}),
    Case({POD: {"serviceAccountName": "default"}}, f"{POD}.serviceAccountName: is none of"),
)
