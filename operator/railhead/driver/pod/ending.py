"""How an attempt ended, as a Success or a Failure; its exit code and its termination message."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Optional, Union

from railhead.contract.failure import SUCCEEDED_CODE, Failure
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import RestartInPlace
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.log import log, never_raises


@dataclass(frozen=True)
class Success:
    """The training function returned on every rank, in this attempt or as `message` says."""

    message: str = ""


Ending = Union[Success, Failure]


def choose_exit_code(ending: Ending) -> int:
    if isinstance(ending, Failure):
        return ending.class_.exit_code
    return SUCCEEDED_CODE


def build_outcome(
    ending: Ending, progress: Optional[Progress] = None, restart: Optional[RestartInPlace] = None
) -> Outcome:
    latest = progress or Progress()
    outcome = Outcome(
        outcome=SUCCEEDED,
        reason="TrainingSucceeded",
        message=ending.message,
        checkpoint=latest.checkpoint,
        best_checkpoint=latest.best_checkpoint,
        metrics=latest.metrics,
        reports=latest.reports,
    )
    if restart:
        outcome = replace(outcome, restarts=restart.number, charged_restarts=restart.charged)
    if not isinstance(ending, Failure):
        return outcome
    return replace(
        outcome,
        outcome=ending.class_.value,
        reason=ending.reason,
        process_exit_code=ending.process_exit_code,
        suspect_pod=ending.suspect_pod,
    )


def write_termination_message(text: str, file: Optional[str]) -> None:
    if file is not None:
        # The exit code still carries the failure class.
        with never_raises("write the termination message"):
            Path(file).write_text(text)


def end_process(failure: Failure, termination_message: Optional[str]) -> NoReturn:
    """Ends a pod that cannot begin; the failure is its termination message, its last line and its exit code."""
    write_termination_message(build_outcome(failure).to_json(), termination_message)
    log(f"{failure.class_}: {failure.message}")
    os._exit(failure.class_.exit_code)
