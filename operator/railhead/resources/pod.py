"""What head and worker pods share: security, volumes, environment, and the user's templates on top.

Precedence, lowest first: our defaults, spec.podTemplate, the role's podTemplate, and last what
the job requires (image, entry point, identity, names, the reserved environment).
"""

from __future__ import annotations

from dataclasses import dataclass

from railhead.api import names
from railhead.api.base import Object
from railhead.api.spec import TrainJobSpec
from railhead.contract import environment
from railhead.contract.job_input import CA_KEY, FILE
from railhead.resources.bundle import (
    AUTH_FOLDER,
    BUNDLE_FOLDER,
    INPUT_FOLDER,
    TEMP_FOLDER,
    TERMINATION_LOG,
    build_start,
    find_copy,
)
from railhead.resources.merge import merge
from railhead.resources.mounts import TOKEN_KEY, Mounts, get_digest
from railhead.resources.owner import JobRef, build_metadata
from railhead.resources.placement import add_head_tolerations
from railhead.resources.sizes import PodSize
from railhead.resources.source import (
    build_fetch_container,
    build_source_mounts,
    build_source_volumes,
    find_source_folder,
)

RAY_USER = 1000  # the public Ray images' user; numeric, or the kubelet rejects runAsNonRoot


@dataclass(frozen=True)
class PodPlace:
    """Which pod of the job: the parts of its name."""

    name: str
    role: str
    attempt: int
    slot: int = -1
    round: int = 0


@dataclass(frozen=True)
class RoleParts:
    """The role-specific parts of a head or worker pod, as Kubernetes JSON.

    Attributes:
        least_grace: seconds from SIGTERM to SIGKILL that no template may shorten.
    """

    env: list[Object]
    volumes: list[Object]
    mounts: list[Object]
    least_grace: int = 0


def build_pod(
    job: JobRef,
    spec: TrainJobSpec,
    *,
    mounts: Mounts,
    place: PodPlace,
    size: PodSize,
    parts: RoleParts,
) -> Object:
    """A pod of the job, as Kubernetes JSON."""
    template = _find_template(spec, place.role)
    defaults = {"metadata": {"annotations": _DO_NOT_EVICT}, "spec": _default_spec(spec, size)}
    merged = merge(
        defaults, {key: template[key] for key in ("metadata", "spec") if isinstance(template.get(key), dict)}
    )
    pod_spec = merge(merged["spec"], _essential_spec(spec, mounts=mounts, place=place, volumes=parts.volumes))
    pod_spec["containers"] = [
        merge(c, _essential_container(job, spec, mounts=mounts, place=place, parts=parts))
        if isinstance(c, dict) and c.get("name") == names.CONTAINER
        else c
        for c in pod_spec["containers"]
    ]
    pod_spec["terminationGracePeriodSeconds"] = max(pod_spec["terminationGracePeriodSeconds"], parts.least_grace)
    _add_fetch(pod_spec, spec, mounts)
    if place.role == names.HEAD:
        pod_spec["tolerations"] = add_head_tolerations(pod_spec.get("tolerations") or [])
    metadata = build_metadata(
        job,
        place.name,
        **{
            names.LABEL_ROLE: place.role,
            names.LABEL_ATTEMPT: str(place.attempt),
            names.LABEL_ROUND: str(place.round),
            **({names.LABEL_SLOT: str(place.slot)} if place.role == names.WORKER else {}),
        },
    )
    given = merged["metadata"]
    metadata["labels"] = {**(given.get("labels") or {}), **metadata["labels"]}
    metadata["annotations"] = dict(given.get("annotations") or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}


def has_cpu_limit(spec: TrainJobSpec, role: str) -> bool:
    """Whether a template limits the CPUs of the ray container; by default nothing does."""
    containers = _find_template(spec, role).get("spec", {}).get("containers") or []
    resources = [each.get("resources") or {} for each in containers if each.get("name") == names.CONTAINER]
    return any("cpu" in (each.get("limits") or {}) for each in resources)


def _find_template(spec: TrainJobSpec, role: str) -> Object:
    role_template = spec.head.pod_template if role == names.HEAD else spec.worker.pod_template
    merged: Object = merge(spec.pod_template or {}, role_template or {})
    return merged


# Consolidation by an autoscaler would cost the job its progress since the last checkpoint.
_DO_NOT_EVICT = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


# On a node with GPUs a container that requests none can still see all of them: NVIDIA's by its image, AMD's if it is
# privileged. Ray rejects ROCR_VISIBLE_DEVICES. Intel's are device files only.
HIDE_GPUS = [
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
    {"name": "HIP_VISIBLE_DEVICES", "value": ""},
]

_DEFAULT_ENV = [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}, {"name": "HOME", "value": TEMP_FOLDER}]


