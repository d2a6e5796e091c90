"""The pods of a job: the two roles, what they share, and the user's templates on top.

The head pod runs Ray's head and the driver, and is the only pod that may report to the operator. A worker pod is a Ray
node that holds the CPUs and GPUs of `workersPerPod` workers.

Precedence, lowest first: our defaults, spec.podTemplate, the role's podTemplate, and last what
the job requires (image, entry point, identity, names, the reserved environment).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from railhead.api import names
from railhead.api.queue import AdmissionStatus
from railhead.api.ray_container import read_ray_container
from railhead.api.scaling import is_gpu
from railhead.api.spec import PodUser, TrainJobSpec
from railhead.api.status import InitialCheckpoint, JobStatus
from railhead.contract import environment
from railhead.contract.job_input import CA_KEY, FILE
from railhead.contract.report import AUDIENCE
from railhead.json_object import Object, parts
from railhead.resources.base import JobRef, build_metadata
from railhead.resources.bundle import (
    AUTH_FOLDER,
    BUNDLE_FOLDER,
    INPUT_FOLDER,
    TEMP_FOLDER,
    TERMINATION_LOG,
    build_copy_path,
    build_start,
)
from railhead.resources.code_volume import (
    build_fetch_container,
    build_source_mounts,
    build_source_volumes,
    find_source_folder,
)
from railhead.resources.known_checkpoints import describe_known
from railhead.resources.merge import merge
from railhead.resources.mounts import Mounts, get_digest
from railhead.resources.placement import add_head_tolerations, avoid_nodes, place_worker
from railhead.resources.queues.kueue import HEAD, WORKERS, admit
from railhead.resources.secret_env import mark_secrets
from railhead.resources.sizes import PodSize, compute_sizes
from railhead.resources.templates import (
    SHARED_MEMORY,
    build_template,
    drop_refused,
    keep_from_restarting,
    mounts_shared_memory,
    open_own_volumes,
)

# The public Ray images' user; numeric, or the kubelet rejects runAsNonRoot.
RAY_USER = 1000
LAST_REPORT_SECONDS = 15  # for a driver that has waited for a commit to write its outcome
TOKEN_FOLDER = "/var/run/railhead"
SHARED_MEMORY_VOLUME = "railhead-shm"
AFTER_DRAIN_SECONDS = 10  # for the Ray node to stop
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


@dataclass(frozen=True)
class PodSettings:
    """One attempt of a job, as its pods need it.

    Attributes:
        mounts: what all its pods mount.
        avoided_nodes: the nodes on which no pod may run that is built now.
        join_gang: returns a pod as a member of the attempt's gang.
        admission: what the queue gave the attempt; None without a queue.
        pod_user: spec.podUser, or the operator's default for it.
    """

    job: JobRef
    spec: TrainJobSpec
    number: int
    mounts: Mounts
    avoided_nodes: Sequence[str] = ()
    join_gang: Callable[[Object], Object] = lambda pod: pod
    admission: AdmissionStatus | None = None
    pod_user: PodUser = "Fixed"


@dataclass(frozen=True)
class RolePart:
    """The part of a pod that its role decides: name and labels, size, and what is added to the shared Kubernetes JSON.

    Attributes:
        role: names.HEAD or names.WORKER.
        least_grace: seconds from SIGTERM to SIGKILL that no template may shorten.
    """

    name: str
    role: str
    size: PodSize
    labels: dict[str, str]
    env: list[Object]
    volumes: list[Object] = field(default_factory=list)
    mounts: list[Object] = field(default_factory=list)
    ports: list[Object] = field(default_factory=list)
    least_grace: int = 0


def build_head_pod(
    attempt: PodSettings,
    *,
    report_url: str,
    status: JobStatus,
    worker_pods: int,
    initial_checkpoint: InitialCheckpoint | None = None,
) -> Object:
    """Returns the head pod of one attempt.

    The status holds the known commits of earlier attempts; `worker_pods` is how many are wanted
    at its start.
    """
    job = attempt.job
    spec = attempt.spec
    token = {"serviceAccountToken": {"path": "token", "audience": AUDIENCE, "expirationSeconds": 3600}}
    initial = initial_checkpoint
    limit = spec.progress_deadline_seconds
    env: list[Object] = [
        {"name": environment.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": environment.CHECKPOINT_INDEX, "value": str(status.newest_index)},
        {"name": environment.KNOWN_CHECKPOINTS, "value": json.dumps(describe_known(status))},
        *([{"name": environment.RESUME_FROM, "value": initial.uri}] if initial else []),
        {"name": environment.WORKER_PODS, "value": str(worker_pods)},
        *([{"name": environment.PROGRESS_DEADLINE, "value": str(limit)}] if limit is not None else []),
        {"name": environment.REPORT_URL, "value": report_url},
        {"name": environment.IMAGE, "value": spec.image},
        {"name": environment.REPORT_TOKEN, "value": f"{TOKEN_FOLDER}/token"},
        *HIDE_GPUS,
    ]
    part = RolePart(
        names.head_name(job.name, job.uid, attempt.number),
        names.HEAD,
        compute_sizes(spec).head,
        labels={names.LABEL_ROUND: "0"},
        env=env,
        volumes=[{"name": "railhead-token", "projected": {"sources": [token], "defaultMode": 0o440}}],
        mounts=[{"name": "railhead-token", "mountPath": TOKEN_FOLDER, "readOnly": True}],
        ports=[{"name": names.METRICS_PORT, "containerPort": spec.metrics.port}] if spec.metrics else [],
        least_grace=spec.end_seconds + LAST_REPORT_SECONDS,
    )
    return build_pod(attempt, part)


class WorkerPodBuilder:
    """Builds the worker pods of an attempt: one in full, and the others as copies that differ in slot and round."""

    def __init__(self, attempt: PodSettings) -> None:
        self._attempt = attempt

    def name(self, slot: int, round_: int) -> str:
        job = self._attempt.job
        return names.worker_name(job.name, job.uid, attempt=self._attempt.number, slot=slot, round_=round_)

    def build(self, *, slot: int, round_: int) -> Object:
        """Returns the pod of one slot, as Kubernetes JSON; a replacement has a higher round and so another name.

        It shares parts with the others: no caller may change it.
        """
        metadata = self._first["metadata"]
        name = self.name(slot, round_)
        return {
            **self._first,
            "metadata": {**metadata, "name": name, "labels": {**metadata["labels"], **_label_place(slot, round_)}},
            "spec": {**self._first["spec"], "hostname": name},
        }

    @cached_property
    def _first(self) -> Object:
        spec = self._attempt.spec
        size = compute_sizes(spec).worker
        drain = spec.drain_seconds
        part = RolePart(
            self.name(0, 0),
            names.WORKER,
            size,
            labels=_label_place(0, 0),
            env=[] if any(is_gpu(name) for name in size.requests) else HIDE_GPUS,
            least_grace=drain + AFTER_DRAIN_SECONDS if drain else 0,
        )
        return build_pod(self._attempt, part)


def _label_place(slot: int, round_: int) -> dict[str, str]:
    return {names.LABEL_SLOT: str(slot), names.LABEL_ROUND: str(round_)}


def build_pod(attempt: PodSettings, part: RolePart) -> Object:
    """Returns a pod of the job, as Kubernetes JSON."""
    spec = attempt.spec
    template = build_template(spec, part.role)
    defaults = {"metadata": {"annotations": _DO_NOT_EVICT}, "spec": _default_spec(attempt, part.size)}
    merged = merge(
        defaults, {key: template[key] for key in ("metadata", "spec") if isinstance(template.get(key), dict)}
    )
    if not mounts_shared_memory(merged["spec"]):
        part = _mount_shared_memory(part)
    pod_spec = merge(drop_refused(merged["spec"]), _essential_spec(attempt, part))
    for kind in ("containers", "initContainers"):
        if kind in pod_spec:
            pod_spec[kind] = [keep_from_restarting(each, kind) for each in parts(pod_spec, kind)]
    pod_spec["containers"] = [
        mark_secrets(merge(c, _essential_container(attempt, part)))
        if isinstance(c, dict) and c.get("name") == names.CONTAINER
        else c
        for c in pod_spec["containers"]
    ]
    pod_spec = open_own_volumes(pod_spec)
    pod_spec["terminationGracePeriodSeconds"] = max(pod_spec["terminationGracePeriodSeconds"], part.least_grace)
    _add_fetch(pod_spec, spec, attempt.mounts)
    if part.role == names.HEAD:
        pod_spec["tolerations"] = add_head_tolerations(pod_spec.get("tolerations") or [])
    else:
        pod_spec = place_worker(pod_spec, spec, job=attempt.job, attempt=attempt.number)
    own = {names.LABEL_ROLE: part.role, names.LABEL_ATTEMPT: str(attempt.number), **part.labels}
    metadata = build_metadata(attempt.job, part.name, **own)
    given = merged["metadata"]
    identity = {**names.child_labels(attempt.job.name, attempt.job.uid), **own}
    metadata["labels"] = {**metadata["labels"], **(given.get("labels") or {}), **identity}
    metadata["annotations"] = {**metadata.get("annotations", {}), **(given.get("annotations") or {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}
    if attempt.admission is not None:
        pod = _admit(pod, part.role, attempt.job, attempt.admission)
    return attempt.join_gang(avoid_nodes(pod, attempt.avoided_nodes))


def _admit(pod: Object, role: str, job: JobRef, admission: AdmissionStatus) -> Object:
    name = HEAD if role == names.HEAD else WORKERS
    return admit(pod, name, admission.find(name), workload=names.workload_name(job.name, job.uid))


def _default_spec(attempt: PodSettings, size: PodSize) -> Object:
    """Returns the defaults that a user's template may change."""
    spec = attempt.spec
    identity: Object = {}
    if attempt.pod_user == "Fixed":
        identity = {"runAsUser": RAY_USER, "runAsGroup": RAY_USER, "fsGroup": RAY_USER}
    user_env = [v.model_dump(by_alias=True, exclude_none=True) for v in spec.env or []]
    defaults: Object = {
        "securityContext": {
            "runAsNonRoot": True,
            **identity,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": names.CONTAINER,
                "env": merge({"env": _DEFAULT_ENV}, {"env": user_env})["env"],
                "envFrom": [s.model_dump(by_alias=True, exclude_none=True) for s in spec.env_from or []],
                "resources": {"requests": dict(size.requests), "limits": dict(size.limits)},
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    if spec.priority_class_name:
        defaults["priorityClassName"] = spec.priority_class_name
    if spec.image_pull_secrets:
        defaults["imagePullSecrets"] = [{"name": s.name} for s in spec.image_pull_secrets]
    return defaults


def _essential_spec(attempt: PodSettings, part: RolePart) -> Object:
    """Returns what no template may change. A pod has a token of its service account only if a template projects one."""
    spec = attempt.spec
    mounts = attempt.mounts
    items = [{"key": FILE, "path": FILE}, {"key": CA_KEY, "path": CA_KEY}]
    shared: list[Object] = [
        {"name": "railhead-bundle", "configMap": {"name": mounts.driver}},
        {
            "name": "railhead-input",
            "configMap": {"name": mounts.input, "items": items},
        },
        {
            "name": names.AUTH_VOLUME,
            "secret": {"secretName": mounts.secret, "defaultMode": 0o440},
        },
        {"name": "railhead-temp", "emptyDir": {}},
        *build_source_volumes(spec, mounts),
    ]
    if spec.run.storage_volume:
        claim = spec.run.storage_volume.persistent_volume_claim.claim_name
        shared.append({"name": "railhead-storage", "persistentVolumeClaim": {"claimName": claim}})
    return {
        "restartPolicy": "Never",
        "hostname": part.name,
        "subdomain": names.HEADS_SERVICE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "volumes": [*shared, *part.volumes],
    }


def _mount_shared_memory(part: RolePart) -> RolePart:
    """Returns the part with a volume at /dev/shm, where Ray keeps its object store."""
    volume = {"name": SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": part.size.shared_memory}}
    mount = {"name": SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY}
    return replace(part, volumes=[*part.volumes, volume], mounts=[*part.mounts, mount])


def _add_fetch(pod_spec: Object, spec: TrainJobSpec, mounts: Mounts) -> None:
    """Adds the fetch container after the template's init containers: one of those may set up the pod's network."""
    if spec.source is None or spec.source.git is None:
        return
    ray = read_ray_container(pod_spec)
    others = [c for c in pod_spec.get("initContainers") or [] if c.get("name") != names.FETCH_CONTAINER]
    pod_spec["initContainers"] = [*others, build_fetch_container(spec, spec.source.git, mounts=mounts, ray=ray)]


def _essential_container(attempt: PodSettings, part: RolePart) -> Object:
    spec = attempt.spec
    container: Object = {
        "image": spec.image,
        "command": build_start(part.role, digest=get_digest(attempt.mounts.driver), folder=TEMP_FOLDER),
        "args": [],
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
        "env": [*_shared_env(attempt), *part.env],
        "volumeMounts": [
            {"name": "railhead-bundle", "mountPath": BUNDLE_FOLDER, "readOnly": True},
            {"name": "railhead-input", "mountPath": INPUT_FOLDER, "readOnly": True},
            {"name": names.AUTH_VOLUME, "mountPath": AUTH_FOLDER, "readOnly": True},
            {"name": "railhead-temp", "mountPath": TEMP_FOLDER},
            *build_source_mounts(spec),
            *([{"name": "railhead-storage", "mountPath": spec.run.storage_path}] if spec.run.storage_volume else []),
            *part.mounts,
        ],
    }
    if part.ports:
        container["ports"] = part.ports
    if spec.image_pull_policy:
        container["imagePullPolicy"] = spec.image_pull_policy
    return container


def _shared_env(attempt: PodSettings) -> list[Object]:
    job = attempt.job
    spec = attempt.spec
    mounts = attempt.mounts
    folder = find_source_folder(spec)
    values = {
        environment.INPUT: INPUT_FOLDER,
        environment.INPUT_DIGEST: get_digest(mounts.input),
        environment.TOKEN_DIGEST: get_digest(mounts.secret),
        environment.BUNDLE: build_copy_path(TEMP_FOLDER),
        environment.ATTEMPT: str(attempt.number),
        environment.HEAD_HOST: names.head_host(job.name, job.uid, attempt.number),
        environment.HEAD_PORT: str(names.head_port(job.uid, attempt.number)),
        environment.TEMP: TEMP_FOLDER,
        environment.TERMINATION_MESSAGE: TERMINATION_LOG,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{AUTH_FOLDER}/{names.TOKEN_KEY}",
        # One of the image or of envFrom would outrank the file, also for `kubectl exec`.
        "RAY_AUTH_TOKEN": "",
        **({environment.SOURCE: folder} if folder else {}),
    }
    fields = {
        environment.POD_NAME: "metadata.name",
        environment.POD_IP: "status.podIP",
        environment.NODE_NAME: "spec.nodeName",
    }
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]
