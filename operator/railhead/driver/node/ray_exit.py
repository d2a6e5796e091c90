"""Why `ray start` ended: which of its processes ended first, and how. Pure.

Ray prints the processes and then up to 200 lines of each one's log, most of them statistics.
"""

from __future__ import annotations

import re

from railhead.driver.describe import describe_exit

_LINES_LIMIT = 500  # characters
_KILLED = "-9"  # from outside: its log cannot tell why
_BEGINS = "Some Ray subprocesses exited unexpectedly:"
_ENDED = re.compile(r"(?: -- |^\s+)(\w+) \[exit code=(-?\d+)[^\n]*\]$", re.MULTILINE)
_ERROR = re.compile(r"^\[[^\]]+ [EFC] \d+ \d+\] .*$", re.MULTILINE)  # a line of Ray's C++ log, by its severity


def explain_ray_exit(code: int, output: str) -> str:
    """`code`: of `ray start`; `output`: all that it printed."""
    _, found, details = output.rpartition(_BEGINS)
    ended = _ENDED.findall(details) if found else []
    if not ended:
        return f"Ray's head exited with code {code}: {_join_last(output.splitlines())}"
    what = " and ".join(f"its process {name} {describe_exit(int(how))}" for name, how in ended)
    errors = _ERROR.findall(details) if any(how != _KILLED for _, how in ended) else []
    return f"Ray's head ended because {what}" + (f":\n{_join_last(errors[-1:])}" if errors else "")


def _join_last(lines: list[str]) -> str:
    """As many whole lines from the end as there is room for; of one that is longer, its beginning."""
    kept: list[str] = []
    for line in reversed(lines):
        if kept and sum(map(len, kept)) + len(line) > _LINES_LIMIT:
            break
        kept.insert(0, line[:_LINES_LIMIT])
    return "\n".join(kept)
