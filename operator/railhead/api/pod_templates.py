"""The pods apart from the training itself: spec.podTemplate, spec.head, spec.worker and spec.imagePullSecrets.

CEL rules see to it that no limit of CPUs in a template is below what the pod requests.
"""

from __future__ import annotations

from pydantic import Field

from railhead.api.cel import cpus_in, has_cpu_room
from railhead.api.model import Model, Name, optional, rules
from railhead.api.pod_template import PodTemplate
from railhead.api.quantities import AddedResources, HeadResources, Quantity, at_least
from railhead.api.run import HAS_TASKS

_TOO_SMALL = "limits.cpu of the container named ray is less than the CPUs that the pod requests; raise or remove it"


# For the whole spec.
_MOUNTS = (
    "has({0}) && has({0}.spec) && has({0}.spec.containers) && {0}.spec.containers.exists(c, c.name == 'ray' && "
    "has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath in ['/dev/shm', '/dev/shm/']))"
)
SHARED_MEMORY_RULE = (
    ".worker.sharedMemory",
    f"!has(self.worker.sharedMemory) || !({_MOUNTS.format('self.podTemplate')} || "
    f"{_MOUNTS.format('self.worker.podTemplate')})",
    "podTemplate mounts another volume at /dev/shm, whose size this is; remove one of them",
)


_EACH = cpus_in("self.scaling.resourcesPerWorker", default="'1'")
_EXTRA = cpus_in("self.worker.extraResources", default=f"({HAS_TASKS} ? '1' : '0')")
_OVERHEAD = cpus_in("self.worker.overhead", default="'0'")
_WORKER = f"{_EACH} * double(self.scaling.workersPerPod) + {_EXTRA} + {_OVERHEAD}"
_HEAD = cpus_in("self.head.resources", default="'2'")


# For the whole spec.
CPU_LIMIT_RULES = tuple(
    (path, has_cpu_room(f"self{path}", wanted), _TOO_SMALL)
    for path, wanted in (
        (".podTemplate", _WORKER),
        (".podTemplate", _HEAD),
        (".worker.podTemplate", _WORKER),
        (".head.podTemplate", _HEAD),
    )
)


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
