"""What a command cannot do, with its exit code."""

from __future__ import annotations

from enum import IntEnum


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
