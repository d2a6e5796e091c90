"""The user's code in the pods: the job's own copy of a ConfigMap, the volume, and the folder of the modules."""

from __future__ import annotations

from typing import Any

from railhead.api.source import ConfigMapSource
from railhead.api.spec import TrainJobSpec
from railhead.contract.job_input import CHECKOUT, SOURCE_PREFIX
from railhead.resources.folders import SOURCE_FOLDER, SOURCE_VOLUME
from railhead.resources.owner import JobRef, build_metadata
from railhead.resources.source_fetch import build_fetch_volumes


def build_source_copy(job: JobRef, name: str) -> dict[str, Any]:
    """The ConfigMap that pods mount, without its data; immutable, so that all attempts see the same code."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": build_metadata(job, name),
        "immutable": True,
    }


def build_source_volumes(spec: TrainJobSpec, *, input_name: str, copy_name: str) -> list[dict[str, Any]]:
    if spec.source is None:
        return []
    if spec.source.git is not None:
        return build_fetch_volumes(spec.source.git)
    if spec.source.image is not None:
        image = {"reference": spec.source.image.reference, "pullPolicy": spec.source.image.pull_policy}
        return [{"name": SOURCE_VOLUME, "image": {key: value for key, value in image.items() if value}}]
    if spec.source.config_map is not None:
        return [{"name": SOURCE_VOLUME, "configMap": _mount_copy(copy_name, spec.source.config_map)}]
    items = [{"key": SOURCE_PREFIX + name, "path": name} for name in sorted(spec.source.inline or {})]
    return [{"name": SOURCE_VOLUME, "configMap": {"name": input_name, "items": items}}]


def _mount_copy(name: str, source: ConfigMapSource) -> dict[str, Any]:
    items = [{"key": item.key, "path": item.path} for item in source.items or []]
    return {"name": name, **({"items": items} if items else {})}


def build_source_mounts(spec: TrainJobSpec) -> list[dict[str, Any]]:
    """Volume mounts of the container ray."""
    return [{"name": SOURCE_VOLUME, "mountPath": SOURCE_FOLDER, "readOnly": True}] if spec.source else []


def find_source_folder(spec: TrainJobSpec) -> str | None:
    """The folder of the modules in the container ray; None when they are in its image."""
    if spec.source is None:
        return None
    if spec.source.git is not None:
        return "/".join(part for part in (SOURCE_FOLDER, CHECKOUT, spec.source.git.path) if part)
    path = spec.source.image.path if spec.source.image else None
    return f"{SOURCE_FOLDER}/{path}" if path else SOURCE_FOLDER
