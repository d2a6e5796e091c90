"""spec.trainer.framework and spec.trainer.backend: Ray Train's trainers by name, and the options of their configs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.api.base import Model

Framework = Literal["Torch", "TensorFlow", "XGBoost", "LightGBM", "JAX", "Python"]
DEFAULT_FRAMEWORK: Framework = "Torch"


class Backend(Model):
    """Options of the framework's config in Ray Train: TorchConfig, XGBoostConfig."""

    name: Literal["gloo", "nccl", "rabit"] | None = Field(
        default=None,
        description="How workers communicate. Torch: gloo or nccl; default nccl with GPUs, gloo without. "
        "XGBoost: rabit, the default. Other frameworks have no such option.",
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=86400,
        description="Torch only: timeout of collective operations in seconds (TorchConfig.timeout_s). Default: 1800.",
    )
    init_method: Literal["env", "tcp"] | None = Field(
        default=None,
        description="Torch only: how the process group is formed (TorchConfig.init_method). Default: env.",
    )


_IS_TORCH = f"(has(self.trainer.framework) ? self.trainer.framework : '{DEFAULT_FRAMEWORK}') == 'Torch'"
_IS_XGBOOST = "has(self.trainer.framework) && self.trainer.framework == 'XGBoost'"


def _only(option: str, condition: str) -> str:
    return f"!has(self.trainer.backend) || !has(self.trainer.backend.{option}) || {condition}"


# CEL rules of the whole spec, because nccl needs scaling.useGPU.
BACKEND_RULES = (
    (
        ".trainer.backend.name",
        _only(
            "name",
            f"(self.trainer.backend.name in ['gloo', 'nccl'] && {_IS_TORCH}) || "
            f"(self.trainer.backend.name == 'rabit' && {_IS_XGBOOST})",
        ),
        "Torch supports gloo and nccl, XGBoost supports rabit, other frameworks have no such option; remove it",
    ),
    (
        ".trainer.backend.name",
        _only("name", "self.trainer.backend.name != 'nccl' || self.scaling.useGPU"),
        "nccl needs spec.scaling.useGPU; without GPUs use gloo",
    ),
    (
        ".trainer.backend.timeoutSeconds",
        _only("timeoutSeconds", _IS_TORCH),
        "only Torch supports it; remove it",
    ),
    (
        ".trainer.backend.initMethod",
        _only("initMethod", _IS_TORCH),
        "only Torch supports it; remove it",
    ),
)
