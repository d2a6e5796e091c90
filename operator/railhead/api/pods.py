"""spec.head, spec.worker, spec.env: what the pods look like beside the training itself."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from railhead.api.base import FreeObject, Model, Quantity, ResourceName, free, planned, rules

Resources = dict[ResourceName, Quantity]


class EnvVar(Model):
    """A Kubernetes EnvVar."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!self.name.startsWith('RAILHEAD_') && !self.name.startsWith('RAY_AUTH_') && "
                "!(self.name in ['RAY_ADDRESS', 'RAY_TRAIN_CALLBACKS', 'PYTHONPATH'])",
                "spec.env: RAILHEAD_*, RAY_AUTH_*, RAY_ADDRESS, RAY_TRAIN_CALLBACKS and PYTHONPATH are reserved",
            ),
            ("!(has(self.value) && has(self.valueFrom))", "spec.env: value and valueFrom exclude each other"),
        )
    )
    name: str = Field(
        min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=32768)] | None = Field(default=None, description="Its value.")
    value_from: FreeObject | None = free("Source of the value, as in a pod: secretKeyRef, configMapKeyRef, fieldRef.")


class PullSecret(Model):
    """A reference to a Secret of the same namespace."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret.")


class Head(Model):
    """The head pod: Ray's head and the driver, no training."""

    resources: Resources | None = Field(
        default=None, max_length=16, description="Resources of the head pod. Default: cpu 2 and memory 4Gi."
    )
    pod_template: FreeObject | None = free("PodTemplateSpec that goes over spec.podTemplate for the head pod.")


class Worker(Model):
    """The worker pods, beside resourcesPerWorker."""

    extra_resources: Resources | None = Field(
        default=None,
        max_length=16,
        description="CPU and memory per pod beside the workers, for tasks of the user's own.",
    )
    overhead: Resources | None = Field(
        default=None,
        max_length=16,
        description="What Ray itself needs in each worker pod. Default: memory 1536Mi.",
    )
    shared_memory: Quantity = Field(
        default="512Mi", description="Size of /dev/shm; it counts towards the pod's memory."
    )
    object_store: Quantity = Field(default="256Mi", description="Ray's object store in each worker pod, at least 80Mi.")
    pod_template: FreeObject | None = free("PodTemplateSpec that goes over spec.podTemplate for the worker pods.")
    drain_seconds: Any | None = planned("Time for a drained worker to take a last checkpoint.")
