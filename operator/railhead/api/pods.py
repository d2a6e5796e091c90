"""The pods apart from the training itself: spec.podTemplate, spec.head, spec.worker and spec.imagePullSecrets.

A podTemplate is a PodTemplateSpec with schemas only for the parts that Railhead touches. The full PodSpec would make
the CRD too large for a plain `kubectl apply`; the rest is kept unchanged and validated by the API server when the pod
is created.

CEL rules limit the resources of the ray container, so that no worker is larger than its pod: Ray gets the amounts of
`scaling.resourcesPerWorker` and the like, and requests or devices changed by a template would not match Ray's view. A
template may only set a CPU limit, which the pods do not have by default, and huge pages.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from railhead.api.base import NAMED_LIST, Model, Name, optional, rules
from railhead.api.env import RESERVED, RESERVED_MESSAGE
from railhead.api.names import CONTAINER
from railhead.api.quantities import QUANTITY, AddedResources, HeadResources, Quantity, at_least
from railhead.api.run import HAS_TASKS

HUGE_PAGES = "hugepages-"
REQUESTS_MESSAGE = (
    "requests of the container named ray come from scaling.resourcesPerWorker, worker.extraResources, "
    "worker.overhead and head.resources, so that Ray and the pod agree; only hugepages-* may be added"
)
LIMITS_MESSAGE = (
    "limits of the container named ray come from scaling.resourcesPerWorker, worker.extraResources, "
    "worker.overhead and head.resources; only cpu and hugepages-* may be limited here"
)
_TOO_SMALL = "limits.cpu of the container named ray is less than the CPUs that the pod requests; raise or remove it"


def _cpu(resources: str, *, default: str) -> str:
    """The CPUs in a map of quantities that may be absent, as a number; `default` is an expression as well."""
    return (
        f"quantity(has({resources}) && 'cpu' in {resources} ? string({resources}['cpu']) : {default})"
        ".asApproximateFloat()"
    )


_EACH = _cpu("self.scaling.resourcesPerWorker", default="'1'")
_EXTRA = _cpu("self.worker.extraResources", default=f"({HAS_TASKS} ? '1' : '0')")
_OVERHEAD = _cpu("self.worker.overhead", default="'0'")
_WORKER = f"{_EACH} * double(self.scaling.workersPerPod) + {_EXTRA} + {_OVERHEAD}"
_HEAD = _cpu("self.head.resources", default="'2'")


def _has_room(template: str, wanted: str) -> str:
    """Whether the template's limit, if any, is at least `wanted`, up to float rounding."""
    return (
        f"!has({template}) || !has({template}.spec) || !has({template}.spec.containers) || "
        f"[{wanted}].all(wanted, {template}.spec.containers.all(c, c.name != 'ray' || !has(c.resources) || "
        "!has(c.resources.limits) || !('cpu' in c.resources.limits) || "
        "quantity(string(c.resources.limits['cpu'])).asApproximateFloat() > wanted - 0.0005))"
    )


# For the whole spec.
CPU_LIMIT_RULES = tuple(
    (path, _has_room(f"self{path}", wanted), _TOO_SMALL)
    for path, wanted in (
        (".podTemplate", _WORKER),
        (".podTemplate", _HEAD),
        (".worker.podTemplate", _WORKER),
        (".head.podTemplate", _HEAD),
    )
)

# For a container of a template.
_LIMITED = "self.name != 'ray' || !has(self.resources) || !has(self.resources.{0}) || self.resources.{0}.all(k, {1})"
CONTAINER_RULES = (
    ("", _LIMITED.format("requests", f"k.startsWith('{HUGE_PAGES}')"), REQUESTS_MESSAGE),
    ("", _LIMITED.format("limits", f"k == 'cpu' || k.startsWith('{HUGE_PAGES}')"), LIMITS_MESSAGE),
)


