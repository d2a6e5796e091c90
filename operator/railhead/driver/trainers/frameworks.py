"""Which of Ray Train's trainers stands for which `trainer.framework`, and what its options are called there."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional


@dataclass(frozen=True)
class Framework:
    """Classes as `module:name`.

    Attributes:
        trainer: Ray Train's trainer.
        config: its backend's options, for the trainer's keyword `argument`; None = it has none.
        options: key of `trainer.backend` -> keyword of `config`.
    """

    trainer: str
    config: Optional[str] = None
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


FRAMEWORKS = {
    "Torch": Framework(
        trainer="ray.train.torch:TorchTrainer",
        config="ray.train.torch:TorchConfig",
        argument="torch_config",
        options={"name": "backend", "timeoutSeconds": "timeout_s"},
    ),
    "Python": Framework(trainer="ray.train.v2.api.data_parallel_trainer:DataParallelTrainer"),
}


def plan_options(framework: str, backend: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of the framework's config. Raises ValueError for what it does not know."""
    known = FRAMEWORKS.get(framework)
    if known is None:
        raise ValueError(f"trainer.framework: {framework} is not supported by this version of Railhead")
    unknown = sorted(set(backend) - set(known.options))
    if unknown:
        raise ValueError(f"trainer.backend.{unknown[0]}: {framework} has no such option; remove it")
    return {known.options[key]: value for key, value in backend.items()}


def build_framework_trainer(
    framework: str, function: Callable[..., Any], *, options: Mapping[str, Any], **arguments: Any
) -> Any:
    """Raises ImportError when the image lacks the framework, and what Ray raises for bad values."""
    known = FRAMEWORKS[framework]
    if known.config:
        arguments[known.argument] = _load(known.config)(**options)
    return _load(known.trainer)(function, **arguments)


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
