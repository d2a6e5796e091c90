"""Marks by which a rank says in its own output where it begins and where it has ended.

A rank's output travels through files and Ray's log monitor, so the end of training is
known before its last lines have arrived. The mark is the last line of each stream: who has
seen it has seen all. It names the process, for a rank may live in several, one after the
other. It also tells which rank a file belongs to. No reader shows a mark.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Optional

BEGIN, END = "begin", "end"
_MARK = re.compile(r":railhead-mark:(begin|end):(\d+):([0-9a-z-]+):(out|err):")


@dataclass(frozen=True)
class Mark:
    """`kind` is BEGIN or END, `stream` out or err; `rest` is the line without the mark."""

    kind: str
    rank: int
    process: str
    stream: str
    rest: str


def name_process(node_id: str, pid: int) -> str:
    """A process of the Ray cluster: process ids alone repeat from pod to pod."""
    return f"{node_id[:16]}-{pid}"


def find_self() -> tuple[int, str]:
    """Rank and process of this worker of Ray Train."""
    import ray.train

    import ray

    process = name_process(ray.get_runtime_context().get_node_id(), os.getpid())
    return int(ray.train.get_context().get_world_rank()), process


def write_marks(kind: str, *, rank: int, process: str) -> None:
    """Past `print`, which Ray Train redirects into its logger."""
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        try:
            stream.flush()
            stream.write(f":railhead-mark:{kind}:{rank}:{process}:{name}:\n")
            stream.flush()
        except Exception:  # the user's code has closed or replaced it: there is nothing more to come
            pass


def find_mark(line: str) -> Optional[Mark]:
    """A mark may stand behind text: what the user's code printed last without a line's end."""
    if ":railhead-mark:" not in line:
        return None
    match = _MARK.search(line)
    if match is None:
        return None
    return Mark(match[1], int(match[2]), match[3], match[4], line[: match.start()] + line[match.end() :])
