"""Exceptions raised on a worker when the user's code fails, and in Ray's controller when one of our checks fails.

Our own classes, because an exception class from the user's module cannot be unpickled in
Ray's controller, which does not have that module. Importable wherever the bundle is.
"""

from __future__ import annotations

import contextlib
import traceback
from typing import Any, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.describe import describe_exception, name_class

_NOTE = "_railhead_note"
COPYING, LOOKING = "persist_current_checkpoint", "_check_validation_file"  # methods of Ray Train's StorageContext


class TrainingError(Exception):
    """Something failed on one rank.

    Attributes:
        rank: the worker's; -1 when unknown.
        text: `Type: message (file, line n, in function)`.
        exit_code: of a rank that called sys.exit(), else None.
    """

    def __init__(self, rank: int, text: str, exit_code: Optional[int] = None) -> None:
        super().__init__(f"rank {rank}: {text}" if rank >= 0 else text)
        self.rank = rank
        self.text = text
        self.exit_code = exit_code

    def __reduce__(self) -> Any:
        return (type(self), (self.rank, self.text, self.exit_code))


class TrainFunctionRaised(TrainingError):
    """train_func raised."""


class CheckpointNotWritten(TrainingError):
    """A checkpoint could not be written to the run's storage; train_func is not at fault."""


class EntrypointNotUsable(TrainingError):
    """trainer.trainFunc cannot be imported or called; a retry would fail the same way."""


class NotReturned(TrainingError):
    """The rank's thread ended without any sign that the function returned."""


class Unfenced(TrainingError):
    """Ray Train's controller has not shown that it runs our callbacks, and with them the fence."""


class Stuck(TrainingError):
    """Training reported nothing for spec.progressDeadlineSeconds; `rank`: the one for which the others wait, or -1."""


class Stepless(TrainingError):
    """No rank made a step for long, and spec.hangPolicy is Restart; `rank` as in `Stuck`."""


class CallbackRaised(Exception):
    """A user callback raised in Ray Train's controller; the message begins with its field."""


class AttemptFailed(Exception):
    """Ends the attempt; `failure` has the class and the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> Any:
        return (_restore, (type(self), self.failure))


def _restore(kind: type[AttemptFailed], failure: Failure) -> AttemptFailed:
    """Unpickles, bypassing the constructors of the derived classes."""
    error = kind.__new__(kind, failure.message)
    AttemptFailed.__init__(error, failure)
    return error


class JobRefused(AttemptFailed):
    """The job cannot run as configured; a retry would fail the same way.

    `reason`: CamelCase, for the status; `message`: a sentence that names the field and what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(Failure(FailureClass.CONFIGURATION, reason, message))


class Unreachable(AttemptFailed):
    """Storage or data did not respond; the next attempt may reach them."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(Failure(FailureClass.INFRASTRUCTURE, reason, message))


class Fenced(AttemptFailed):
    """A later attempt of this job has taken over the run; this one must no longer commit or delete anything."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureClass.FENCED, "Fenced", message))


def note_exception(error: BaseException, noted: TrainingError) -> None:
    """Attaches our description to the user's exception: its traceback does not survive pickling."""
    with contextlib.suppress(Exception):  # a class with slots, or one that rejects attributes
        error.__dict__[_NOTE] = noted


def read_note(error: BaseException) -> Optional[TrainingError]:
    """What `note_exception` attached, or None."""
    found = getattr(error, "__dict__", {}).get(_NOTE)
    return found if isinstance(found, TrainingError) else None


def choose_kind(error: BaseException) -> type:
    """The class for train_func's exception, by its origin."""
    return CheckpointNotWritten if is_storage_failure(error) else TrainFunctionRaised


def is_storage_failure(error: BaseException) -> bool:
    """Whether Ray Train raised it while copying a checkpoint to storage, or because it does not see the storage."""
    functions = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    return COPYING in functions and (LOOKING in functions or may_be_of_storage(error))


def may_be_of_storage(error: BaseException) -> bool:
    """Judged by its class. A missing local file is the user's fault: they deleted what they reported."""
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def build_training_error(kind: type, rank: int, error: BaseException) -> TrainingError:
    built: TrainingError = kind(rank, describe_exception(error), read_exit_code(error))
    return built


def read_exit_code(error: BaseException) -> Optional[int]:
    """As Python exits with it."""
    if not isinstance(error, SystemExit):
        return None
    code = 0 if error.code is None else error.code
    return (code & 0xFF) or None if isinstance(code, int) else 1


def explain_exception(error: BaseException, rank: int) -> TrainingError:
    """Our description of it. Never raises."""
    try:
        if isinstance(error, TrainingError):
            return error
        return build_training_error(choose_kind(error), rank, error)
    except BaseException:
        return TrainFunctionRaised(rank, name_class(error))
