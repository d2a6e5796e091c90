"""The cause of an error that Ray brings from another process, such as a task of Ray Data. Pure.

Ray hands over a text with the tracebacks of all processes on the way, one below the other.
The user's own exception may be there only: its class is not sent along.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINKS = re.compile(
    r"^(?:The above exception was the direct cause of the following exception"
    r"|During handling of the above exception, another exception occurred):$",
    re.MULTILINE,
)
_TASK = re.compile(r"ray::(.+?)\(\) \(pid=")
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$')
# What Ray Data says about its own tries, below the user's words.
_ADVICE = re.compile(r"^(?:Failed to .* attempts \(|To change retry attempts)")
_WRAPPER = "UserCodeException"  # Ray Data's; the exception above it is the user's


def is_task_error(error: BaseException) -> bool:
    return "RayTaskError" in {kind.__name__ for kind in type(error).__mro__}


def describe_task_error(text: str) -> str:
    """`Type: message (file, line n, in function; task NAME)` of what went wrong first."""
    parts = _LINKS.split(_COLOUR.sub("", text))
    index = len(parts) - 1
    if index and _WRAPPER in "\n".join(_find_words(parts[index])).partition(":")[0]:
        index -= 1
    words = " ".join(" ".join(_find_words(parts[index])).split())
    place = _find_place(parts[index].splitlines())
    tasks = _TASK.findall("\n".join(parts[: index + 1]))
    where = "; ".join([*place, *([f"task {tasks[-1]}"] if tasks else [])])
    return f"{words} ({where})" if where else words


def _find_words(part: str) -> list[str]:
    """The lines below the last frame or the last task's name: the exception itself."""
    lines = part.strip("\n").splitlines()
    begin = 0
    for number, line in enumerate(lines):
        if line.startswith("  ") or _TASK.search(line):
            begin = number + 1
    return [line for line in lines[begin:] if not _ADVICE.match(line)]


def _find_place(lines: list[str]) -> list[str]:
    frames = [found for line in lines for found in [_FRAME.match(line)] if found]
    if not frames:
        return []
    file, line, function = frames[-1].groups()
    return [f"{file.rpartition('/')[2]}, line {line}, in {function}"]