def _default_spec(spec: TrainJobSpec, size: PodSize) -> Object:
    """Defaults that a user's template may change."""
    user_env = [v.model_dump(by_alias=True, exclude_none=True) for v in spec.env or []]
    defaults: Object = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": RAY_USER,
            "runAsGroup": RAY_USER,
            "fsGroup": RAY_USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": names.CONTAINER,
                "env": merge(_DEFAULT_ENV, user_env, key="env"),
                "envFrom": [s.model_dump(by_alias=True, exclude_none=True) for s in spec.env_from or []],
                "resources": {"requests": dict(size.requests), "limits": dict(size.limits)},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    if spec.image_pull_secrets:
        defaults["imagePullSecrets"] = [{"name": s.name} for s in spec.image_pull_secrets]
    return defaults


def _essential_spec(
    spec: TrainJobSpec,
    *,
    mounts: Mounts,
    place: PodPlace,
    volumes: list[Object],
) -> Object:
    """Fields that no template may change. A pod has a token of its service account only if a template projects one."""
    items = [{"key": FILE, "path": FILE}, {"key": CA_KEY, "path": CA_KEY}]
    shared: list[Object] = [
        {"name": "railhead-bundle", "configMap": {"name": mounts.driver}},
        {
            "name": "railhead-input",
            "configMap": {"name": mounts.input, "items": items},
        },
        {
            "name": "railhead-auth",
            "secret": {"secretName": mounts.secret, "defaultMode": 0o440},
        },
        {"name": "railhead-temp", "emptyDir": {}},
        *build_source_volumes(spec, input_name=mounts.input, copy_name=mounts.source),
    ]
    if spec.run.storage_volume:
        claim = spec.run.storage_volume.persistent_volume_claim.claim_name
        shared.append({"name": "railhead-storage", "persistentVolumeClaim": {"claimName": claim}})
    return {
        "restartPolicy": "Never",
        "hostname": place.name,
        "subdomain": names.HEADS_SERVICE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "volumes": [*shared, *volumes],
    }


def _add_fetch(pod_spec: Object, spec: TrainJobSpec, mounts: Mounts) -> None:
    """Adds the fetch container after the template's init containers: one of those may set up the pod's network."""
    if spec.source is None or spec.source.git is None:
        return
    [ray] = [c for c in pod_spec["containers"] if isinstance(c, dict) and c.get("name") == names.CONTAINER]
    others = [c for c in pod_spec.get("initContainers") or [] if c.get("name") != names.FETCH_CONTAINER]
    pod_spec["initContainers"] = [*others, build_fetch_container(spec, spec.source.git, mounts=mounts, ray=ray)]


def _essential_container(
    job: JobRef, spec: TrainJobSpec, *, mounts: Mounts, place: PodPlace, parts: RoleParts
) -> Object:
    container: Object = {
        "image": spec.image,
        "command": build_start(place.role, digest=get_digest(mounts.driver), folder=TEMP_FOLDER),
        "args": [],
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
        "env": [*_shared_env(job, spec, mounts=mounts, attempt=place.attempt), *parts.env],
        "volumeMounts": [
            {"name": "railhead-bundle", "mountPath": BUNDLE_FOLDER, "readOnly": True},
            {"name": "railhead-input", "mountPath": INPUT_FOLDER, "readOnly": True},
            {"name": "railhead-auth", "mountPath": AUTH_FOLDER, "readOnly": True},
            {"name": "railhead-temp", "mountPath": TEMP_FOLDER},
            *build_source_mounts(spec),
            *([{"name": "railhead-storage", "mountPath": spec.run.storage_path}] if spec.run.storage_volume else []),
            *parts.mounts,
        ],
    }
    if spec.image_pull_policy:
        container["imagePullPolicy"] = spec.image_pull_policy
    return container


def _shared_env(job: JobRef, spec: TrainJobSpec, *, mounts: Mounts, attempt: int) -> list[Object]:
    folder = find_source_folder(spec)
    values = {
        environment.INPUT: INPUT_FOLDER,
        environment.INPUT_DIGEST: get_digest(mounts.input),
        environment.TOKEN_DIGEST: get_digest(mounts.secret),
        environment.STORAGE: spec.run.storage_path,
        environment.BUNDLE: find_copy(TEMP_FOLDER),
        environment.ATTEMPT: str(attempt),
        environment.HEAD_HOST: names.head_host(job.name, job.uid, attempt),
        environment.HEAD_PORT: str(names.head_port(job.uid, attempt)),
        environment.TEMP: TEMP_FOLDER,
        environment.TERMINATION_MESSAGE: TERMINATION_LOG,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{AUTH_FOLDER}/{TOKEN_KEY}",
        **({environment.SOURCE: folder} if folder else {}),
    }
    fields = {environment.POD_NAME: "metadata.name", environment.POD_IP: "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def build_shared_memory(size: PodSize) -> tuple[list[Object], list[Object]]:
    """Volume and mount of /dev/shm, where Ray keeps its object store."""
    volume = {"name": "railhead-shm", "emptyDir": {"medium": "Memory", "sizeLimit": size.shared_memory}}
    return [volume], [{"name": "railhead-shm", "mountPath": "/dev/shm"}]
