"""The marks between which a rank's output stands in Ray's session files.

A rank's output passes through Ray's session files, one pair per process, and Ray's log monitor, so the end of training
is known before its last lines arrive. Each rank marks where its output begins and ends. The end mark is the last line
of each stream: once it has arrived, so has everything. A mark names the rank, to which the file belongs, and the
process, since a rank may run in several, one after the other. No reader shows a mark.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Optional

BEGIN = "begin"
END = "end"
_MARK = re.compile(r":railhead-mark:(begin|end):(\d+):([0-9a-z-]+):(out|err):")


@dataclass(frozen=True)
class Mark:
    """`kind` is BEGIN or END; `stream` is out or err; `rest` is the line without the mark."""

    kind: str
    rank: int
    process: str
    stream: str
    rest: str


def name_process(node_id: str, pid: int) -> str:
    """Identifies a process in the Ray cluster: process ids alone repeat across pods."""
    return f"{node_id[:16]}-{pid}"


def read_self() -> tuple[int, str]:
    """Returns rank and process of this worker of Ray Train."""
    import ray.train

    import ray

    process = name_process(ray.get_runtime_context().get_node_id(), os.getpid())
    return int(ray.train.get_context().get_world_rank()), process


def write_marks(kind: str, *, rank: int, process: str) -> None:
    """Writes a mark to each stream, without `print`, which Ray Train redirects to its logger."""
    for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
        try:
            stream.flush()
            stream.write(f":railhead-mark:{kind}:{rank}:{process}:{name}:\n")
            stream.flush()
        except Exception:
            # The user's code closed or replaced it: nothing more will come.
            pass


def find_mark(line: str) -> Optional[Mark]:
    """Finds the mark of a line, also after other text: what the user's code last printed without a newline."""
    if ":railhead-mark:" not in line:
        return None
    match = _MARK.search(line)
    if match is None:
        return None
    others = line[: match.start()] + line[match.end() :]
    return Mark(match[1], int(match[2]), match[3], match[4], others)
