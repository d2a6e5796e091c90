"""The init container that fetches spec.source.git. Only it sees the credentials.

It runs with the security context of the container ray and requests no more resources.
"""

from __future__ import annotations

from typing import Any

from railhead.api.names import FETCH_CONTAINER
from railhead.api.source import GitSource
from railhead.api.spec import TrainJobSpec
from railhead.contract import environment as e
from railhead.resources.folders import (
    BUNDLE_FOLDER,
    INPUT_FOLDER,
    SOURCE_FOLDER,
    SOURCE_VOLUME,
    TERMINATION_LOG,
)
from railhead.resources.mounts import Mounts, get_digest
from railhead.resources.start import build_start, find_copy

CREDENTIALS_FOLDER, CREDENTIALS_VOLUME = "/etc/railhead/git", "railhead-git"
FETCH_FOLDER, FETCH_VOLUME = "/tmp/railhead-fetch", "railhead-fetch"  # a separate volume: it holds a copy of the key
PROXIES = frozenset(f(f"{name}_proxy") for name in ("http", "https", "no", "all") for f in (str.lower, str.upper))
ORDINARY = frozenset({"cpu", "memory", "ephemeral-storage"})


def build_fetch_volumes(git: GitSource) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": SOURCE_VOLUME, "emptyDir": {}},
        {"name": FETCH_VOLUME, "emptyDir": {"medium": "Memory"}},
    ]
    if git.secret_name:
        # Optional, so that the container starts and can report a missing Secret to the job.
        secret = {"secretName": git.secret_name, "defaultMode": 0o440, "optional": True}
        volumes.append({"name": CREDENTIALS_VOLUME, "secret": secret})
    return volumes


def build_fetch_container(spec: TrainJobSpec, git: GitSource, *, mounts: Mounts, ray: dict[str, Any]) -> dict[str, Any]:
    """The init container; `ray` is the pod's main container in its final form."""
    container: dict[str, Any] = {
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
    kept: dict[str, Any] = {key: ray[key] for key in ("securityContext", "imagePullPolicy") if key in ray}
    return {**container, **kept}


def _environment(git: GitSource, mounts: Mounts) -> list[dict[str, str]]:
    values = {
        e.INPUT: INPUT_FOLDER,
        e.INPUT_DIGEST: get_digest(mounts.input),
        e.BUNDLE: find_copy(FETCH_FOLDER),
        e.SOURCE: SOURCE_FOLDER,
        e.TEMP: FETCH_FOLDER,
        e.TERMINATION_MESSAGE: TERMINATION_LOG,
        **({e.GIT_CREDENTIALS: CREDENTIALS_FOLDER} if git.secret_name else {}),
        "NVIDIA_VISIBLE_DEVICES": "void",  # it requests no GPU, and on some nodes would see all of them
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _proxies(ray: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(item) for item in ray.get("env") or [] if isinstance(item, dict) and item.get("name") in PROXIES]


def _without_devices(resources: dict[str, Any]) -> dict[str, Any]:
    """The same requests as ray's cost the pod nothing: the two never run at the same time."""
    return {
        kind: {name: amount for name, amount in (resources.get(kind) or {}).items() if name in ORDINARY}
        for kind in ("requests", "limits")
    }
