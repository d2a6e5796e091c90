"""Describes an error of which only the printed text is there: where the user's code raised it, and its message.

Such are the error of a task of Ray, which is sent as its traceback, and that of the user's script.
"""

from __future__ import annotations

import re

from railhead.driver.messages.frames import choose_frame, describe_frame, read_printed_frame

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINKS = re.compile(
    r"^(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):$",
    re.MULTILINE,
)
_TASK = re.compile(r"ray::(.+?)\(\) \(pid=")
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
# What Ray Data adds about its own retries, below the user's message.
_ADVICE = re.compile(r"^(?:Failed to .* attempts \(|To change retry attempts)")
_WRAPPER = "UserCodeException"  # Ray Data's; the exception above it is the user's


def is_task_error(error: BaseException) -> bool:
    return "RayTaskError" in {kind.__name__ for kind in type(error).__mro__}


def describe_printed_error(text: str) -> str:
    """Returns `Type: message (file, line n, in function; task NAME)` of the last error.

    If that is Ray Data's wrapper, it is of the error before, which is the user's.
    """
    parts = _LINKS.split(_COLOUR.sub("", text))
    index = len(parts) - 1
    if index and _WRAPPER in "\n".join(_read_message(parts[index])).partition(":")[0]:
        index -= 1
    message = " ".join(" ".join(_read_message(parts[index])).split())
    place = _read_place(parts[index].splitlines())
    tasks = _TASK.findall("\n".join(parts[: index + 1]))
    where = "; ".join([*place, *([f"task {tasks[-1]}"] if tasks else [])])
    if where:
        return f"{message} ({where})"
    return message


def _read_message(part: str) -> list[str]:
    """Returns the lines below the last frame or the last task's name: the exception itself."""
    lines = part.strip("\n").splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if _FRAME.match(line) or _TASK.search(line):
            begin = number + 1
    # Below a frame is its source, with marks. A message may have lines with fewer spaces, as pydantic's has.
    while begin < len(lines) and lines[begin].startswith("    "):
        begin += 1
    return [line for line in lines[begin:] if not _ADVICE.match(line)]


def _read_place(lines: list[str]) -> list[str]:
    matches = [found for line in lines for found in [_FRAME.match(line)] if found]
    if not matches:
        return []
    frames = [read_printed_frame(*found.groups()) for found in matches]
    return [describe_frame(choose_frame(frames))]
