"""Builds the trainer of `trainer.trainFunc`, whose function is our stub.

Ray has a trainer for each framework, which only hands the backend's config to their common base class
(tests/ray/test_contract.py); so the base class is used. A table says which class is the config of each framework, and
which names its options have there. The job's input becomes Ray Train's ScalingConfig and RunConfig: first pure plain
values, then the objects.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pkgutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from railhead.contract import environment
from railhead.contract.job_input import BackendInput, JobInput
from railhead.driver.fit.datasets import build_data_config
from railhead.driver.fit.torch_on_ranks import leave_out_torch
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.messages.exception_text import name_class, read_text
from railhead.driver.rank.run_rank import run_train_func
from railhead.driver.ray.runtime_env import INSTALLERS
from railhead.driver.ray.types import RunConfig, Trainer

MISSING = "FrameworkMissing"
Options = Dict[str, Any]  # keyword arguments for one of Ray Train's classes
# With only one, Ray deletes the old checkpoint right after writing the new one's snapshot;
# in between, or with a truncated snapshot, a reader would find none.
MIN_TO_KEEP = 2
SHOWN_ERROR_CHARS = 400
# As users write them.
BACKEND_FIELDS = {"name": "name", "timeout_seconds": "timeoutSeconds", "init_method": "initMethod"}


@dataclass(frozen=True)
class Framework:
    """What Ray Train needs to know of a framework; without values, nothing besides Ray.

    Attributes:
        package: the import name of the library it trains with.
        config: the class of its backend's options, as `module:name`.
        options: key of `trainer.backend` -> keyword of `config`.
        gpu_option: keyword of `config` that is true when workers have GPUs; None = Ray detects that by itself.
    """

    package: Optional[str] = None
    config: Optional[str] = None
    options: Mapping[str, str] = field(default_factory=dict)
    gpu_option: Optional[str] = None


FRAMEWORKS = {
    "Torch": Framework(
        "torch",
        # The module that torch_on_ranks imports, not its package.
        "ray.train.torch.config:TorchConfig",
        options={"name": "backend", "timeoutSeconds": "timeout_s", "initMethod": "init_method"},
    ),
    "TensorFlow": Framework("tensorflow", "ray.train.tensorflow:TensorflowConfig"),
    "XGBoost": Framework("xgboost", "ray.train.xgboost:XGBoostConfig", options={"name": "xgboost_communicator"}),
    "LightGBM": Framework("lightgbm", "ray.train.lightgbm:LightGBMConfig"),
    # The default of use_gpu comes from JaxTrainer, and Ray 2.52 does not know it.
    "JAX": Framework("jax", "ray.train.v2.jax:JaxConfig", gpu_option="use_gpu"),
    "Python": Framework(),
}


def build_trainer(job: JobInput, *, storage_path: str, datasets: Optional[Mapping[str, object]] = None) -> Trainer:
    """Returns the trainer, ready for fit(); `datasets` are Ray Data's.

    Raises JobRefused for an image that cannot run the framework, and for invalid values.
    """
    from railhead.driver.fit.user_callbacks import add_callbacks, build_validation_config

    scaling_config, run_config = build_configs(job, storage_path=storage_path)
    resume_from = os.environ.get(environment.RESUME_FROM, "")
    with refuse_configuration():
        options = plan_options(job.framework, job.backend, use_gpu=job.scaling.use_gpu)
        more: dict[str, object] = {}
        if datasets:
            more["datasets"] = datasets
            more["dataset_config"] = build_data_config(job)
        add_callbacks(run_config, job.callbacks)
        if job.validation_function:
            more["validation_config"] = build_validation_config(job.validation_function)
        # Before the backend's config is built, which imports its class.
        if leaves_out_torch(job):
            leave_out_torch()
        return build_framework_trainer(
            job.framework,
            functools.partial(run_train_func, job.train_func, job.train_loop_config, resume_from),
            options=options,
            scaling_config=scaling_config,
            run_config=run_config,
            **more,
        )


def leaves_out_torch(job: JobInput) -> bool:
    """Returns whether the head trains with torch without importing it.

    Not if the driver or Ray Train's controller imports modules of the user's, which may use torch there.
    """
    runs_own_code = job.callbacks or job.build or any(each.function for each in job.datasets.values())
    return job.framework == "Torch" and not runs_own_code


def require_package(job: JobInput) -> None:
    """Raises JobRefused when the image cannot run the job's framework.

    Imports nothing: importing TensorFlow takes seconds, and this runs before Ray is up. Packages of runtimeEnv are on
    the ranks alone, which raise the same error if torch is not among them.
    """
    package = FRAMEWORKS[job.framework].package
    if package is None or _is_installed(package):
        return
    if leaves_out_torch(job) and any(job.runtime_env.get(installer) for installer in INSTALLERS):
        return
    raise JobRefused(
        MISSING,
        f"trainer.framework: {job.framework} needs the Python package {package}, which spec.image does not have; "
        f"use an image with {package}",
    )


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        # A package that hides itself, or a half-finished import.
        return False


def plan_options(framework: str, backend: BackendInput, *, use_gpu: bool = False) -> dict[str, object]:
    """Returns the keyword arguments of the framework's config. Raises ValueError for an unknown option."""
    known = FRAMEWORKS[framework]
    given = {BACKEND_FIELDS[name]: value for name, value in asdict(backend).items() if value is not None}
    unknown = sorted(set(given) - set(known.options))
    if unknown:
        raise ValueError(f"trainer.backend.{unknown[0]}: {framework} has no such option; remove it")
    options = {known.options[key]: value for key, value in given.items()}
    if known.gpu_option and use_gpu:
        return {**options, known.gpu_option: True}
    return options


