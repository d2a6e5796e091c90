"""Writes the driver's own lines."""

from __future__ import annotations

import contextlib
import time
from typing import Iterator

from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.redaction import redact

_BEGAN = time.monotonic()


def log(text: str) -> None:
    """Prints a line of the driver's log, with the seconds since this process began."""
    # The user's code may have closed a rank's output.
    with contextlib.suppress(OSError, ValueError):
        print(f"railhead {time.monotonic() - _BEGAN:6.1f}s  {redact(text)}", flush=True)


@contextlib.contextmanager
def never_raises(task: str) -> Iterator[None]:
    """Makes an exception a line in the log, which names the task: a run is as good without it."""
    try:
        yield
    except Exception as error:
        log(f"cannot {task}: {describe_exception(error)}")
