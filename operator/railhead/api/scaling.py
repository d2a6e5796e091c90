"""spec.scaling: Ray Train's ScalingConfig, how its workers are distributed over pods, and what counts as a GPU.

The extended resources of NVIDIA, AMD and Intel count as GPUs in Ray.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.api.cel import count_gpus
from railhead.api.model import Model, checked, optional, rules
from railhead.api.quantities import WorkerResources, parse_quantity

DEFAULT_GPU = "nvidia.com/gpu"
_NAMES = (DEFAULT_GPU, "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
_PREFIXES = ("nvidia.com/gpu.", "nvidia.com/mig-")  # shared GPUs, and parts of one
# The same as a CEL expression of a name.
IS_GPU = " || ".join([f"{{0}} in {list(_NAMES)}", *(f"{{0}}.startsWith('{prefix}')" for prefix in _PREFIXES)])

GPU_RESOURCE = (
    "",
    IS_GPU.format("self"),
    "must be a resource that Ray counts as a GPU: nvidia.com/gpu, nvidia.com/gpu.*, nvidia.com/mig-*, amd.com/gpu, "
    "gpu.intel.com/i915 or gpu.intel.com/xe; TPU, Gaudi and Neuron are not supported",
)
# Its text is that of release 0.1.0; ONE_KIND_OF_GPU and NAME_NEEDS_USE_GPU together hold for all other names.
NEEDS_USE_GPU = (
    ".useGPU",
    "self.useGPU || !has(self.resourcesPerWorker) || !('nvidia.com/gpu' in self.resourcesPerWorker)",
    "must be true when resourcesPerWorker requests nvidia.com/gpu",
)
NAME_NEEDS_USE_GPU = (
    ".gpuResourceName",
    "!has(self.gpuResourceName) || self.useGPU",
    "needs useGPU: it is the resource of the workers' GPUs",
)
ONE_KIND_OF_GPU = (
    ".resourcesPerWorker",
    "!has(self.resourcesPerWorker) || self.resourcesPerWorker.all(k, "
    f"k == (has(self.gpuResourceName) ? self.gpuResourceName : '{DEFAULT_GPU}') || !({IS_GPU.format('k')}))",
    f"has GPUs of another name than gpuResourceName, which is {DEFAULT_GPU} by default; set gpuResourceName to theirs",
)


_LABEL = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABELS_OF_RAY = (
    "",
    "self.all(k, !k.startsWith('ray.io/'))",
    "labels of ray.io are reserved by Ray; use a label of the Kubernetes nodes, or acceleratorType",
)
START_WAIT_SECONDS = 120  # default of startWaitSeconds
RESIZE_INTERVAL_SECONDS = 60  # default of elasticResizeMonitorIntervalSeconds, as in Ray Train


# For a change while the job is suspended; `oldSelf` is what was before.
SAME_GPUS = {
    "rule": f"{count_gpus('self', default=DEFAULT_GPU)} == {count_gpus('oldSelf', default=DEFAULT_GPU)}",
    "message": "the number of GPUs per worker cannot change; make a new job with resumeFrom for that",
    "fieldPath": ".resourcesPerWorker",
}


def is_gpu(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)


# Ray's syntax: value, !value, in(a, b), !in(a, b). An empty value matches nothing, so it is rejected.
LabelKey = Annotated[str, Field(min_length=1, max_length=253, pattern=rf"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL}$")]
LabelValue = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=rf"^!?({_LABEL}|in\({_LABEL}(, ?{_LABEL})*\))$")
]


class Scaling(Model):
    """The workers and the resources of each: a fixed number of them, or between a minimum and a maximum."""

    model_config = checked(
        (
            ".minWorkers",
            "has(self.minWorkers) == has(self.maxWorkers)",
            "minWorkers and maxWorkers must be set together; use numWorkers for a fixed number of workers",
        ),
        (
            ".numWorkers",
            "!has(self.numWorkers) || !has(self.minWorkers)",
            "must not be set together with minWorkers and maxWorkers",
        ),
        (
            ".maxWorkers",
            "!has(self.minWorkers) || !has(self.maxWorkers) || self.minWorkers <= self.maxWorkers",
            "must not be less than minWorkers",
        ),
        (
            ".desiredWorkers",
            "!has(self.desiredWorkers) || (has(self.minWorkers) && has(self.maxWorkers) "
            "&& self.minWorkers <= self.desiredWorkers && self.desiredWorkers <= self.maxWorkers)",
            "needs minWorkers and maxWorkers, and must be between them",
        ),
        (
            ".startWaitSeconds",
            "!has(self.startWaitSeconds) || has(self.minWorkers)",
            "needs minWorkers and maxWorkers; with numWorkers the job always waits for all workers",
        ),
        (
            ".elasticResizeMonitorIntervalSeconds",
            "!has(self.elasticResizeMonitorIntervalSeconds) || has(self.minWorkers)",
            "needs minWorkers and maxWorkers",
        ),
        (
            ".workersPerPod",
            "!has(self.numWorkers) ? (has(self.minWorkers) || self.workersPerPod == 1) "
            ": self.numWorkers % self.workersPerPod == 0",
            "must divide spec.scaling.numWorkers, so that all pods are alike",
        ),
        (
            ".workersPerPod",
            "(!has(self.minWorkers) || self.minWorkers % self.workersPerPod == 0) && "
            "(!has(self.maxWorkers) || self.maxWorkers % self.workersPerPod == 0) && "
            "(!has(self.desiredWorkers) || self.desiredWorkers % self.workersPerPod == 0)",
            "must divide minWorkers, maxWorkers and desiredWorkers, so that all pods are alike",
        ),
        NEEDS_USE_GPU,
        NAME_NEEDS_USE_GPU,
        ONE_KIND_OF_GPU,
        (
            ".acceleratorType",
            "!has(self.acceleratorType) || self.useGPU",
            "needs useGPU: it is the type of the workers' GPUs",
        ),
        (
            ".placementStrategy",
            "self.placementStrategy != 'STRICT_PACK' || self.workersPerPod == "
            "(has(self.numWorkers) ? self.numWorkers : has(self.maxWorkers) ? self.maxWorkers : 1)",
            "STRICT_PACK needs all workers in one pod: set workersPerPod to the number of workers",
        ),
        (
            ".placementStrategy",
            "self.placementStrategy != 'STRICT_SPREAD' || self.workersPerPod == 1",
            "STRICT_SPREAD puts each worker on its own node, so workersPerPod must be 1",
        ),
    )
    num_workers: int | None = optional(
        "Number of Ray Train workers; each runs train_func once. Default: 1.", ge=1, le=4096
    )
    min_workers: int | None = optional(
        "Elastic training: the minimum number of workers to start and to keep training. Needs Ray 2.55.", ge=1, le=4096
    )
    max_workers: int | None = optional("Elastic training: the maximum number of workers.", ge=1, le=4096)
    desired_workers: int | None = optional(
        "Elastic training: how many workers are wanted now, between minWorkers and maxWorkers. "
        "May be changed while the job runs. Default: maxWorkers.",
        ge=1,
        le=4096,
    )
    start_wait_seconds: int | None = optional(
        "Elastic training: how long the first start waits for all desired workers; then it starts "
        "with those available, at least minWorkers. Default: 120.",
        ge=0,
        le=86400,
    )
    elastic_resize_monitor_interval_seconds: int | None = optional(
        "Elastic training: a worker group is not resized before it has run for that long. Default: 60.", ge=0, le=86400
    )
    use_gpu: bool = Field(
        default=False,
        alias="useGPU",
        description="Each worker gets GPUs: gpuResourceName of resourcesPerWorker, or 1.",
    )
    gpu_resource_name: str | None = optional(
        "The extended resource of the workers' GPUs, one that Ray counts as a GPU: nvidia.com/gpu, "
        "nvidia.com/mig-1g.5gb, amd.com/gpu, gpu.intel.com/i915 and so on. Default: nvidia.com/gpu.",
        min_length=1,
        max_length=128,
        json_schema_extra=rules(GPU_RESOURCE),
    )
    resources_per_worker: WorkerResources | None = optional(
        "Kubernetes resources of one worker. Default: cpu 1 and memory 2Gi, with useGPU "
        "cpu 2 and memory 8Gi for each of its GPUs."
    )
    workers_per_pod: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Workers that share one pod: 8 on a node with 8 GPUs keeps NVLink inside the pod.",
    )
    placement_strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = Field(
        default="PACK",
        description="PACK: worker pods close together, on the same node, else in the same zone, as far as "
        "possible. SPREAD: across nodes, as far as possible. STRICT_PACK: all workers in one pod. STRICT_SPREAD: each "
        "worker on its own node.",
    )
    accelerator_type: str | None = optional(
        "Type of GPU that each worker needs, as Ray names it, for example H100. A node with another "
        "type fails the job; select nodes with rayLabelSelector or worker.podTemplate.",
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    )
    ray_label_selector: (
        Annotated[
            dict[LabelKey, LabelValue], Field(min_length=1, max_length=16, json_schema_extra=rules(LABELS_OF_RAY))
        ]
        | None
    ) = optional(
        "Labels of the nodes that worker pods may run on, in Ray's syntax: value, !value, in(a, b), "
        "!in(a, b). Needs Ray 2.55."
    )

    @property
    def gpu_resource(self) -> str:
        return self.gpu_resource_name or DEFAULT_GPU

    @property
    def is_elastic(self) -> bool:
        return self.min_workers is not None

    @property
    def wanted_workers(self) -> int:
        """Returns how many workers the user wants now."""
        return self.desired_workers or self.most_workers

    @property
    def most_workers(self) -> int:
        return self.max_workers or self.num_workers or 1

    @property
    def most_gpus(self) -> int:
        """Returns the GPUs of all workers; 0 without useGPU."""
        if not self.use_gpu:
            return 0
        amounts = self.resources_per_worker or {}
        return self.most_workers * int(parse_quantity(amounts.get(self.gpu_resource, "1")))

    @property
    def least_workers(self) -> int:
        """Returns the least number with which the job trains."""
        return self.min_workers or self.num_workers or 1
