"""Copies the ranks' lines of this node to the worker pod's log.

The files of Ray's session record which actor a process became; only those of Ray Train's workers are shown. Nothing is
lost but the states of a progress bar in between: its last one is shown every few seconds, and when its line ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Callable, Optional, TextIO

from railhead.contract.callbacks import ignore
from railhead.driver.container.session_logs import WORKER_LOGS, LogFile, list_logs, read_new
from railhead.driver.messages.rank_marks import find_mark

PROGRESS_SECONDS = 10.0  # between two states of a progress bar that are shown
# Without news from a process that has ended and was no rank's: its file is forgotten.
ENDED_SECONDS = 60.0
# Bytes; a longer line is shown in pieces.
LINE_LIMIT = 64 * 1024
_RANK_ACTOR = ":actor_name:RayTrainWorker"


class LogTail:
    """Follows `temp/session_*/logs/worker-*`. One instance per node.

    `keep` gets each line that is shown, with its rank, None as long as the process has not told it; `on_end` is called
    when a rank's process has ended and its last lines were read.
    """

    def __init__(
        self,
        temp: Path,
        *,
        out: Optional[TextIO] = None,
        err: Optional[TextIO] = None,
        keep: Callable[[Optional[int], str], None] = ignore,
        on_end: Callable[[], None] = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._temp = temp
        self._keep = keep
        self._on_end = on_end
        self._sinks = {".out": out or sys.stdout, ".err": err or sys.stderr}
        self._files: dict[Path, LogFile] = {}
        self._ended: set[str] = set()  # names of files
        self._clock = clock

    def poll(self) -> bool:
        """Shows new lines; tells whether there was something to read. Skips what vanished."""
        is_news = False
        for path in list_logs(self._temp, WORKER_LOGS):
            sink = self._sinks.get(path.suffix)
            if sink is not None and path.name not in self._ended:
                state = self._files.setdefault(path, LogFile(read_at=self._clock()))
                is_news |= self._read(path, state, sink)
        return is_news

    def _read(self, path: Path, state: LogFile, sink: TextIO) -> bool:
        try:
            data = read_new(path, state)
        except OSError:
            return False
        if not data:
            self._look_for_end(path, state, sink)
            return False
        state.read_at = self._clock()
        lines = (state.rest + data).split(b"\n")
        state.rest = lines.pop()
        for line in lines:
            self._show(compute_last_state(line), state, sink)
        if b"\r" in state.rest:
            self._show_progress(state, sink)
        while len(state.rest) > LINE_LIMIT:
            self._show(state.rest[:LINE_LIMIT], state, sink)
            state.rest = state.rest[LINE_LIMIT:]
        sink.flush()
        return True

    def _look_for_end(self, path: Path, state: LogFile, sink: TextIO) -> None:
        """Forgets the file of a process that was no rank's, and tells once that a rank's process has ended."""
        is_old = self._clock() - state.read_at > ENDED_SECONDS
        if state.has_ended or not (state.is_rank or is_old) or _is_alive(path):
            return
        if state.is_rank:
            state.has_ended = True
            # Nothing completes it any more.
            if state.rest:
                self._show(compute_last_state(state.rest), state, sink)
                sink.flush()
                state.rest = b""
            self._on_end()
        else:
            self._ended.add(path.name)
            del self._files[path]

    def _show_progress(self, state: LogFile, sink: TextIO) -> None:
        """Keeps the last state only, which may be incomplete."""
        before, _, state.rest = state.rest.rpartition(b"\r")
        if before and self._clock() - state.shown_at >= PROGRESS_SECONDS:
            state.shown_at = self._clock()
            self._show(compute_last_state(before), state, sink)

    def _show(self, data: bytes, state: LogFile, sink: TextIO) -> None:
        line = data.decode(errors="replace")
        if line.startswith(_RANK_ACTOR):
            state.is_rank = True
            return
        if not state.is_rank or line.startswith((":job_id:", ":actor_name:", ":task_name:")):
            return
        mark = find_mark(line)
        if mark is not None:
            state.rank = mark.rank
            line = mark.rest
            if not line:
                return
        prefix = "" if state.rank is None else f"(rank {state.rank}) "
        sink.write(f"{prefix}{line}\n")
        self._keep(state.rank, line)


def _is_alive(path: Path) -> bool:
    """Returns whether the process still lives whose id ends Ray's name of the file."""
    return Path("/proc", path.stem.rpartition("-")[2]).exists()


def compute_last_state(line: bytes) -> bytes:
    """Returns what a terminal would show of a line that was written over itself."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")
