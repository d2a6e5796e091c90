"""podTemplate: a PodTemplateSpec with schemas only for the parts that Railhead touches.

The full PodSpec would make the CRD too large for a plain `kubectl apply`; the rest is
kept unchanged and validated by the API server when the pod is created.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from railhead.api.base import rules
from railhead.api.env import RESERVED, RESERVED_MESSAGE
from railhead.api.names import CONTAINER
from railhead.api.pod_limits import CONTAINER_RULES, check_ray_resources
from railhead.api.quantities import QUANTITY

FREE = {"x-kubernetes-preserve-unknown-fields": True}


def _text(description: str, limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": limit, **more}


def _list(description: str, items: dict[str, Any], limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "array", "description": description, "maxItems": limit, "items": items, **more}


def _named(description: str, limit: int, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A list of objects with a unique name each."""
    name = {"type": "string", "minLength": 1, "maxLength": 253, "description": "Its name."}
    items = {"type": "object", "required": ["name"], "properties": {"name": name, **properties}, **FREE, **more}
    unique = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return _list(description, items, limit, **unique)


def _amounts(description: str) -> dict[str, Any]:
    amount = {"x-kubernetes-int-or-string": True, "maxLength": 32, "pattern": QUANTITY}
    return {"type": "object", "description": description, "maxProperties": 16, "additionalProperties": amount}


_CONTAINER = {
    "image": _text("Image of an additional container; the one named ray has spec.image.", 512),
    "command": _list("Command of an additional container.", {"type": "string", "maxLength": 4096}, 64),
    "args": _list("Arguments of an additional container.", {"type": "string", "maxLength": 4096}, 64),
    "env": _named("Environment of the container.", 128, {}),
    "resources": {
        "type": "object",
        "description": "Resources of an additional container; for the one named ray only limits.cpu and huge pages.",
        "properties": {"requests": _amounts("Requested amounts."), "limits": _amounts("Maximum amounts.")},
        **FREE,
    },
}
_CONTAINERS = _named(
    "The container named ray, to change it, and additional ones.",
    16,
    _CONTAINER,
    **rules(
        (
            "",
            "self.name != 'ray' || !(has(self.image) || has(self.command) || has(self.args))",
            "the container named ray gets its image from spec.image, and its command and args from Railhead",
        ),
        (
            "",
            f"self.name != 'ray' || !has(self.env) || self.env.all(e, !({RESERVED.format('e.name')}))",
            f"env of the container named ray: {RESERVED_MESSAGE}",
        ),
        *CONTAINER_RULES,
        ("", "self.name == 'ray' || has(self.image)", "every container except the one named ray needs an image"),
    ),
)
_SET_BY_RAILHEAD = ("hostname", "subdomain", "restartPolicy")
_SPEC = {
    "type": "object",
    "description": "PodSpec: fields not listed here are kept unchanged.",
    **FREE,
    "properties": {
        "containers": _CONTAINERS,
        "volumes": _named("Additional volumes.", 64, {}),
        **{name: _text("Set by Railhead.", 253) for name in _SET_BY_RAILHEAD},
    },
    **rules(
        *((f".{name}", f"!has(self.{name})", f"{name} is set by Railhead; remove it") for name in _SET_BY_RAILHEAD),
        (
            ".volumes",
            "!has(self.volumes) || self.volumes.all(v, !v.name.startsWith('railhead-'))",
            "names that start with railhead- are reserved",
        ),
    ),
}
_MAP = {"type": "object", "maxProperties": 64}
POD_TEMPLATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "metadata": {
            "type": "object",
            "description": "Labels and annotations of the pods.",
            "properties": {
                "labels": {
                    **_MAP,
                    "description": "Labels of the pods.",
                    "additionalProperties": {"type": "string", "maxLength": 63},
                    **rules(("", "self.all(k, !k.startsWith('railhead.dev/'))", "keys in railhead.dev/ are reserved")),
                },
                "annotations": {
                    **_MAP,
                    "description": "Annotations of the pods.",
                    "additionalProperties": {"type": "string", "maxLength": 32768},
                },
            },
        },
        "spec": _SPEC,
    },
}


def check_pod_template(template: dict[str, Any]) -> dict[str, Any]:
    """Checks what the builders rely on, for objects stored under an older schema.

    Raises:
        ValueError: names the part at fault.
    """
    for key, value in template.items():
        if key not in ("metadata", "spec"):
            raise ValueError(f"{key}: only metadata and spec are supported")
        if not isinstance(value, dict):
            raise ValueError(f"{key}: must be an object")
    for key in ("labels", "annotations"):
        values = template.get("metadata", {}).get(key) or {}
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise ValueError(f"metadata.{key}: must map strings to strings")
    for key in ("containers", "initContainers", "volumes"):
        items = template.get("spec", {}).get(key, [])
        if not isinstance(items, list) or not all(
            isinstance(i, dict) and isinstance(i.get("name"), str) for i in items
        ):
            raise ValueError(f"spec.{key}: must be a list of objects, each with a name")
    for container in template.get("spec", {}).get("containers", []):
        if container["name"] == CONTAINER and container.get("resources") is not None:
            check_ray_resources(container["resources"])
    return template


PodTemplate = Annotated[dict[str, Any], AfterValidator(check_pod_template), WithJsonSchema(POD_TEMPLATE_SCHEMA)]
