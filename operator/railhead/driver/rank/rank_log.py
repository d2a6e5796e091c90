"""A log that the user's code cannot close."""

from __future__ import annotations

import contextlib
import logging
import os
import sys


def keep_logging_from_raising() -> None:
    """Silences handlers whose stream the user's code has closed: else an error that Ray logs then would be lost."""
    original = logging.Handler.handleError
    if original.__module__ == __name__:
        return

    def handle_error(self: logging.Handler, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            original(self, record)

    setattr(logging.Handler, "handleError", handle_error)  # noqa: B010


class OwnLog:
    """Writes to this process's log, bypassing `sys.stderr`, which user code may close or replace. Never raises."""

    def __init__(self) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.dup(2)
            self._file = os.fstat(self._descriptor)

    def write(self, text: str) -> None:
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            data = text.encode(errors="backslashreplace") if self._is_ours() else b""
            while data:
                data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.close(self._descriptor)

    def _is_ours(self) -> bool:
        """Returns whether it is still our file: the user's code may have closed all descriptors and reused this
        number."""
        return self._descriptor >= 0 and os.path.samestat(self._file, os.fstat(self._descriptor))
