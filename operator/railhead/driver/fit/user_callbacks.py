"""Guards the user's functions that Ray Train calls beside training: `run.callbacks`, `trainer.validationFunction`.

The former are UserCallbacks, each inside a guard that attributes its exceptions. They run in Ray Train's controller
actor, where Ray ends the run when one of them raises. The latter is loaded where it runs: in a task on a worker pod.
When it raises, Ray continues, and the checkpoint has no validation metrics, so we log the reason.
"""

from __future__ import annotations

import functools
from typing import Iterable

from ray.train import UserCallback

from railhead.driver.container.user_code import load_function, load_object
from railhead.driver.messages.attempt_errors import CallbackRaised, JobRefused
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.exit_words import note_exit_words
from railhead.driver.messages.log import log
from railhead.driver.rank.reported_metrics import convert_written
from railhead.driver.ray.types import RunConfig

REFUSED = "CallbackRefused"


class GuardedCallback(UserCallback):  # type: ignore[misc]
    """Attributes what a callback of the user's raises to that callback.

    `who` begins the message: `run.callbacks module:Class`, or a class from the user's own RunConfig.
    """

    def __init__(self, callback: object, who: str) -> None:
        self._callback = callback
        self.who = who

    def after_report(self, *arguments: object, **named: object) -> None:
        self._call("after_report", arguments, named)

    def after_exception(self, *arguments: object, **named: object) -> None:
        self._call("after_exception", arguments, named)

    def _call(self, method: str, arguments: tuple[object, ...], named: dict[str, object]) -> None:
        try:
            with note_exit_words():
                getattr(self._callback, method)(*arguments, **named)
        except BaseException as error:
            raise CallbackRaised(f"{self.who}: {method} raised {describe_exception(error)}") from error


def add_callbacks(run_config: RunConfig, references: Iterable[str]) -> None:
    """Guards the RunConfig's callbacks and appends one for each `module:Class`; idempotent. Raises JobRefused."""
    guarded = [_guard(callback) for callback in run_config.callbacks or []]
    known = {callback.who for callback in guarded if isinstance(callback, GuardedCallback)}
    guarded += [_load(reference) for reference in references if _name(reference) not in known]
    run_config.callbacks = guarded


def _name(reference: str) -> str:
    return f"run.callbacks {reference}"


def _load(reference: str) -> object:
    who = _name(reference)
    try:
        with note_exit_words():
            kind = load_object(reference)
    except (Exception, SystemExit) as error:
        raise JobRefused(REFUSED, f"{who}: {describe_exception(error)}") from error
    if not (isinstance(kind, type) and issubclass(kind, UserCallback)):
        raise JobRefused(REFUSED, f"{who}: it is not a subclass of ray.train.UserCallback")
    try:
        with note_exit_words():
            callback = kind()
        return GuardedCallback(callback, who)
    except (Exception, SystemExit) as error:
        raise JobRefused(
            REFUSED, f"{who}: it cannot be instantiated without arguments: {describe_exception(error)}"
        ) from error


def _guard(callback: object) -> object:
    if isinstance(callback, GuardedCallback) or not isinstance(callback, UserCallback):
        return callback
    return GuardedCallback(callback, f"RunConfig(callbacks), {type(callback).__qualname__}")


def build_validation_config(reference: str) -> object:
    """Returns Ray Train's ValidationConfig, which exists since Ray 2.54 (`supported_versions`)."""
    from ray.train import ValidationConfig

    return ValidationConfig(fn=functools.partial(validate, reference))


def validate(reference: str, checkpoint: object, **arguments: object) -> object:
    """Returns the metrics that the user's function returns for this checkpoint, as Ray can write them.

    Raises TypeError for a metric that it cannot write.
    """
    try:
        metrics = load_function(reference)(checkpoint, **arguments)
        if isinstance(metrics, dict):
            return convert_written("the function", metrics)
        return metrics
    except Exception as error:
        log(f"trainer.validationFunction {reference}: {describe_exception(error)}")
        raise
