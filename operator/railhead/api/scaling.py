"""spec.scaling: Ray Train's ScalingConfig and how its workers are spread over pods."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from railhead.api.base import Model, planned, rules
from railhead.api.quantities import WorkerResources


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
    placement_strategy: str | None = planned("PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.")
    accelerator_type: str | None = planned("Accelerator type that the workers need.")
    start_wait_seconds: int | None = planned("Elastic training: how long to wait for more than minWorkers.")
    label_selector: Any | None = planned("Ray label selector.")
