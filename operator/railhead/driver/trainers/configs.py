"""Turns the job's input into Ray Train's ScalingConfig and RunConfig: first pure plain values, then the objects."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator

from railhead.contract.job_input import JobInput
from railhead.driver.errors import JobRefused

# With only one, Ray deletes the old checkpoint right after writing the new one's snapshot;
# in between, or with a truncated snapshot, a reader would find none.
MIN_TO_KEEP = 2


@dataclass(frozen=True)
class ConfigPlan:
    """The keyword arguments of each of Ray Train's classes; an absent key means Ray's default."""

    scaling: dict[str, Any]
    run: dict[str, Any]
    failure: dict[str, Any]
    checkpoint: dict[str, Any]
    logging: dict[str, Any]


def plan_configs(job: JobInput, *, storage_path: str) -> ConfigPlan:
    scaling = job.scaling
    return ConfigPlan(
        scaling=_present(
            num_workers=_count_workers(job),
            use_gpu=bool(scaling.get("useGPU")),
            resources_per_worker=_plan_resources(scaling.get("resourcesPerWorker") or {}) or None,
            placement_strategy=scaling.get("placementStrategy"),
            accelerator_type=scaling.get("acceleratorType"),
            label_selector=scaling.get("rayLabelSelector") or None,
            elastic_resize_monitor_interval_s=scaling.get("resizeIntervalSeconds"),
        ),
        run=_present(name=job.run_name, storage_path=storage_path, worker_runtime_env=job.runtime_env or None),
        failure=_present(max_failures=job.max_failures),
        checkpoint=_plan_checkpoint(job.checkpoint),
        logging=_present(log_level=job.log_level),
    )


def _count_workers(job: JobInput) -> Any:
    """Returns a number, or the bounds of an elastic job."""
    return (job.scaling["minWorkers"], job.most_workers) if job.is_elastic else job.most_workers


def _plan_resources(resources: dict[str, float]) -> dict[str, float]:
    """Returns whole numbers as integers: JaxTrainer counts a worker's devices with `range(GPU)`."""
    return {name: int(amount) if amount == int(amount) else amount for name, amount in resources.items()}


def _plan_checkpoint(values: dict[str, Any]) -> dict[str, Any]:
    keep = values.get("numToKeep")
    return _present(
        num_to_keep=None if keep is None else max(keep, MIN_TO_KEEP),
        checkpoint_score_attribute=values.get("scoreAttribute"),
        checkpoint_score_order=values.get("scoreOrder"),
    )


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def refuse_configuration() -> Iterator[None]:
    """Turns what Ray raises for values that it rejects into JobRefused."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise JobRefused("ConfigurationRefused", f"Ray Train rejects the configuration: {error}") from error


def build_configs(job: JobInput, *, storage_path: str) -> tuple[Any, Any]:
    """Returns the ScalingConfig and the RunConfig. Raises JobRefused for values that Ray rejects."""
    from ray import train

    plan = plan_configs(job, storage_path=storage_path)
    with refuse_configuration():
        # An older Ray has no LoggingConfig; `ray_node` has checked that this one has it.
        more = {"logging_config": train.LoggingConfig(**plan.logging)} if plan.logging else {}
        run_config = train.RunConfig(
            **plan.run,
            **more,
            failure_config=train.FailureConfig(**plan.failure),
            checkpoint_config=train.CheckpointConfig(**plan.checkpoint),
        )
        return train.ScalingConfig(**plan.scaling), run_config
