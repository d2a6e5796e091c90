"""A podTemplate: a PodTemplateSpec with schemas only for the parts that Railhead touches.

The full PodSpec would make the CRD too large for a plain `kubectl apply`; the rest is kept unchanged and validated by
the API server when the pod is created. `pod_fields.py` lists all fields, with what becomes of them.

CEL rules limit the resources of the ray container, so that no worker is larger than its pod: Ray gets the amounts of
`scaling.resourcesPerWorker` and the like, and requests or devices changed by a template would not match Ray's view. A
template may only set a CPU limit, which the pods do not have by default, and huge pages.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from railhead.api.env import RESERVED, RESERVED_MESSAGE
from railhead.api.forms import FORMS
from railhead.api.locations import PRINTABLE
from railhead.api.model import rules
from railhead.api.names import CONTAINER
from railhead.api.pod_fields import CONTAINER_FIELDS, POD_FIELDS, SIDECAR_FIELDS, list_refused
from railhead.api.pod_schema import FREE, NULLABLE, amounts_field, list_field, named_list, text_field

HUGE_PAGES = "hugepages-"
REQUESTS_MESSAGE = (
    "requests of the container named ray come from scaling.resourcesPerWorker, worker.extraResources, "
    "worker.overhead and head.resources, so that Ray and the pod agree; only hugepages-* may be added"
)
LIMITS_MESSAGE = (
    "limits of the container named ray come from scaling.resourcesPerWorker, worker.extraResources, "
    "worker.overhead and head.resources; only cpu and hugepages-* may be limited here"
)
# For a container of a template.
_LIMITED = "self.name != 'ray' || !has(self.resources) || !has(self.resources.{0}) || self.resources.{0}.all(k, {1})"
CONTAINER_RULES = (
    ("", _LIMITED.format("requests", f"k.startsWith('{HUGE_PAGES}')"), REQUESTS_MESSAGE),
    ("", _LIMITED.format("limits", f"k == 'cpu' || k.startsWith('{HUGE_PAGES}')"), LIMITS_MESSAGE),
)


_NEVER = "!has(self.restartPolicyRules) && (!has(self.restartPolicy) || self.restartPolicy {})"
_NO_RESTARTS = (
    "",
    _NEVER.format("== 'Never'"),
    "containers of a job do not restart in their pod; remove restartPolicy and restartPolicyRules, or make a sidecar "
    "an init container with restartPolicy Always",
)
_OWN_NAME = (".name", "!self.name.startsWith('railhead-')", "names that start with railhead- are reserved")
# The kubelet takes a relative path as one of the root folder.
_OWN_FOLDERS = "^/*(opt/+railhead|etc/+railhead/+(input|source|auth)|tmp/+railhead|(var/+)?run/+railhead)/*$"
_DOTS = "(^|/)[.][.]?(/|$)"
MOUNTS_MESSAGE = (
    "a volume of Railhead is at this path in the container named ray, or it has . or .. as a segment; choose another "
    "path"
)
_OF_RAY = sorted({*list_refused(CONTAINER_FIELDS)} - {*list_refused(SIDECAR_FIELDS)})
_REFUSED = list_refused(POD_FIELDS)
_MAP = {"type": "object", "maxProperties": 64, **NULLABLE}
_ONLY_NULL = ("creationTimestamp", "name")


# Kubernetes restarts a container with a policy or rules of its own in its pod; no limit of the job would count that.
_RESTARTS = {
    "restartPolicy": text_field("Never; of an init container that is a sidecar, Always.", 63),
    "restartPolicyRules": list_field("Not allowed.", {"type": "object", "maxProperties": 8, **FREE}, 20),
}
_MOUNT_PATH = text_field("Path.", 512, pattern=PRINTABLE)
# Of each container. A mount is a key, so that two tools that apply the job may add theirs.
_MOUNTS: dict[str, Any] = {
    **list_field(
        "Volume mounts of the container.",
        {"type": "object", "required": ["mountPath"], "properties": {"mountPath": _MOUNT_PATH}, **FREE},
        64,
    ),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["mountPath"],
}
_CONTAINER = {
    "image": text_field("Image of an additional container; the one named ray has spec.image.", 512),
    "command": list_field("Command of an additional container.", {"type": "string", "maxLength": 4096}, 64),
    "args": list_field("Arguments of an additional container.", {"type": "string", "maxLength": 4096}, 64),
    "env": named_list("Environment of the container.", 128, {}),
    "resources": {
        "type": "object",
        "description": "Resources of an additional container; for the one named ray only limits.cpu and huge pages.",
        **NULLABLE,
        "properties": {"requests": amounts_field("Requested amounts."), "limits": amounts_field("Maximum amounts.")},
        **FREE,
    },
    "volumeMounts": _MOUNTS,
    **_RESTARTS,
}
_CONTAINERS = named_list(
    "The container named ray, to change it, and additional ones.",
    16,
    _CONTAINER,
    **rules(
        (
            "",
            f"self.name != 'ray' || !({' || '.join(f'has(self.{name})' for name in _OF_RAY)})",
            "the container named ray gets its image from spec.image, and its command and args from Railhead",
        ),
        (
            "",
            f"self.name != 'ray' || !has(self.env) || self.env.all(e, !({RESERVED.format('e.name')}))",
            f"env of the container named ray: {RESERVED_MESSAGE}",
        ),
        *CONTAINER_RULES,
        ("", "self.name == 'ray' || has(self.image)", "every container except the one named ray needs an image"),
        _NO_RESTARTS,
        (
            ".volumeMounts",
            "self.name != 'ray' || !has(self.volumeMounts) || "
            f"self.volumeMounts.all(m, !m.mountPath.matches('{_OWN_FOLDERS}|{_DOTS}'))",
            MOUNTS_MESSAGE,
        ),
    ),
)
_INIT_CONTAINERS = named_list(
    "Init containers; one with restartPolicy Always is a sidecar.",
    16,
    _RESTARTS,
    **rules(
        _OWN_NAME,
        (
            "",
            _NEVER.format("in ['Always', 'Never']"),
            "init containers do not restart in their pod, except sidecars: restartPolicy Always or Never, and no rules",
        ),
    ),
)
_REFUSED_FIELDS = {
    **{name: text_field("Set by Railhead.", 253) for name in _REFUSED},
    "ephemeralContainers": list_field("Not of a new pod.", {"type": "object", "maxProperties": 32, **FREE}, 16),
}
_SPEC = {
    "type": "object",
    "description": "PodSpec: fields not listed here are kept unchanged.",
    **NULLABLE,
    **FREE,
    "properties": {
        "containers": _CONTAINERS,
        "initContainers": _INIT_CONTAINERS,
        "volumes": named_list("Additional volumes.", 64, {}),
        "tolerations": list_field(
            "Added to the other templates'.", {"type": "object", "maxProperties": 16, **FREE}, 64
        ),
        "terminationGracePeriodSeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "maximum": 604800,
            "description": "Seconds from SIGTERM to SIGKILL; at least what saving a checkpoint may take.",
        },
        "priorityClassName": text_field("Priority of the pods; also scheduling.priorityClassName.", 253),
        **_REFUSED_FIELDS,
    },
    **rules(
        *((f".{name}", f"!has(self.{name})", f"{name} is set by Railhead; remove it") for name in _REFUSED),
        (
            ".volumes",
            "!has(self.volumes) || self.volumes.all(v, !v.name.startsWith('railhead-'))",
            "names that start with railhead- are reserved",
        ),
    ),
}
_METADATA = {
    "type": "object",
    "description": "Labels and annotations of the pods.",
    **NULLABLE,
    "properties": {
        "labels": {
            **_MAP,
            "description": "Labels of the pods.",
            "additionalProperties": {"type": "string", "maxLength": 63},
            **rules(
                ("", "self.all(k, !k.startsWith('railhead.dev/'))", "keys in railhead.dev/ are reserved"),
                (
                    "",
                    "!('app.kubernetes.io/managed-by' in self)",
                    "app.kubernetes.io/managed-by is railhead; remove it",
                ),
            ),
        },
        "annotations": {
            **_MAP,
            "description": "Annotations of the pods.",
            "additionalProperties": {"type": "string", "maxLength": 32768},
        },
        **{name: text_field("Null or absent.", 253, **NULLABLE) for name in _ONLY_NULL},
    },
    **rules(
        (
            "",
            f"!({' || '.join(f'has(self.{name})' for name in _ONLY_NULL)})",
            "pods take only labels and annotations from a template's metadata; remove the other fields",
        )
    ),
}
POD_TEMPLATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": _METADATA,
        "spec": _SPEC,
    },
}


def _drop_nulls(value: Any, schema: dict[str, Any]) -> Any:
    """Returns the value without the nulls that the API server drops: those of the fields in the schema."""
    if isinstance(value, list) and "items" in schema:
        return [_drop_nulls(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    kept = {name: each for name, each in value.items() if each is not None or name not in fields}
    return {name: _drop_nulls(each, fields.get(name, {})) for name, each in kept.items()}


def check_pod_template(template: dict[str, Any]) -> dict[str, Any]:
    """Checks what the builders rely on, for objects that the API server has not judged by this schema.

    Raises:
        ValueError: names the part at fault.
    """
    template = _drop_nulls(template, POD_TEMPLATE_SCHEMA)
    for key, value in template.items():
        if key not in ("metadata", "spec"):
            raise ValueError(f"{key}: only metadata and spec are supported")
        if not isinstance(value, dict):
            raise ValueError(f"{key}: must be an object")
    for key in ("labels", "annotations"):
        values = template.get("metadata", {}).get(key) or {}
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise ValueError(f"metadata.{key}: must map strings to strings")
    _check_spec(template.get("spec", {}))
    return template


def _check_spec(spec: dict[str, Any]) -> None:
    for key in ("containers", "initContainers", "volumes"):
        if not _are_named(spec.get(key, [])):
            raise ValueError(f"spec.{key}: must be a list of objects, each with a name")
    if not isinstance(spec.get("tolerations") or [], list):
        raise ValueError("spec.tolerations: must be a list")
    if not isinstance(spec.get("terminationGracePeriodSeconds", 0), int):
        raise ValueError("spec.terminationGracePeriodSeconds: must be an integer")
    for container in spec.get("containers", []):
        if container["name"] != CONTAINER:
            continue
        _check_mounts(container.get("volumeMounts"))
        if container.get("resources") is not None:
            check_ray_resources(container["resources"])


def _are_named(items: Any) -> bool:
    if not isinstance(items, list):
        return False
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


def _check_mounts(mounts: Any) -> None:
    # The builder ignores mounts that are no list.
    if not isinstance(mounts, list):
        return
    for mount in mounts:
        if isinstance(mount, dict) and isinstance(mount.get("mountPath"), str):
            _check_mount_path(mount["mountPath"])


def _check_mount_path(path: str) -> None:
    if not path.isprintable():
        raise ValueError(f"mountPath of a volumeMount: {FORMS[PRINTABLE]}")
    # The builder's own mounts win, so only the schema looks for their paths.
    if re.search(_DOTS, path):
        raise ValueError(f"mountPath of a volumeMount: {MOUNTS_MESSAGE}")


def check_ray_resources(resources: Any) -> None:
    """Makes the same checks for an object stored under an older schema. Raises ValueError."""
    if not isinstance(resources, dict):
        raise ValueError("resources of the container named ray: must be an object")
    for key, allowed, message in (("requests", (), REQUESTS_MESSAGE), ("limits", ("cpu",), LIMITS_MESSAGE)):
        names = resources.get(key) or {}
        if not isinstance(names, dict) or not all(n in allowed or str(n).startswith(HUGE_PAGES) for n in names):
            raise ValueError(message)


PodTemplate = Annotated[dict[str, Any], AfterValidator(check_pod_template), WithJsonSchema(POD_TEMPLATE_SCHEMA)]
