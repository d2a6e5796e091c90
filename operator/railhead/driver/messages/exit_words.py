"""Quotes what a process wrote to standard error before the user's code called sys.exit().

The exception has only the exit code; argparse and others say on standard error why. In Ray's workers that is a file of
the session, whose end is read. In the head it may be a pipe, so the head's stream hands over each line (`keep_line`).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections import deque
from typing import Iterator, Optional, Tuple

from railhead.contract.outcome import shorten_middle
from railhead.driver.messages.rank_marks import find_mark
from railhead.driver.messages.redaction import redact

LINES = 6
CHARS_LIMIT = 500
TAIL_BYTES = 64 * 1024
_NOTE = "_railhead_exit_words"
STANDARD_ERROR = "/proc/self/fd/2"
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_kept: deque[str] = deque(maxlen=LINES)


def keep_line(line: str) -> None:
    """Remembers a line that this process has written to standard error."""
    _kept.append(line)


@contextlib.contextmanager
def note_exit_words() -> Iterator[None]:
    """Lets the description of a SystemExit quote what was written to standard error in this context."""
    _kept.clear()
    began = _find_file()
    try:
        yield
    except SystemExit as error:
        # A text says why by itself, and 0 is no failure.
        if isinstance(error.code, int) and error.code:
            with contextlib.suppress(BaseException):
                setattr(error, _NOTE, pick_last_lines(_read_since(began)))
        raise


def read_exit_words(error: BaseException) -> str:
    """Returns what `note_exit_words` has noted, or an empty string."""
    words = getattr(error, _NOTE, "")
    if isinstance(words, str):
        return words
    return ""


def pick_last_lines(text: str) -> str:
    """Returns the last lines as one, without credentials, marks, colours and overwritten states of progress bars."""
    lines = (" ".join(clean_line(line).split()) for line in text.split("\n"))
    last = "; ".join([line for line in lines if line][-LINES:])
    # In this order: a part of a credential would not be recognised as one.
    return shorten_middle(redact(last), CHARS_LIMIT)


def clean_line(line: str) -> str:
    """Returns what a terminal would show of it, without the space at its end."""
    mark = find_mark(line)
    if mark is not None:
        line = mark.rest
    states = (state.rstrip() for state in reversed(_COLOUR.sub("", line).split("\r")))
    return next((state for state in states if state), "")


def _find_file() -> Optional[Tuple[int, int, int]]:
    """Returns device, inode and size of the file behind standard error; None if it is no file."""
    with contextlib.suppress(OSError):
        found = os.stat(STANDARD_ERROR)
        if stat.S_ISREG(found.st_mode):
            return found.st_dev, found.st_ino, found.st_size
    return None


def _read_since(began: Optional[Tuple[int, int, int]]) -> str:
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    if _kept:
        return "\n".join(_kept)
    now = _find_file()
    # The user's code may have put another file there.
    if began is None or now is None or now[:2] != began[:2]:
        return ""
    with open(STANDARD_ERROR, "rb") as file:
        file.seek(max(began[2], now[2] - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode(errors="replace")
