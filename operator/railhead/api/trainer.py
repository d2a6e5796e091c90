"""spec.trainer: what is trained, by which of Ray Train's trainers."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator

from railhead.api.backend import Backend, Framework
from railhead.api.base import FreeObject, Function, Model, free, planned, rules


class Trainer(Model):
    """The Ray Train trainer: made from trainFunc, or by the user's own code."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "has(self.trainFunc) != has(self.build)",
                "exactly one of trainFunc and build must be set",
            ),
            (
                ".framework",
                "!has(self.framework) || has(self.trainFunc)",
                "goes with trainFunc only; the trainer that build returns is a framework's already",
            ),
            (
                ".backend",
                "!has(self.backend) || has(self.trainFunc)",
                "goes with trainFunc only; give the options to the trainer that build returns",
            ),
        )
    )
    framework: Framework | None = Field(
        default=None,
        description="Which of Ray Train's trainers runs trainFunc: Torch (TorchTrainer), TensorFlow "
        "(TensorflowTrainer), XGBoost (XGBoostTrainer), LightGBM (LightGBMTrainer), JAX (JaxTrainer), or Python "
        "(DataParallelTrainer without a backend). Default: Torch.",
    )
    train_func: Function | None = Field(
        default=None,
        description="module:function that runs once per worker, as in Ray Train's train_loop_per_worker.",
    )
    train_loop_config: FreeObject | None = free(
        "Free-form object that is handed to trainFunc as its config argument, or to build as train_loop_config."
    )
    backend: Backend | None = Field(default=None, description="Options of the framework's config in Ray Train.")
    build: Function | None = Field(
        default=None,
        description="module:function that is called in the head pod with scaling_config, run_config, "
        "train_loop_config and datasets, and returns one of Ray Train's trainers.",
    )
    entrypoint: tuple[str, ...] | None = planned("A whole script as the driver.")

    @model_validator(mode="after")
    def _has_one_way(self) -> Trainer:
        """For an object that was stored under another schema."""
        if (self.train_func is None) == (self.build is None):
            raise ValueError("exactly one of trainFunc and build must be set")
        return self
