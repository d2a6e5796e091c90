"""spec.trainer: what to train, with which of Ray Train's trainers and with which options of their configs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railhead.api.cel import needs_backend_option
from railhead.api.model import FreeObject, Function, Model, checked, free, optional

Framework = Literal["Torch", "TensorFlow", "XGBoost", "LightGBM", "JAX", "Python"]
DEFAULT_FRAMEWORK: Framework = "Torch"


_IS_SCRIPT = "has(self.trainer.entrypoint)"
# Rules on the spec: fields that a script decides itself would otherwise be accepted and ignored.
SCRIPT_RULES = (
    (
        ".run.checkpoint",
        f"!{_IS_SCRIPT} || !has(self.run.checkpoint)",
        "cannot be combined with trainer.entrypoint; pass a CheckpointConfig to the RunConfig in the script",
    ),
    (
        ".run.failure",
        f"!{_IS_SCRIPT} || !has(self.run.failure)",
        "cannot be combined with trainer.entrypoint; pass a FailureConfig to the RunConfig in the script",
    ),
    (
        ".run.logLevel",
        f"!{_IS_SCRIPT} || !has(self.run.logLevel)",
        "cannot be combined with trainer.entrypoint; pass a LoggingConfig to the RunConfig in the script",
    ),
    (
        ".datasets",
        f"!{_IS_SCRIPT} || !has(self.datasets)",
        "cannot be combined with trainer.entrypoint; read the data in the script",
    ),
    (
        ".runtimeEnv",
        f"!{_IS_SCRIPT} || !has(self.runtimeEnv)",
        "cannot be combined with trainer.entrypoint; pass it to ray.init or to the RunConfig in the script",
    ),
    (
        ".scaling.minWorkers",
        f"!{_IS_SCRIPT} || !has(self.scaling.minWorkers)",
        "cannot be combined with trainer.entrypoint; use numWorkers, or trainer.build for an elastic job",
    ),
)


class Backend(Model):
    """Options of the framework's config in Ray Train: TorchConfig, XGBoostConfig."""

    name: Literal["gloo", "nccl", "rabit"] | None = optional(
        "How workers communicate. Torch: gloo or nccl; default nccl with GPUs, gloo without. "
        "XGBoost: rabit, the default. Other frameworks have no such option."
    )
    timeout_seconds: int | None = optional(
        "Torch only: timeout of collective operations in seconds (TorchConfig.timeout_s). Default: 1800.",
        ge=1,
        le=86400,
    )
    init_method: Literal["env", "tcp"] | None = optional(
        "Torch only: how the process group is formed (TorchConfig.init_method). Default: env."
    )


_IS_TORCH = f"(has(self.trainer.framework) ? self.trainer.framework : '{DEFAULT_FRAMEWORK}') == 'Torch'"
_IS_XGBOOST = "has(self.trainer.framework) && self.trainer.framework == 'XGBoost'"


# CEL rules of the whole spec, because nccl needs scaling.useGPU.
BACKEND_RULES = (
    (
        ".trainer.backend.name",
        needs_backend_option(
            "name",
            f"(self.trainer.backend.name in ['gloo', 'nccl'] && {_IS_TORCH}) || "
            f"(self.trainer.backend.name == 'rabit' && {_IS_XGBOOST})",
        ),
        "Torch supports gloo and nccl, XGBoost supports rabit, other frameworks have no such option; remove it",
    ),
    (
        ".trainer.backend.name",
        needs_backend_option("name", "self.trainer.backend.name != 'nccl' || self.scaling.useGPU"),
        "nccl needs spec.scaling.useGPU; without GPUs use gloo",
    ),
    (
        ".trainer.backend.timeoutSeconds",
        needs_backend_option("timeoutSeconds", _IS_TORCH),
        "only Torch supports it; remove it",
    ),
    (
        ".trainer.backend.initMethod",
        needs_backend_option("initMethod", _IS_TORCH),
        "only Torch supports it; remove it",
    ),
)


Argument = Annotated[str, Field(min_length=1, max_length=4096)]


class TrainerConfig(Model):
    """The Ray Train trainer: built from trainFunc, or by the user's own code."""

    model_config = checked(
        (
            "",
            "[has(self.trainFunc), has(self.build), has(self.entrypoint)].filter(w, w).size() == 1",
            "exactly one of trainFunc, build and entrypoint must be set",
        ),
        (
            ".trainLoopConfig",
            "!has(self.trainLoopConfig) || !has(self.entrypoint)",
            "requires trainFunc or build; pass arguments to a script in entrypoint, or variables in spec.env",
        ),
        (
            ".framework",
            "!has(self.framework) || has(self.trainFunc)",
            "requires trainFunc; with build or a script, the trainer class determines the framework",
        ),
        (
            ".validationFunction",
            "!has(self.validationFunction) || has(self.trainFunc)",
            "requires trainFunc; pass a ValidationConfig to the trainer that build or the script creates",
        ),
        (
            ".backend",
            "!has(self.backend) || has(self.trainFunc)",
            "requires trainFunc; pass the options to the trainer that build or the script creates",
        ),
    )
    framework: Framework | None = optional(
        "Which of Ray Train's trainers runs trainFunc: Torch (TorchTrainer), TensorFlow "
        "(TensorflowTrainer), XGBoost (XGBoostTrainer), LightGBM (LightGBMTrainer), JAX (JaxTrainer), or Python "
        "(DataParallelTrainer without a backend). Default: Torch."
    )
    train_func: Function | None = optional(
        "module:function that runs once per worker, as in Ray Train's train_loop_per_worker."
    )
    train_loop_config: FreeObject | None = free(
        "Free-form object passed to trainFunc as its config argument, or to build as train_loop_config."
    )
    backend: Backend | None = optional("Options of the framework's config in Ray Train.")
    validation_function: Function | None = optional(
        "module:function of Ray Train's ValidationConfig: takes a checkpoint and returns metrics, for "
        "reports with validation. It runs as a task next to the workers. Needs Ray 2.54."
    )
    build: Function | None = optional(
        "module:function called in the head pod with scaling_config, run_config, "
        "train_loop_config and datasets, and returns one of Ray Train's trainers."
    )
    entrypoint: list[Argument] | None = optional(
        "Command of a script that runs in the head pod and calls fit() itself, "
        "for example [python, train.py]. python means the Python that has Ray.",
        min_length=1,
        max_length=64,
    )

    @model_validator(mode="after")
    def _has_one_way(self) -> TrainerConfig:
        """Checks an object stored under another schema."""
        if [self.train_func, self.build, self.entrypoint].count(None) != 2:
            raise ValueError("exactly one of trainFunc, build and entrypoint must be set")
        return self
