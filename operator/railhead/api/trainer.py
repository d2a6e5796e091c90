"""spec.trainer and spec.source: what is trained and where its code comes from."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from railhead.api.base import FreeObject, Function, Model, Name, free, planned, rules

Text = Annotated[str, Field(max_length=262144)]
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


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


class ConfigMapSource(Model):
    """User code in a ConfigMap of the same namespace."""

    name: Name = Field(description="Name of the ConfigMap; each key is one file.")


class Source(Model):
    """Where the code of train_func comes from. Without it the code is in the image."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "has(self.inline) != has(self.configMap)",
                "exactly one of inline and configMap must be set",
            )
        )
    )
    inline: dict[FileName, Text] | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description="File name to content, for example {train.py: ...}. For small code: 262144 characters in all.",
        json_schema_extra=rules(
            (
                "",
                "self.map(k, size(self[k])).sum() <= 262144",
                "at most 262144 characters in all; put more code into the image or a ConfigMap",
            )
        ),
    )
    config_map: ConfigMapSource | None = Field(default=None, description="A ConfigMap whose keys are the files.")
    git: Any | None = planned("A git repository.")
