"""What is said of an exception: built so that nothing in the exception can make it fail.

An exception is the user's: its text may hold what no encoding takes, and its `__str__` may raise.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath

from railhead.contract.outcome import shorten_middle
from railhead.driver.task_error import describe_task_error, is_task_error

TEXT_LIMIT = 4000  # characters of one exception; a message that holds a tensor has millions
TRACEBACK_LIMIT = 64_000
_NAME = type.__dict__["__name__"].__get__  # past a metaclass


def make_printable(text: str) -> str:
    """With escapes for what no encoding takes, such as one half of a surrogate pair."""
    return str.encode(text, "utf-8", "backslashreplace").decode("utf-8")


def read_text(error: BaseException) -> str:
    """`str(error)`, printable; empty when it has none that can be read."""
    try:
        return make_printable(str(error))
    except BaseException:
        return ""


def name_class(error: BaseException) -> str:
    return make_printable(_NAME(type(error)))


def describe_exception(error: BaseException) -> str:
    """`Type: message (file, line n, in function)`, where the place is the innermost frame."""
    try:
        text = make_printable(_describe(error))
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
    """As Python prints it, with the causes."""
    try:
        text = make_printable("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except BaseException:
        text = describe_exception(error) + "\n"
    return shorten_middle(text, TRACEBACK_LIMIT)
