"""spec.scaling: Ray Train's ScalingConfig and how its workers are spread over pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from railhead.api.base import Model, planned, rules
from railhead.api.quantities import WorkerResources

_LABEL = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
# As Ray has it: value, !value, in(a, b), !in(a, b). An empty value chooses nothing, so it is refused.
LabelKey = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL}$")]
LabelValue = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=rf"^!?({_LABEL}|in\({_LABEL}(, ?{_LABEL})*\))$")
]
LABELS_OF_RAY = (
    "",
    "self.all(k, !k.startsWith('ray.io/'))",
    "labels of ray.io are Ray's own; name a label of the nodes in Kubernetes, or use acceleratorType",
)


class Scaling(Model):
    """How many workers and what each of them gets."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                ".workersPerPod",
                "self.numWorkers % self.workersPerPod == 0",
                "must divide spec.scaling.numWorkers, so that all pods are alike",
            ),
            (
                ".useGPU",
                "self.useGPU || !has(self.resourcesPerWorker) || !('nvidia.com/gpu' in self.resourcesPerWorker)",
                "must be true when resourcesPerWorker asks for nvidia.com/gpu",
            ),
            (
                ".acceleratorType",
                "!has(self.acceleratorType) || self.useGPU",
                "needs useGPU: it is the type of the workers' GPUs",
            ),
            (
                ".placementStrategy",
                "self.placementStrategy != 'STRICT_PACK' || self.workersPerPod == self.numWorkers",
                "STRICT_PACK needs all workers in one pod: set workersPerPod to the number of workers",
            ),
            (
                ".placementStrategy",
                "self.placementStrategy != 'STRICT_SPREAD' || self.workersPerPod == 1",
                "STRICT_SPREAD puts each worker on a node of its own, so workersPerPod must be 1",
            ),
        )
    )
    num_workers: int = Field(
        default=1, ge=1, le=4096, description="Number of Ray Train workers, each runs train_func once."
    )
    use_gpu: bool = Field(
        default=False,
        alias="useGPU",
        description="Each worker gets GPUs: nvidia.com/gpu of resourcesPerWorker, or 1.",
    )
    resources_per_worker: WorkerResources | None = Field(
        default=None, description="Kubernetes resources of one worker. Default: cpu 1 and memory 2Gi."
    )
    workers_per_pod: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Workers that share one pod: 8 on a node with 8 GPUs keeps NVLink inside the pod.",
    )
    min_workers: int | None = planned("Elastic training: the least number of workers.")
    max_workers: int | None = planned("Elastic training: the greatest number of workers.")
    desired_workers: int | None = planned("Elastic training: the number of workers wanted now.")
    placement_strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = Field(
        default="PACK",
        description="PACK: worker pods near each other, on the same node, else in the same zone, as far as there is "
        "room. SPREAD: over nodes, as far as there are some. STRICT_PACK: all workers in one pod. STRICT_SPREAD: each "
        "worker on a node of its own.",
    )
    accelerator_type: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        description="Type of GPU that each worker must have, in Ray's words, for example H100. A node with another "
        "one fails the job; choose nodes with labelSelector or worker.podTemplate.",
    )
    label_selector: (
        Annotated[
            dict[LabelKey, LabelValue], Field(min_length=1, max_length=16, json_schema_extra=rules(LABELS_OF_RAY))
        ]
        | None
    ) = Field(
        default=None,
        description="Labels of the nodes that worker pods may run on, in Ray's syntax: value, !value, in(a, b), "
        "!in(a, b). Needs Ray 2.55.",
    )
    start_wait_seconds: int | None = planned("Elastic training: how long to wait for more than minWorkers.")
