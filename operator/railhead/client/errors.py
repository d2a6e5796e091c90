"""What a command cannot do, with its exit code."""

from __future__ import annotations

from enum import IntEnum

from railhead.kube.errors import Conflict, KubeError, RetryAfter


class ExitCode(IntEnum):
    """The exit codes of all commands; scripts may rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    UNREACHABLE = 5
    REFUSED = 6
    TIMED_OUT = 7
    INTERRUPTED = 130


class ClientError(Exception):
    """A message for the user, and the exit code of the command."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def explain_error(error: KubeError, doing: str) -> ClientError:
    """Returns what the API server's answer means for a user; `doing` completes "cannot ..."."""
    if error.status in (401, 403):
        remedy = "log in again" if error.status == 401 else "ask an administrator for the right"
        return ClientError(f"cannot {doing}: {error.message}; {remedy}", ExitCode.DENIED)
    if error.status == 404:
        return ClientError(f"cannot {doing}: {error.message}", ExitCode.NOT_FOUND)
    if isinstance(error, RetryAfter):
        message = f"cannot {doing}: no answer from the API server ({error.message or error.reason}); try again"
        return ClientError(message, ExitCode.UNREACHABLE)
    if isinstance(error, Conflict) and error.reason == "AlreadyExists":
        return ClientError(f"cannot {doing}: {error.message}; choose another name", ExitCode.REFUSED)
    return ClientError(f"cannot {doing}: {error.message or error.reason}", ExitCode.REFUSED)