def build_framework_trainer(
    framework: str, function: Callable[..., object], *, options: Mapping[str, object], **arguments: object
) -> Trainer:
    """Returns Ray's trainer of this function with the framework's backend.

    Raises JobRefused when the backend's config cannot be imported, and what Ray raises for invalid values.
    """
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    config = FRAMEWORKS[framework].config
    if config:
        arguments["backend_config"] = _build_config(framework, config, options)
    built: Trainer = DataParallelTrainer(function, **arguments)
    return built


def _build_config(framework: str, reference: str, options: Mapping[str, object]) -> object:
    try:
        config = pkgutil.resolve_name(reference)
    except Exception as error:
        # A library that does not load may raise anything.
        detail = " ".join(f"{name_class(error)}: {read_text(error)}".split())[:SHOWN_ERROR_CHARS]
        raise JobRefused(
            MISSING,
            f"trainer.framework: {framework} cannot be imported from spec.image ({detail}); "
            f"fix the image, or use another one",
        ) from error
    absent = sorted(name for name in options if name not in config.__dataclass_fields__)
    if absent:
        raise ValueError(
            f"trainer.framework: in the Ray of spec.image, {config.__name__} has no {absent[0]}, "
            f"which {framework} needs for this job; use an image with a newer Ray"
        )
    return config(**options)


class ConfigPlan(NamedTuple):
    """The keyword arguments of each of Ray Train's classes; an absent one means Ray's default."""

    scaling: Options
    run: Options
    failure: Options
    checkpoint: Options
    logging: Options


def plan_configs(job: JobInput, *, storage_path: str) -> ConfigPlan:
    """Translates the job's input into plain values."""
    scaling = job.scaling
    elastic = scaling.elastic
    # Ray takes one number, or the least and the most of an elastic job.
    num_workers: object = scaling.num_workers
    resize_seconds = None
    if elastic:
        num_workers = (elastic.min_workers, scaling.num_workers)
        resize_seconds = elastic.resize_interval_seconds
    num_to_keep = job.checkpoint.num_to_keep
    if num_to_keep is not None:
        num_to_keep = max(num_to_keep, MIN_TO_KEEP)
    return ConfigPlan(
        scaling=_drop_unset(
            num_workers=num_workers,
            use_gpu=scaling.use_gpu,
            resources_per_worker=_plan_resources(scaling.resources_per_worker) or None,
            placement_strategy=scaling.placement_strategy,
            accelerator_type=scaling.accelerator_type,
            label_selector=scaling.ray_label_selector or None,
            elastic_resize_monitor_interval_s=resize_seconds,
        ),
        run=_drop_unset(name=job.run_name, storage_path=storage_path, worker_runtime_env=job.runtime_env or None),
        failure=_drop_unset(max_failures=job.max_failures),
        checkpoint=_drop_unset(
            num_to_keep=num_to_keep,
            checkpoint_score_attribute=job.checkpoint.score_attribute,
            checkpoint_score_order=job.checkpoint.score_order,
        ),
        logging=_drop_unset(log_level=job.log_level),
    )


def _plan_resources(resources: dict[str, float]) -> dict[str, float]:
    """Returns whole numbers as integers: JaxTrainer counts a worker's devices with `range(GPU)`."""
    return {name: int(amount) if amount == int(amount) else amount for name, amount in resources.items()}


def _drop_unset(**values: object) -> Options:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def refuse_configuration() -> Iterator[None]:
    """Turns what Ray raises for values that it rejects into JobRefused."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise JobRefused("ConfigurationRefused", f"Ray Train rejects the configuration: {error}") from error


def build_configs(job: JobInput, *, storage_path: str) -> Tuple[object, RunConfig]:
    """Returns the ScalingConfig and the RunConfig. Raises JobRefused for values that Ray rejects."""
    from ray import train

    plan = plan_configs(job, storage_path=storage_path)
    with refuse_configuration():
        more: Options = {}
        # An older Ray has no LoggingConfig; `supported_versions` has checked that this one has it.
        if plan.logging:
            more["logging_config"] = train.LoggingConfig(**plan.logging)
        run_config = train.RunConfig(
            **plan.run,
            **more,
            failure_config=train.FailureConfig(**plan.failure),
            checkpoint_config=train.CheckpointConfig(**plan.checkpoint),
        )
        return train.ScalingConfig(**plan.scaling), run_config
