"""Exceptions raised on a worker when the user's code fails, and in Ray's controller when one of our checks fails.

Our own classes, because an exception class from the user's module cannot be unpickled in
Ray's controller, which does not have that module. Importable wherever the bundle is.
"""

from __future__ import annotations

import contextlib
from typing import Optional, Tuple

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.messages.exception_text import describe_exception, name_class
from railhead.driver.messages.rank_errors import RankErrorKind

_NOTE = "_railhead_note"


class TrainingError(Exception):
    """Something failed on one rank, or made it fail.

    Attributes:
        rank: the worker's; -1 when unknown. Of a hang, the rank for which the others wait.
        text: `Type: message (file, line n, in function)`.
        exit_code: of a rank that called sys.exit(), else None.
    """

    def __init__(self, kind: RankErrorKind, rank: int, text: str, exit_code: Optional[int] = None) -> None:
        super().__init__(f"rank {rank}: {text}" if rank >= 0 else text)
        self.kind = kind
        self.rank = rank
        self.text = text
        self.exit_code = exit_code

    def __reduce__(self) -> Tuple[object, ...]:
        return (type(self), (self.kind, self.rank, self.text, self.exit_code))


class AttemptFailed(Exception):
    """Ends the attempt; `failure` has the class and the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> Tuple[object, ...]:
        """Keeps what another process needs, which is only the failure: the derived classes, whose constructors differ,
        are of this one."""
        return (AttemptFailed, (self.failure,))


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


class CallbackRaised(AttemptFailed):
    """A user callback raised in Ray Train's controller; the message begins with its field."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureClass.APPLICATION, "CallbackRaised", message))


class Fenced(AttemptFailed):
    """A later attempt of this job has taken over the run; this one must no longer commit or delete anything."""

    def __init__(self, message: str) -> None:
        super().__init__(Failure(FailureClass.FENCED, "Fenced", message))


def note_exception(error: BaseException, noted: TrainingError) -> None:
    """Attaches our description to the user's exception: its traceback does not survive pickling."""
    # A class with slots, or one that rejects attributes.
    with contextlib.suppress(Exception):
        error.__dict__[_NOTE] = noted


def read_note(error: BaseException) -> Optional[TrainingError]:
    """Returns what `note_exception` attached, or None."""
    found = getattr(error, "__dict__", {}).get(_NOTE)
    if isinstance(found, TrainingError):
        return found
    return None


def build_training_error(kind: RankErrorKind, rank: int, error: BaseException) -> TrainingError:
    return TrainingError(kind, rank, describe_exception(error), read_exit_code(error))


def read_exit_code(error: BaseException) -> Optional[int]:
    """Returns the code with which Python exits for it."""
    if not isinstance(error, SystemExit):
        return None
    code = 0 if error.code is None else error.code
    if isinstance(code, int):
        # The kernel keeps these bits only: of sys.exit(256) it leaves 0, which is not the code of a failure.
        return (code & 0xFF) or None
    return 1


def explain_exception(error: BaseException, rank: int) -> TrainingError:
    """Returns our description of it, which it may have already. Never raises."""
    try:
        if isinstance(error, TrainingError):
            return error
        noted = read_note(error)
        if noted is None:
            return build_training_error(RankErrorKind.RAISED, rank, error)
        return TrainingError(noted.kind, rank, noted.text, noted.exit_code)
    except BaseException:
        return TrainingError(RankErrorKind.RAISED, rank, name_class(error))