def check_ray_resources(resources: Any) -> None:
    """The same checks for an object stored under an older schema. Raises ValueError."""
    if not isinstance(resources, dict):
        raise ValueError("resources of the container named ray: must be an object")
    for key, allowed, message in (("requests", (), REQUESTS_MESSAGE), ("limits", ("cpu",), LIMITS_MESSAGE)):
        names = resources.get(key) or {}
        if not isinstance(names, dict) or not all(n in allowed or str(n).startswith(HUGE_PAGES) for n in names):
            raise ValueError(message)


FREE = {"x-kubernetes-preserve-unknown-fields": True}


def _text(description: str, limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": limit, **more}


def _list(description: str, items: dict[str, Any], limit: int, **more: Any) -> dict[str, Any]:
    return {"type": "array", "description": description, "maxItems": limit, "items": items, **more}


def _named(description: str, limit: int, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A list of objects with a unique name each."""
    name = {"type": "string", "minLength": 1, "maxLength": 253, "description": "Its name."}
    items = {"type": "object", "required": ["name"], "properties": {"name": name, **properties}, **FREE, **more}
    return _list(description, items, limit, **NAMED_LIST)


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
        "tolerations": _list("Added to the other templates'.", {"type": "object", "maxProperties": 16, **FREE}, 64),
        "terminationGracePeriodSeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "maximum": 604800,
            "description": "Seconds from SIGTERM to SIGKILL; at least what saving a checkpoint may take.",
        },
        "priorityClassName": _text("Priority of the pods; also scheduling.priorityClassName.", 253),
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
    if not isinstance(template.get("spec", {}).get("tolerations") or [], list):
        raise ValueError("spec.tolerations: must be a list")
    if not isinstance(template.get("spec", {}).get("terminationGracePeriodSeconds", 0), int):
        raise ValueError("spec.terminationGracePeriodSeconds: must be an integer")
    for container in template.get("spec", {}).get("containers", []):
        if container["name"] == CONTAINER and container.get("resources") is not None:
            check_ray_resources(container["resources"])
    return template


PodTemplate = Annotated[dict[str, Any], AfterValidator(check_pod_template), WithJsonSchema(POD_TEMPLATE_SCHEMA)]


class PullSecret(Model):
    """A reference to a Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")


class HeadConfig(Model):
    """The head pod: Ray's head and the driver, no training."""

    resources: HeadResources | None = optional(
        "Resources of the head pod. Default: cpu 2 and memory 4Gi, with spec.datasets "
        "8Gi, and for each worker beyond 64 cpu 4m and memory 8Mi more."
    )
    pod_template: PodTemplate | None = optional("PodTemplateSpec merged over spec.podTemplate for the head pod.")


class Worker(Model):
    """The worker pods, apart from resourcesPerWorker."""

    extra_resources: AddedResources | None = optional(
        "CPU and memory per pod in addition to the workers', for tasks of Ray Data and of your own code. "
        "Default with spec.datasets or trainer.validationFunction: cpu 1."
    )
    overhead: AddedResources | None = optional("What Ray itself needs in each worker pod. Default: memory 1536Mi.")
    shared_memory: Quantity | None = optional(
        "Size of /dev/shm in addition to the object store; it counts towards the pod's memory. Default: "
        "512Mi, with scaling.useGPU 8Gi per worker, of which the pod's memory request has 512Mi and its limit all.",
        json_schema_extra=rules(at_least("1Mi", why="a number without a unit is in bytes")),
    )
    object_store: Quantity | None = optional(
        "Ray's object store in each worker pod, at least 80Mi. Default: 256Mi, with spec.datasets 1Gi.",
        json_schema_extra=rules(at_least("80Mi", why="Ray does not start with less")),
    )
    pod_template: PodTemplate | None = optional("PodTemplateSpec merged over spec.podTemplate for the worker pods.")
    drain_seconds: int | None = optional(
        "How long a worker pod keeps training after SIGTERM (a drain, an eviction, a spot instance): "
        "train_func sees it in ray.train.get_preemption_info() and may save a checkpoint. Needs Ray 2.58. Default: "
        "with scaling.useGPU 30 if this Ray can, else it exits at once.",
        ge=1,
        le=86400,
    )
