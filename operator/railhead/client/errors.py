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


MEANINGS = {
    ExitCode.DONE: "done; for `wait`: the job got there",
    ExitCode.FAILED: "the command failed; for `wait` and `local run`: the job failed or was deleted",
    ExitCode.USAGE: "the arguments are wrong, or a question was answered with no",
    ExitCode.NOT_FOUND: "the job, its namespace or the resource TrainJob does not exist",
    ExitCode.DENIED: "the API server or the object store does not know or does not permit the user",
    ExitCode.UNREACHABLE: "the kubeconfig is not usable, or the API server does not respond",
    ExitCode.REFUSED: "the API server or Railhead refuses the change; the message says why",
    ExitCode.TIMED_OUT: "the time of --timeout has passed",
    ExitCode.INTERRUPTED: "Ctrl-C; no command changes the job then",
}


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
