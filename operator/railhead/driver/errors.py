"""What is raised on a worker when the user's code fails, and in Ray's controller when a check of ours does.

Values of our own, because an exception class of the user's module cannot be unpickled in
Ray's controller, which does not have that module. Importable wherever the bundle is.
"""

from __future__ import annotations

import contextlib
import pickle
import time
import traceback
from typing import Any, Optional

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.describe import describe_exception, name_class

_NOTE = "_railhead_note"
COPYING = "persist_current_checkpoint"  # of Ray Train's StorageContext


class TrainingError(Exception):
    """Something failed on one rank.

    Attributes:
        rank: of the worker; -1 when it is not known.
        text: `Type: message (file, line n, in function)`.
        time: seconds since the epoch, on the worker's clock; tells cause from consequence.
    """

    def __init__(self, rank: int, text: str, when: float) -> None:
        super().__init__(f"rank {rank}: {text}" if rank >= 0 else text)
        self.rank = rank
        self.text = text
        self.time = when

    def __reduce__(self) -> Any:
        return (type(self), (self.rank, self.text, self.time))


class TrainFunctionRaised(TrainingError):
    """train_func raised."""


class CheckpointNotWritten(TrainingError):
    """The run's storage did not take a checkpoint; train_func is not to blame."""


class EntrypointNotUsable(TrainingError):
    """trainer.trainFunc cannot be imported or called; another try would end the same way."""


class NotReturned(TrainingError):
    """The rank's thread has ended, and nothing says that the function returned."""


class CallbackRaised(Exception):
    """A callback of the user's raised in Ray Train's controller; the message begins with its field."""


class AttemptFailed(Exception):
    """Ends the attempt; `failure` says of which class, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> Any:
        return (_restore, (type(self), self.failure))


def _restore(kind: type[AttemptFailed], failure: Failure) -> AttemptFailed:
    """Out of a pickle, past the constructors of the derived classes."""
    error = kind.__new__(kind, failure.message)
    AttemptFailed.__init__(error, failure)
    return error


class JobRefused(AttemptFailed):
    """The job cannot run as it is configured; another try would end the same way.

    `reason`: CamelCase word for the status; `message`: a sentence that names the field and what to do.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(Failure(FailureClass.CONFIGURATION, reason, message))


class Unreachable(AttemptFailed):
    """Storage or data did not answer; they may do so at the next attempt."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(Failure(FailureClass.INFRASTRUCTURE, reason, message))


class Fenced(AttemptFailed):
    """A later attempt of this job has taken over the run; this one must not commit or delete anything more."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureClass.FENCED, "Fenced", message))


def note_exception(error: BaseException, noted: TrainingError) -> None:
    """Writes into the user's own exception what we say of it: its traceback does not travel."""
    with contextlib.suppress(Exception):  # of a class with slots, or one that refuses
        error.__dict__[_NOTE] = noted


def read_note(error: BaseException) -> Optional[TrainingError]:
    """That of `note_exception`, or None."""
    found = getattr(error, "__dict__", {}).get(_NOTE)
    return found if isinstance(found, TrainingError) else None


def choose_kind(error: BaseException) -> type:
    """What train_func's exception is, by where it comes from."""
    return CheckpointNotWritten if is_storage_failure(error) else TrainFunctionRaised


def is_storage_failure(error: BaseException) -> bool:
    """Whether Ray Train raised it while it copied a checkpoint into the storage."""
    return may_be_of_storage(error) and any(
        frame.name == COPYING for frame in traceback.extract_tb(error.__traceback__)
    )


def may_be_of_storage(error: BaseException) -> bool:
    """By its class. A local file that is not there is the user's: they have deleted what they reported."""
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


def is_portable(error: BaseException) -> bool:
    """Whether it comes out of a pickle as it went in: one whose __init__ takes more than it hands on does not."""
    try:
        return type(pickle.loads(cloudpickle_dumps(error))).__name__ == type(error).__name__
    except BaseException:  # whatever the user's __reduce__ raises
        return False


def cloudpickle_dumps(value: Any) -> bytes:
    """As Ray does it: a class of the user's script goes by value."""
    from ray import cloudpickle

    return bytes(cloudpickle.dumps(value))


def build_training_error(kind: type, rank: int, error: BaseException) -> TrainingError:
    built: TrainingError = kind(rank, describe_exception(error), time.time())
    return built


def explain_exception(error: BaseException, rank: int) -> TrainingError:
    """What we say of it. Never raises."""
    try:
        if isinstance(error, TrainingError):
            return error
        return build_training_error(choose_kind(error), rank, error)
    except BaseException:
        return TrainFunctionRaised(rank, name_class(error), time.time())
