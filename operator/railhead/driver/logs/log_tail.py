"""A worker pod's own log: the output of the ranks on this node, from Ray's session files.

Ray writes one pair of files per process and records in them which actor the process became.
Shows only those of Ray Train's workers.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, TextIO

from railhead.driver.logs import marks

_RANK_ACTOR = ":actor_name:RayTrainWorker"
_READ_LIMIT = 1 << 20  # bytes per file and poll


@dataclass
class _File:
    """`rest`: an incomplete last line; `is_rank`: the process is one of Ray Train's workers."""

    offset: int = 0
    rest: bytes = b""
    is_rank: bool = False
    rank: Optional[int] = None


class LogTail:
    """Follows `temp/session_*/logs/worker-*`. One instance per node."""

    def __init__(self, temp: Path, *, out: Optional[TextIO] = None, err: Optional[TextIO] = None) -> None:
        self._temp = temp
        self._sinks = {".out": out or sys.stdout, ".err": err or sys.stderr}
        self._files: dict[Path, _File] = {}

    def poll(self) -> None:
        """Shows new lines. Skips a file that vanished."""
        for path in sorted(self._temp.glob("session_2*/logs/worker-*")):
            sink = self._sinks.get(path.suffix)
            if sink is not None:
                self._read(path, self._files.setdefault(path, _File()), sink)

    def _read(self, path: Path, state: _File, sink: TextIO) -> None:
        try:
            if path.stat().st_size == state.offset:
                return
            with open(path, "rb") as file:
                file.seek(state.offset)
                data = file.read(_READ_LIMIT)
        except OSError:
            return
        state.offset += len(data)
        lines = (state.rest + data).split(b"\n")
        state.rest = lines.pop()
        for line in lines:
            self._show(line.decode(errors="replace"), state, sink)
        sink.flush()

    def _show(self, line: str, state: _File, sink: TextIO) -> None:
        if line.startswith(_RANK_ACTOR):
            state.is_rank = True
            return
        if not state.is_rank or line.startswith((":job_id:", ":actor_name:", ":task_name:")):
            return
        mark = marks.find_mark(line)
        if mark is not None:
            state.rank = mark.rank
            line = mark.rest
            if not line:
                return
        prefix = "" if state.rank is None else f"(rank {state.rank}) "
        sink.write(f"{prefix}{line}\n")
