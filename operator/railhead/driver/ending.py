"""How an attempt ended: the value, its termination message, its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from railhead.contract.checkpoint import Checkpoint
from railhead.contract.exit_codes import (
    APPLICATION,
    CLASS_OF_CODE,
    CODE_OF_CLASS,
    CONFIGURATION,
    FENCED,
    HANG,
    INFRASTRUCTURE,
    TERMINATED,
)
from railhead.contract.exit_codes import SUCCEEDED as SUCCEEDED_CODE
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.driver.reporting.progress import Progress
from railhead.driver.train_controller.failure import Verdict


@dataclass(frozen=True)
class Ending:
    """`outcome` is Succeeded or a failure class."""

    outcome: str
    reason: str
    message: str

    @staticmethod
    def succeeded() -> Ending:
        return Ending(SUCCEEDED, "TrainingSucceeded", "")

    @staticmethod
    def configuration(reason: str, message: str) -> Ending:
        return Ending(CLASS_OF_CODE[CONFIGURATION], reason, message)

    @staticmethod
    def application(reason: str, message: str) -> Ending:
        return Ending(CLASS_OF_CODE[APPLICATION], reason, message)

    @staticmethod
    def infrastructure(reason: str, message: str) -> Ending:
        return Ending(CLASS_OF_CODE[INFRASTRUCTURE], reason, message)

    @staticmethod
    def fenced(message: str) -> Ending:
        return Ending(CLASS_OF_CODE[FENCED], "Fenced", message)

    @staticmethod
    def hang(message: str) -> Ending:
        return Ending(CLASS_OF_CODE[HANG], "ProgressDeadlineExceeded", message)

    @staticmethod
    def terminated() -> Ending:
        message = "the head was asked to end (SIGTERM); the run goes on from its last checkpoint"
        return Ending(CLASS_OF_CODE[TERMINATED], "Terminated", message)

    @staticmethod
    def from_verdict(verdict: Verdict) -> Ending:
        return Ending(verdict.failure_class, verdict.reason, verdict.message)

    @property
    def is_premature(self) -> bool:
        """Training may still go on, and is ended by the driver."""
        return self.exit_code in (TERMINATED, HANG)

    @property
    def exit_code(self) -> int:
        return SUCCEEDED_CODE if self.outcome == SUCCEEDED else CODE_OF_CLASS[self.outcome]


def build_outcome(ending: Ending, progress: Progress) -> Outcome:
    return Outcome(
        outcome=ending.outcome,
        reason=ending.reason,
        message=ending.message,
        checkpoint=Checkpoint.from_dict(progress.checkpoint),
        best_checkpoint=Checkpoint.from_dict(progress.best_checkpoint),
        metrics=progress.metrics,
        reports=progress.reports,
    )


def write_outcome(outcome: Outcome, file: Optional[str]) -> None:
    write_termination_message(outcome.to_json(), file)


def write_termination_message(text: str, file: Optional[str]) -> None:
    if file is None:
        return
    try:
        Path(file).write_text(text)
    except OSError as error:  # the exit code still says something
        print(f"railhead: the termination message could not be written: {error}", flush=True)
