"""`trainer.validationFunction`: Ray Train's ValidationConfig with the user's function, loaded where it runs.

Ray runs it as a task on a worker pod, alongside training, and continues when it raises: the
checkpoint then simply has no validation metrics. So this logs the reason.
"""

from __future__ import annotations

import functools
from typing import Any

from railhead.driver.describe import describe_exception, log
from railhead.driver.user_code import load_function


def build_validation_config(reference: str) -> Any:
    """ray.train.ValidationConfig, which exists since Ray 2.54 (`ray_features`)."""
    from ray.train import ValidationConfig

    return ValidationConfig(fn=functools.partial(validate, reference))


def validate(reference: str, checkpoint: Any, **arguments: Any) -> Any:
    """The metrics that the user's function returns for this checkpoint."""
    try:
        return load_function(reference)(checkpoint, **arguments)
    except Exception as error:
        log(f"trainer.validationFunction {reference}: {describe_exception(error)}")
        raise
