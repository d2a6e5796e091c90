"""From the job's input to Ray Train's objects: first as plain values, purely, then for real."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railhead.contract.job_input import JobInput
from railhead.driver.train_stub import CONFIG, ENTRYPOINT, run_train_func

# With one checkpoint Ray deletes the old one right after it wrote the new one's snapshot;
# a reader in between, or a snapshot that was cut off, would find none.
LEAST_TO_KEEP = 2


@dataclass(frozen=True)
class TrainerPlan:
    """The keyword arguments of each of Ray Train's classes; an absent key is Ray's default."""

    framework: str
    train_loop_config: dict[str, Any]
    scaling: dict[str, Any]
    run: dict[str, Any]
    failure: dict[str, Any]
    checkpoint: dict[str, Any]
    torch: dict[str, Any]


def plan_trainer(job: JobInput, *, storage_path: str) -> TrainerPlan:
    scaling = job.scaling
    return TrainerPlan(
        framework=job.framework,
        train_loop_config={ENTRYPOINT: job.train_func, CONFIG: job.train_loop_config},
        scaling=_present(
            num_workers=scaling["numWorkers"],
            use_gpu=bool(scaling.get("useGPU")),
            resources_per_worker=scaling.get("resourcesPerWorker") or None,
        ),
        run={"name": job.run_name, "storage_path": storage_path},
        failure={"max_failures": job.max_failures},
        checkpoint=_plan_checkpoint(job.checkpoint),
        torch=_present(backend=job.backend.get("name"), timeout_s=job.backend.get("timeoutSeconds")),
    )


def _plan_checkpoint(values: dict[str, Any]) -> dict[str, Any]:
    keep = values.get("numToKeep")
    return _present(
        num_to_keep=None if keep is None else max(keep, LEAST_TO_KEEP),
        checkpoint_score_attribute=values.get("scoreAttribute"),
        checkpoint_score_order=values.get("scoreOrder"),
    )


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def build_trainer(plan: TrainerPlan) -> Any:
    """A Ray Train trainer. Raises what Ray raises for values that it does not take."""
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

    arguments = {
        "train_loop_config": plan.train_loop_config,
        "scaling_config": ScalingConfig(**plan.scaling),
        "run_config": RunConfig(
            **plan.run,
            failure_config=FailureConfig(**plan.failure),
            checkpoint_config=CheckpointConfig(**plan.checkpoint),
        ),
    }
    if plan.framework == "Torch":
        from ray.train.torch import TorchConfig, TorchTrainer

        return TorchTrainer(run_train_func, torch_config=TorchConfig(**plan.torch), **arguments)
    if plan.framework == "Python":
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        return DataParallelTrainer(run_train_func, **arguments)
    raise ValueError(f"trainer.framework: {plan.framework} is not supported by this version of Railhead")
