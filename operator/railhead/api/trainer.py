"""spec.trainer: what is trained, by which of Ray Train's trainers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.api.base import FreeObject, Function, Model, free, planned


class Backend(Model):
    """Options of Ray Train's TorchConfig."""

    name: Literal["gloo", "nccl"] | None = Field(
        default=None,
        description="Process group backend. Default: nccl with GPUs, gloo without.",
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="Timeout of collective operations in seconds (TorchConfig.timeout_s).",
    )


class Trainer(Model):
    """The Ray Train trainer."""

    framework: Literal["Torch"] = Field(
        default="Torch", description="Which Ray Train trainer runs the job: Torch (TorchTrainer)."
    )
    train_func: Function = Field(
        description="module:function that runs once per worker, as in Ray Train's train_loop_per_worker."
    )
    train_loop_config: FreeObject | None = free("Free-form object that is handed to train_func as its config argument.")
    backend: Backend | None = Field(default=None, description="Process group options (TorchConfig).")
    build: str | None = planned("module:function called in the driver, returns a trainer.")
    entrypoint: tuple[str, ...] | None = planned("A whole script as the driver.")
