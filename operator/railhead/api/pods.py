"""spec.head, spec.worker, spec.imagePullSecrets: the pods, apart from the training itself."""

from __future__ import annotations

from pydantic import Field

from railhead.api.base import Model, Name, rules
from railhead.api.pod_template import PodTemplate
from railhead.api.quantities import AddedResources, HeadResources, Quantity, at_least


class PullSecret(Model):
    """A reference to a Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")


class HeadConfig(Model):
    """The head pod: Ray's head and the driver, no training."""

    resources: HeadResources | None = Field(
        default=None,
        description="Resources of the head pod. Default: cpu 2 and memory 4Gi, with spec.datasets "
        "8Gi, and for each worker beyond 64 cpu 4m and memory 8Mi more.",
    )
    pod_template: PodTemplate | None = Field(
        default=None, description="PodTemplateSpec merged over spec.podTemplate for the head pod."
    )


class Worker(Model):
    """The worker pods, apart from resourcesPerWorker."""

    extra_resources: AddedResources | None = Field(
        default=None,
        description="CPU and memory per pod in addition to the workers', for tasks of Ray Data and of your own code. "
        "Default with spec.datasets or trainer.validationFunction: cpu 1.",
    )
    overhead: AddedResources | None = Field(
        default=None, description="What Ray itself needs in each worker pod. Default: memory 1536Mi."
    )
    shared_memory: Quantity | None = Field(
        default=None,
        description="Size of /dev/shm in addition to the object store; it counts towards the pod's memory. Default: "
        "512Mi, with scaling.useGPU 8Gi per worker, of which the pod's memory request has 512Mi and its limit all.",
        json_schema_extra=rules(at_least("1Mi", why="a number without a unit is in bytes")),
    )
    object_store: Quantity | None = Field(
        default=None,
        description="Ray's object store in each worker pod, at least 80Mi. Default: 256Mi, with spec.datasets 1Gi.",
        json_schema_extra=rules(at_least("80Mi", why="Ray does not start with less")),
    )
    pod_template: PodTemplate | None = Field(
        default=None, description="PodTemplateSpec merged over spec.podTemplate for the worker pods."
    )
    drain_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="How long a worker pod keeps training after SIGTERM (a drain, an eviction, a spot instance): "
        "train_func sees it in ray.train.get_preemption_info() and may save a checkpoint. Needs Ray 2.58. Default: "
        "with scaling.useGPU 30 if this Ray can, else it exits at once.",
    )
