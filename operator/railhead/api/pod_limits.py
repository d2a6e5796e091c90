"""What a podTemplate may set in the ray container's resources: CEL rules, so that no worker is larger than its pod.

Ray gets the amounts of `scaling.resourcesPerWorker` and the like. Requests or devices changed
by a template would not match Ray's view; all that a template may set are a CPU limit, which
the pods do not have by default, and huge pages.
"""

from __future__ import annotations

from typing import Any

from railhead.api.datasets import HAS_TASKS

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
