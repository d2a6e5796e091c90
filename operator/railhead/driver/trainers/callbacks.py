"""`run.callbacks`: the user's UserCallbacks, each inside a guard that attributes its exceptions.

They run in Ray Train's controller actor, where Ray ends the run when one of them raises.
"""

from __future__ import annotations

from typing import Any, Iterable

from ray.train import UserCallback

from railhead.driver.describe import describe_exception
from railhead.driver.errors import CallbackRaised, JobRefused
from railhead.driver.user_code import load_object

REFUSED = "CallbackRefused"


class GuardedCallback(UserCallback):  # type: ignore[misc]
    """`who` begins the message: `run.callbacks module:Class`, or a class from the user's own RunConfig."""

    def __init__(self, callback: Any, who: str) -> None:
        self._callback = callback
        self.who = who

    def after_report(self, *arguments: Any, **named: Any) -> None:
        self._call("after_report", arguments, named)

    def after_exception(self, *arguments: Any, **named: Any) -> None:
        self._call("after_exception", arguments, named)

    def _call(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        try:
            getattr(self._callback, method)(*arguments, **named)
        except BaseException as error:
            raise CallbackRaised(f"{self.who}: {method} raised {describe_exception(error)}") from error


def add_callbacks(run_config: Any, references: Iterable[str]) -> None:
    """Guards the RunConfig's callbacks and appends one for each `module:Class`; idempotent.

    Raises JobRefused.
    """
    guarded = [_guard(callback) for callback in run_config.callbacks or []]
    known = {callback.who for callback in guarded if isinstance(callback, GuardedCallback)}
    guarded += [_load(reference) for reference in references if _name(reference) not in known]
    run_config.callbacks = guarded


def _name(reference: str) -> str:
    return f"run.callbacks {reference}"


def _load(reference: str) -> Any:
    who = _name(reference)
    try:
        kind = load_object(reference)
    except (Exception, SystemExit) as error:
        raise JobRefused(REFUSED, f"{who}: {describe_exception(error)}") from error
    if not (isinstance(kind, type) and issubclass(kind, UserCallback)):
        raise JobRefused(REFUSED, f"{who}: it is not a subclass of ray.train.UserCallback")
    try:
        return GuardedCallback(kind(), who)
    except (Exception, SystemExit) as error:
        raise JobRefused(
            REFUSED, f"{who}: it cannot be instantiated without arguments: {describe_exception(error)}"
        ) from error


def _guard(callback: Any) -> Any:
    if isinstance(callback, GuardedCallback) or not isinstance(callback, UserCallback):
        return callback
    return GuardedCallback(callback, f"RunConfig(callbacks), {type(callback).__qualname__}")
