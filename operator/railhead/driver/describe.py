"""Describes exit codes, and exceptions in such a way that nothing in them can make the description fail.

The exceptions are the user's: the text may contain characters that cannot be encoded, and `__str__` may raise.
"""

from __future__ import annotations

import os
import signal
import traceback
from pathlib import PurePath

from railhead.contract.outcome import shorten_middle
from railhead.driver.redaction import redact
from railhead.driver.task_error import describe_task_error, is_task_error

TEXT_LIMIT = 4000  # characters per exception; a message with a tensor in it has millions
TRACEBACK_LIMIT = 64_000
_NAME = type.__dict__["__name__"].__get__  # bypasses a metaclass


def make_printable(text: str) -> str:
    """Escapes what cannot be encoded, such as one half of a surrogate pair."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def clean(text: str) -> str:
    """Printable and without credentials: for texts that others read."""
    return make_printable(redact(text, os.environ))


def read_text(error: BaseException) -> str:
    """`str(error)`, clean; empty when `str` raises."""
    try:
        return clean(str(error))
    except BaseException:
        return ""


def name_class(error: BaseException) -> str:
    return make_printable(_NAME(type(error)))


def describe_exception(error: BaseException) -> str:
    """`Type: message (file, line n, in function)`, with the location of the innermost frame."""
    try:
        text = clean(_describe(error))
    except BaseException:
        text = f"{name_class(error)}: {read_text(error)}"
    return shorten_middle(text, TEXT_LIMIT)


def _describe(error: BaseException) -> str:
    if is_task_error(error):
        return describe_task_error(str(error))
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return " ".join(text.split())
    last = frames[-1]
    return f"{text} ({PurePath(last.filename).name}, line {last.lineno}, in {last.name})"


def format_traceback(error: BaseException) -> str:
    """As Python prints it, including the causes."""
    try:
        text = clean("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except BaseException:
        text = describe_exception(error) + "\n"
    return shorten_middle(text, TRACEBACK_LIMIT)


def describe_exit(code: int) -> str:
    """Of a process in the head pod; `code` as Popen has it."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", as happens when the head pod runs out of memory (spec.head.resources)" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory}"
