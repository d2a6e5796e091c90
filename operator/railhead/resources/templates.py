"""The user's pod templates: the one of a role, and what it says about the containers. Pure."""

from __future__ import annotations

from railhead.api import names
from railhead.api.pod_fields import POD_FIELDS, SIDECAR_FIELDS, list_refused
from railhead.api.ray_container import read_ray_container
from railhead.api.spec import TrainJobSpec
from railhead.json_object import Object, part, parts
from railhead.resources.merge import merge

SHARED_MEMORY = "/dev/shm"


def has_cpu_limit(spec: TrainJobSpec, role: str) -> bool:
    """Returns whether a template limits the CPUs of the ray container; by default nothing does."""
    container = read_ray_container(part(build_template(spec, role), "spec"))
    return "cpu" in part(part(container, "resources"), "limits")


def build_template(spec: TrainJobSpec, role: str) -> Object:
    """Returns the user's PodTemplateSpec for the role: spec.podTemplate, and the role's own on top."""
    if role == names.HEAD:
        role_template = spec.head.pod_template
    else:
        role_template = spec.worker.pod_template
    return merge(spec.pod_template or {}, role_template or {})


def drop_refused(pod_spec: Object) -> Object:
    """Returns the template's PodSpec without the fields that the CRD refuses; a job may be older than such a rule."""
    refused = list_refused(POD_FIELDS)
    return {key: value for key, value in pod_spec.items() if key not in refused}


def keep_from_restarting(container: Object, kind: str) -> Object:
    """Returns the container without what restarts it in its pod, unless it is a sidecar: an init container with Always.

    The CRD refuses it; an object that is older than that rule may still have it.
    """
    kept = {key: value for key, value in container.items() if key not in list_refused(SIDECAR_FIELDS)}
    if kind == "initContainers" and container.get("restartPolicy") == "Always":
        return {**kept, "restartPolicy": "Always"}
    return kept


def mounts_shared_memory(pod_spec: Object) -> bool:
    """Returns whether the template mounts a volume of its own at /dev/shm, such as the one that NVIDIA's MPS shares."""
    paths = [str(mount.get("mountPath")).rstrip("/") for mount in parts(read_ray_container(pod_spec), "volumeMounts")]
    return SHARED_MEMORY in paths


def open_own_volumes(pod_spec: Object) -> Object:
    """Returns the PodSpec; without fsGroup, Railhead's volumes have files that every user of the container may read.

    The kubelet leaves the files to root and its group then, and who the user will be is not known here.
    """
    if part(pod_spec, "securityContext").get("fsGroup"):
        return pod_spec
    return {**pod_spec, "volumes": [_open_own_volume(each) for each in pod_spec["volumes"]]}


def _open_own_volume(volume: Object) -> Object:
    if not str(volume.get("name")).startswith("railhead-"):
        return volume
    kinds = [kind for kind in ("secret", "projected") if kind in volume]
    return {**volume, **{kind: {**volume[kind], "defaultMode": 0o444} for kind in kinds}}
