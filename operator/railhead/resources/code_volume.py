"""The user's code in the pods: the copy of a ConfigMap, the init container that fetches git, volumes and folders.

Only the init container sees the credentials of `spec.source.git`. It runs with the security context of the container
ray and requests no more resources.
"""

from __future__ import annotations

from railhead.api.names import FETCH_CONTAINER
from railhead.api.source import ConfigMapSource, GitSource
from railhead.api.spec import TrainJobSpec
from railhead.contract import environment
from railhead.contract.job_input import CHECKOUT, SOURCE_PREFIX
from railhead.json_object import Object
from railhead.resources.base import JobRef, build_immutable, build_metadata
from railhead.resources.bundle import (
    BUNDLE_FOLDER,
    INPUT_FOLDER,
    SOURCE_FOLDER,
    SOURCE_VOLUME,
    TERMINATION_LOG,
    build_copy_path,
    build_start,
)
from railhead.resources.mounts import Mounts, get_digest

CREDENTIALS_FOLDER = "/etc/railhead/git"
CREDENTIALS_VOLUME = "railhead-git"
# a separate volume: it holds a copy of the key
FETCH_FOLDER = "/tmp/railhead-fetch"
FETCH_VOLUME = "railhead-fetch"
PROXIES = frozenset(f(f"{name}_proxy") for name in ("http", "https", "no", "all") for f in (str.lower, str.upper))
ORDINARY = frozenset({"cpu", "memory", "ephemeral-storage"})


def build_fetch_volumes(git: GitSource) -> list[Object]:
    volumes: list[Object] = [
        {"name": SOURCE_VOLUME, "emptyDir": {}},
        {"name": FETCH_VOLUME, "emptyDir": {"medium": "Memory"}},
    ]
    if git.secret_name:
        # Optional, so that the container starts and can report a missing Secret to the job.
        secret = {"secretName": git.secret_name, "defaultMode": 0o440, "optional": True}
        volumes.append({"name": CREDENTIALS_VOLUME, "secret": secret})
    return volumes


def build_fetch_container(spec: TrainJobSpec, git: GitSource, *, mounts: Mounts, ray: Object) -> Object:
    """Returns the init container; `ray` is the pod's main container in its final form."""
    container: Object = {
        "name": FETCH_CONTAINER,
        "image": git.image or spec.image,
        "command": build_start("fetch", digest=get_digest(mounts.driver), folder=FETCH_FOLDER),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
        "env": [*_proxies(ray), *_environment(git, mounts)],
        "resources": _without_devices(ray.get("resources") or {}),
        "volumeMounts": [
            {"name": "railhead-bundle", "mountPath": BUNDLE_FOLDER, "readOnly": True},
            {"name": "railhead-input", "mountPath": INPUT_FOLDER, "readOnly": True},
            {"name": SOURCE_VOLUME, "mountPath": SOURCE_FOLDER},
            {"name": FETCH_VOLUME, "mountPath": FETCH_FOLDER},
        ],
    }
    if git.secret_name:
        container["volumeMounts"].append(
            {"name": CREDENTIALS_VOLUME, "mountPath": CREDENTIALS_FOLDER, "readOnly": True}
        )
    kept: Object = {key: ray[key] for key in ("securityContext", "imagePullPolicy") if key in ray}
    return {**container, **kept}


def _environment(git: GitSource, mounts: Mounts) -> list[dict[str, str]]:
    values = {
        environment.INPUT: INPUT_FOLDER,
        environment.INPUT_DIGEST: get_digest(mounts.input),
        environment.BUNDLE: build_copy_path(FETCH_FOLDER),
        environment.SOURCE: SOURCE_FOLDER,
        environment.TEMP: FETCH_FOLDER,
        environment.TERMINATION_MESSAGE: TERMINATION_LOG,
        **({environment.GIT_CREDENTIALS: CREDENTIALS_FOLDER} if git.secret_name else {}),
        "NVIDIA_VISIBLE_DEVICES": "void",  # it requests no GPU, and on some nodes would see all of them
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _proxies(ray: Object) -> list[Object]:
    return [dict(item) for item in ray.get("env") or [] if isinstance(item, dict) and item.get("name") in PROXIES]


def _without_devices(resources: Object) -> Object:
    """Returns them without devices. The same requests as ray's cost the pod nothing: the two never run together."""
    return {
        kind: {name: amount for name, amount in (resources.get(kind) or {}).items() if name in ORDINARY}
        for kind in ("requests", "limits")
    }


def build_source_copy(job: JobRef, name: str) -> Object:
    """Returns the ConfigMap that pods mount, without its data: all attempts see the same code."""
    return build_immutable("ConfigMap", build_metadata(job, name))


def build_source_volumes(spec: TrainJobSpec, mounts: Mounts) -> list[Object]:
    if spec.source is None:
        return []
    if spec.source.git is not None:
        return build_fetch_volumes(spec.source.git)
    if spec.source.image is not None:
        image = {"reference": spec.source.image.reference, "pullPolicy": spec.source.image.pull_policy}
        return [{"name": SOURCE_VOLUME, "image": {key: value for key, value in image.items() if value}}]
    if spec.source.config_map is not None:
        return [{"name": SOURCE_VOLUME, "configMap": _mount_copy(mounts.source, spec.source.config_map)}]
    items = [{"key": SOURCE_PREFIX + name, "path": name} for name in sorted(spec.source.inline or {})]
    return [{"name": SOURCE_VOLUME, "configMap": {"name": mounts.input, "items": items}}]


def _mount_copy(name: str, source: ConfigMapSource) -> Object:
    items = [{"key": item.key, "path": item.path} for item in source.items or []]
    return {"name": name, **({"items": items} if items else {})}


def build_source_mounts(spec: TrainJobSpec) -> list[Object]:
    """Returns the volume mounts of the container ray."""
    if spec.source:
        return [{"name": SOURCE_VOLUME, "mountPath": SOURCE_FOLDER, "readOnly": True}]
    return []


def find_source_folder(spec: TrainJobSpec) -> str | None:
    """Returns the folder of the modules in the container ray; None when they are in its image."""
    if spec.source is None:
        return None
    if spec.source.git is not None:
        return "/".join(part for part in (SOURCE_FOLDER, CHECKOUT, spec.source.git.path) if part)
    path = spec.source.image.path if spec.source.image else None
    if path:
        return f"{SOURCE_FOLDER}/{path}"
    return SOURCE_FOLDER
