"""How the user's script ended: its exit code, the outcome of its last fit() and its last lines, as an ending. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.describe import describe_exit
from railhead.driver.ending import Ending, Success
from railhead.driver.reporting.mailbox import FAILED, RUNNING, Fit

# A script that cannot be imported fails the same way each time.
_PERMANENT = re.compile(r"^(ModuleNotFoundError|ImportError|SyntaxError|IndentationError|TabError)\b")
_NO_FIT = (
    "trainer.entrypoint: the script exited with code 0 without calling fit() on one of Ray Train's trainers; "
    "call it in the script, or check the head's log for why the script did not get that far. A sweep of ray.tune.Tuner "
    "is not supported: create one TrainJob for each trial"
)

# Such a failure ends fit(), and the script with it.
_NOT_THE_SCRIPTS = (FailureClass.INFRASTRUCTURE, FailureClass.HARDWARE, FailureClass.HANG)
_FAILED = "trainer.entrypoint: the script's last fit() failed without a recorded reason; check the head's log"


def decide_ending(code: int, *, fit: Optional[Fit], failure: Optional[Failure], last_lines: list[str]) -> Ending:
    """`fit`: the last one, None if there was none; `failure`: the failure policy's, if it ended that fit()."""
    ending = _decide(code, fit=fit, failure=failure, last_lines=last_lines)
    if code == 0 or isinstance(ending, Success) or ending.process_exit_code is not None:
        return ending
    if ending.class_ in _NOT_THE_SCRIPTS:
        return ending
    return replace(ending, process_exit_code=code if code > 0 else 128 - code)


def _decide(code: int, *, fit: Optional[Fit], failure: Optional[Failure], last_lines: list[str]) -> Ending:
    if fit is not None and fit.state == FAILED:
        return fit.failure or failure or Failure(FailureClass.APPLICATION, "ScriptFailed", _FAILED)
    if code == 0:
        if fit is None:
            return Failure(FailureClass.CONFIGURATION, "NoFit", _NO_FIT)
        if fit.state == RUNNING:
            return Failure(
                FailureClass.APPLICATION,
                "ScriptEnded",
                "trainer.entrypoint: the script exited while its fit() was still running",
            )
        return Success()
    if failure is not None:
        return failure
    message = f"trainer.entrypoint: the script {describe_exit(code)}{_place(fit)}"
    if last_lines:
        message += ":\n" + "\n".join(last_lines)
    if fit is None and last_lines and _PERMANENT.match(last_lines[-1]):
        return Failure(FailureClass.CONFIGURATION, "EntrypointNotUsable", message)
    return Failure(FailureClass.APPLICATION, "ScriptFailed", message)


def _place(fit: Optional[Fit]) -> str:
    if fit is None:
        return " before any fit()"
    return " in fit()" if fit.state == RUNNING else " after fit()"
