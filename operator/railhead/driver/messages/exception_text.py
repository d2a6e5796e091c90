"""Writes the texts that others may read: descriptions of exit codes and exceptions, and the driver's log. None has a
credential, and nothing in them fails.

The exceptions are the user's: the text may contain characters that cannot be encoded, and `__str__` may raise. The
texts of libraries contain URLs, headers and values of variables. Every exception's text has its credentials hidden, and
so has each line of the driver's log, and each message of an outcome or a report that is built from what other programs
print.

Ray passes an error on from another process, such as a Ray Data task, as a text with the tracebacks of all processes
involved, one below the other. The user's own exception may appear only in that text: its class is not sent along.
"""

from __future__ import annotations

import traceback

from railhead.contract.outcome import shorten_middle
from railhead.driver.messages.exit_words import read_exit_words
from railhead.driver.messages.frames import choose_frame, describe_frame
from railhead.driver.messages.printed_error import describe_printed_error, is_task_error
from railhead.driver.messages.redaction import make_printable, redact

TEXT_LIMIT = 4000  # characters per exception; a message with a tensor in it has millions
TRACEBACK_LIMIT = 64_000
PARTS = 3  # of an exception group, in a message
PART_CHARS = 400
LONGEST_CHAIN = 20
_NAME = type.__dict__["__name__"].__get__  # bypasses a metaclass


def read_text(error: BaseException) -> str:
    """Returns `str(error)`, clean; empty when `str` raises."""
    try:
        return redact(str(error))
    except BaseException:
        return ""


def name_class(error: BaseException) -> str:
    return make_printable(_NAME(type(error)))


def describe_exception(error: BaseException) -> str:
    """Describes an exception as `Type: message (file, line n, in function)`, with the place in the user's code.

    What it was raised from, and the exceptions of a group, follow.
    """
    try:
        text = redact(_describe(error))
    except BaseException:
        text = f"{name_class(error)}: {read_text(error)}"
    return shorten_middle(text, TEXT_LIMIT)


def _describe(error: BaseException) -> str:
    if is_task_error(error):
        return describe_printed_error(str(error))
    text = _describe_itself(error)
    reasons = [_write_briefly(each) for each in _list_parts(error)]
    if error.__cause__ is not None:
        reasons.append(f"caused by {_write_briefly(_find_root(error.__cause__))}")
    # Some libraries, and some of our own parts, quote the cause in the message.
    return "; ".join([text, *(reason for reason in reasons if not _is_quoted(reason, text))])


def _is_quoted(reason: str, text: str) -> bool:
    message = reason.partition(": ")[2]
    return bool(message) and message in text


def _list_parts(error: BaseException) -> list[BaseException]:
    """Returns the first exceptions of an ExceptionGroup, whose own message says only how many there are."""
    # By its name: under Python 3.10 a package brings the class.
    if "BaseExceptionGroup" not in {kind.__name__ for kind in type(error).__mro__}:
        return []
    return list(getattr(error, "exceptions", ()))[:PARTS]


def _find_root(error: BaseException) -> BaseException:
    """Returns the first error of a chain of `raise ... from ...`: what the others were raised from."""
    # Python accepts a chain that is a circle, so this must not run until an error without a cause.
    for _ in range(LONGEST_CHAIN):
        if error.__cause__ is None:
            break
        error = error.__cause__
    return error


def _write_briefly(error: BaseException) -> str:
    """Returns `Type: message`, without a place."""
    if is_task_error(error):
        text = describe_printed_error(str(error))
    else:
        text = "".join(traceback.format_exception_only(type(error), error))
    return shorten_middle(" ".join(text.split()), PART_CHARS)


def _describe_itself(error: BaseException) -> str:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    words = read_exit_words(error)
    if words:
        text = f'{text}, after "{words}" on standard error'
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, SyntaxError):
        return " ".join(text.split())
    return f"{text} ({describe_frame(choose_frame(frames))})"


def format_traceback(error: BaseException) -> str:
    """Formats an exception as Python prints it, including the causes."""
    try:
        text = redact("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    except BaseException:
        text = describe_exception(error) + "\n"
    return shorten_middle(text, TRACEBACK_LIMIT)
