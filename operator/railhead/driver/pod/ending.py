"""How an attempt ended, as a Success or a Failure; its exit code and its termination message."""

from __future__ import annotations

import os
from dataclasses import dataclass
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


def find_exit_code(ending: Ending) -> int:
    if isinstance(ending, Failure):
        return ending.class_.exit_code
    return SUCCEEDED_CODE


def build_outcome(
    ending: Ending, progress: Optional[Progress] = None, restart: Optional[RestartInPlace] = None
) -> Outcome:
    latest = progress or Progress()
    failure = ending if isinstance(ending, Failure) else None
    if failure:
        outcome = failure.class_.value
    else:
        outcome = SUCCEEDED
    reason = "TrainingSucceeded"
    if failure:
        reason = failure.reason
    process_exit_code = None
    if failure:
        process_exit_code = failure.process_exit_code
    suspect_pod = ""
    if failure:
        suspect_pod = failure.suspect_pod
    restarts = 0
    if restart:
        restarts = restart.number
    charged_restarts = 0
    if restart:
        charged_restarts = restart.charged
    return Outcome(
        outcome=outcome,
        reason=reason,
        message=ending.message,
        checkpoint=latest.checkpoint,
        best_checkpoint=latest.best_checkpoint,
        metrics=latest.metrics,
        reports=latest.reports,
        process_exit_code=process_exit_code,
        suspect_pod=suspect_pod,
        restarts=restarts,
        charged_restarts=charged_restarts,
    )


def write_termination_message(text: str, file: Optional[str]) -> None:
    if file is not None:
        with never_raises("write the termination message"):  # the exit code still carries the failure class
            Path(file).write_text(text)


def end_process(failure: Failure, termination_message: Optional[str]) -> NoReturn:
    """Ends a pod that cannot begin; the failure is its termination message, its last line and its exit code."""
    write_termination_message(build_outcome(failure).to_json(), termination_message)
    log(f"{failure.class_}: {failure.message}")
    os._exit(failure.class_.exit_code)
