"""What a TrainJob may use of its namespace and of the nodes, where an administrator restricts it.

The operator creates the pods, so whoever may create TrainJobs may otherwise use every service account, Secret and
volume of the namespace. RULES is the only list of what is restricted: the operator applies it before it creates pods,
and `admission_policy` turns it into the chart's ValidatingAdmissionPolicy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from railhead.api.spec import TrainJobSpec

ANY = "*"
DEFAULT_ACCOUNT = "default"  # of a pod that names none
ADVICE = "; change the job, or ask your administrator: the chart's values jobs.* decide what jobs may use"
# What the rules read. Most of it may change while the job is suspended, and the CRD never compares what its schema
# does not list.
FIELDS = ("podTemplate", "head", "worker", "env", "envFrom", "imagePullSecrets", "source", "run")
TEMPLATES = (("podTemplate",), ("head", "podTemplate"), ("worker", "podTemplate"))
CONTAINER_LISTS = ("containers", "initContainers")

Scope = Literal["job", "templates", "pods", "containers", "volumes"]
Kind = Literal["serviceAccounts", "secrets", "claims"]
KINDS: dict[Kind, str] = {
    "serviceAccounts": "service accounts",
    "secrets": "Secrets",
    "claims": "PersistentVolumeClaims",
}


@dataclass(frozen=True)
class Restrictions:
    """What the jobs of one operator may use. Names may include `*` for any.

    Attributes:
        is_restricted: whether all of RULES applies, or only what it says about service accounts.
    """

    is_restricted: bool = False
    service_accounts: tuple[str, ...] = (ANY,)
    secrets: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()

    def names(self, kind: Kind) -> tuple[str, ...]:
        return {"serviceAccounts": self.service_accounts, "secrets": self.secrets, "claims": self.claims}[kind]


UNRESTRICTED = Restrictions()


def make_restrictions(
    *, is_restricted: bool, service_accounts: Iterable[str], secrets: Iterable[str], claims: Iterable[str]
) -> Restrictions:
    """With the defaults for what is not named.

    Raises:
        ValueError: names that would have no effect.
    """
    given = tuple(service_accounts), tuple(secrets), tuple(claims)
    if not is_restricted and (given[1] or given[2]):
        raise ValueError("--allowed-secret and --allowed-claim need --restrict-pod-template")
    accounts = given[0] or ((DEFAULT_ACCOUNT,) if is_restricted else (ANY,))
    return Restrictions(is_restricted, accounts, given[1], given[2])


@dataclass(frozen=True)
class OneOf:
    """A value is one of these; none = the field must be absent."""

    values: tuple[bool | int | str, ...] = ()

    def describe(self) -> str:
        if len(self.values) > 1:
            return f"must be one of {', '.join(map(str, self.values))}"
        return f"must be {json.dumps(self.values[0])}" if self.values else "is not allowed"


@dataclass(frozen=True)
class Named:
    """A value is the name of an object that jobs may use."""

    kind: Kind

    def describe(self) -> str:
        return f"is none of the {KINDS[self.kind]} that jobs may use"


@dataclass(frozen=True)
class Without:
    """A text does not begin with this."""

    prefix: str

    def describe(self) -> str:
        return f"must not begin with {self.prefix}"


Test = OneOf | Named | Without


@dataclass(frozen=True)
class Rule:
    """Which values a field may have; it may always be absent.

    Attributes:
        path: from the scope: `[]` is each item of a list, and a last `*` each key of an object.
    """

    scope: Scope
    path: str
    test: Test = OneOf()


_NO, _SECRETS, _CLAIMS = OneOf((False,)), Named("secrets"), Named("claims")
_PROFILES = OneOf(("RuntimeDefault", "Localhost"))
_SELINUX_TYPES = OneOf(("container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
_SYSCTLS = OneOf(
    (
        "kernel.shm_rmid_forced",
        *(f"net.ipv4.ip_{name}" for name in ("local_port_range", "unprivileged_port_start", "local_reserved_ports")),
        *(f"net.ipv4.tcp_{name}" for name in ("syncookies", "fin_timeout")),
        *(f"net.ipv4.tcp_keepalive_{name}" for name in ("time", "intvl", "probes")),
        "net.ipv4.ping_group_range",
    )
)
_VOLUMES = OneOf(
    (
        *("name", "configMap", "downwardAPI", "emptyDir", "ephemeral"),
        *("image", "persistentVolumeClaim", "projected", "secret"),
    )
)
_SOURCES = OneOf(("clusterTrustBundle", "configMap", "downwardAPI", "secret"))
_NEW_VOLUME = OneOf(("accessModes", "resources", "storageClassName", "volumeAttributesClassName", "volumeMode"))
_CALLS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")


def _in_security_context(scope: Scope) -> tuple[Rule, ...]:
    """Of pods and of containers."""
    return (
        Rule(scope, "securityContext.seccompProfile.type", _PROFILES),
        Rule(scope, "securityContext.appArmorProfile.type", _PROFILES),
        Rule(scope, "securityContext.seLinuxOptions.type", _SELINUX_TYPES),
        Rule(scope, "securityContext.seLinuxOptions.user"),
        Rule(scope, "securityContext.seLinuxOptions.role"),
        Rule(scope, "securityContext.windowsOptions.hostProcess", _NO),
    )


ACCOUNT_RULES = tuple(
    Rule("pods", field, Named("serviceAccounts")) for field in ("serviceAccountName", "serviceAccount")
)
# What Pod Security "baseline" forbids, no escalation, no token of a service account, and only volumes of the namespace
# and Secrets and PersistentVolumeClaims that are named.
RULES = (
    *ACCOUNT_RULES,
    Rule("job", "env[].valueFrom.secretKeyRef.name", _SECRETS),
    Rule("job", "envFrom[].secretRef.name", _SECRETS),
    Rule("job", "imagePullSecrets[].name", _SECRETS),
    Rule("job", "source.git.secretName", _SECRETS),
    Rule("job", "run.storageVolume.persistentVolumeClaim.claimName", _CLAIMS),
    Rule("templates", "metadata.annotations.*", Without("container.apparmor.security.beta.kubernetes.io/")),
    *(Rule("pods", field, _NO) for field in ("hostNetwork", "hostPID", "hostIPC", "automountServiceAccountToken")),
    Rule("pods", "securityContext.sysctls[].name", _SYSCTLS),
    Rule("pods", "imagePullSecrets[].name", _SECRETS),
    *_in_security_context("pods"),
    *_in_security_context("containers"),
    *(Rule("containers", f"securityContext.{field}", _NO) for field in ("privileged", "allowPrivilegeEscalation")),
    Rule("containers", "securityContext.capabilities.add[]"),
    Rule("containers", "securityContext.procMount", OneOf(("Default",))),
    Rule("containers", "ports[].hostPort", OneOf((0,))),
    Rule("containers", "env[].valueFrom.secretKeyRef.name", _SECRETS),
    Rule("containers", "envFrom[].secretRef.name", _SECRETS),
    *(Rule("containers", f"{call}.{kind}.host") for call in _CALLS for kind in ("httpGet", "tcpSocket")),
    Rule("volumes", "*", _VOLUMES),
    Rule("volumes", "secret.secretName", _SECRETS),
    Rule("volumes", "projected.sources[].*", _SOURCES),
    Rule("volumes", "projected.sources[].secret.name", _SECRETS),
    Rule("volumes", "persistentVolumeClaim.claimName", _CLAIMS),
    Rule("volumes", "ephemeral.volumeClaimTemplate.spec.*", _NEW_VOLUME),
)
NO_ACCOUNT = (
    "spec.podTemplate.spec.serviceAccountName: is required, because default is none of the service accounts that jobs "
    "may use"
)


def find_refusals(spec: TrainJobSpec, restrictions: Restrictions) -> tuple[str, ...]:
    """What the job may not use: the field and what is wrong with it."""
    if restrictions == UNRESTRICTED:
        return ()
    fields = {f for f, info in TrainJobSpec.model_fields.items() if (info.alias or f) in FIELDS}
    job = spec.model_dump(by_alias=True, exclude_none=True, include=fields)
    found = (
        [] if _names_accounts(job, restrictions) else [_describe(NO_ACCOUNT, Named("serviceAccounts"), restrictions)]
    )
    for rule in RULES if restrictions.is_restricted else ACCOUNT_RULES:
        for at, body in _find_bodies(job, rule.scope):
            if not all(
                _is_allowed(value, rule.test, restrictions) for value in _find_values(body, rule.path.split("."))
            ):
                found.append(_describe(f"{at}.{rule.path}: {rule.test.describe()}", rule.test, restrictions))
    return tuple(found)


def _is_allowed(value: object, test: Test, restrictions: Restrictions) -> bool:
    if isinstance(test, Named):
        names = restrictions.names(test.kind)
        return ANY in names or value in names
    if isinstance(test, Without):
        return not str(value).startswith(test.prefix)
    return any(type(value) is type(each) and value == each for each in test.values)  # False is not 0


def _describe(text: str, test: Test, restrictions: Restrictions) -> str:
    return f"{text}: [{', '.join(restrictions.names(test.kind))}]" if isinstance(test, Named) else text


def _names_accounts(job: Mapping[str, Any], restrictions: Restrictions) -> bool:
    """Whether no pod runs as `default`, where jobs may not use it."""
    if {ANY, DEFAULT_ACCOUNT} & {*restrictions.service_accounts}:
        return True
    shared, head, worker = (body.get("serviceAccountName") is not None for _, body in _find_bodies(job, "pods"))
    return shared or (head and worker)


def _find_bodies(job: Mapping[str, Any], scope: Scope) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where a scope's objects are in a job, and the objects."""
    if scope == "job":
        yield "spec", job
        return
    for path in TEMPLATES:
        at, template = ".".join(("spec", *path)), _get(job, path)
        if scope == "templates":
            yield at, template
            continue
        pod = _get(template, ("spec",))
        if scope == "pods":
            yield f"{at}.spec", pod
            continue
        for key in CONTAINER_LISTS if scope == "containers" else ("volumes",):
            for item in pod.get(key) or []:
                yield f"{at}.spec.{key}[{item['name']}]", item


def _get(body: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    for key in path:
        body = body.get(key) or {}
    return body


def _find_values(body: object, path: Sequence[str]) -> Iterator[object]:
    """The values of a field that a rule names. The API server accepts no pod with an object or list of another type."""
    if not path:
        yield body
        return
    if not isinstance(body, Mapping):
        return
    step, rest = path[0], path[1:]
    if step == "*":
        yield from body
        return
    value = body.get(step.removesuffix("[]"))
    if not step.endswith("[]"):
        if step in body and (value is not None or not rest):
            yield from _find_values(value, rest)
        return
    for item in value if isinstance(value, list) else [] if value is None else [value]:
        yield from _find_values(item, rest)
