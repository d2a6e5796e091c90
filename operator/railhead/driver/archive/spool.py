"""The lines of one pod, without credentials and compressed, in segments on its own disk until they are uploaded.

What the disk cannot take is lost, and nothing else is: no caller waits for the storage, and none gets an error.
"""

from __future__ import annotations

import gzip
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from railhead.driver.archive.archive_layout import SEGMENTS, describe_gap, find_dropped, name_segment
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.redaction import redact
from railhead.driver.storage.path_folder import FILE_MODE, FOLDER_MODE

MEMBER_BYTES = 64 * 1024  # of lines that are compressed together


@dataclass
class _Source:
    """The segment that is being written, and the lines that come next: their total size in bytes, without newlines."""

    number: int = 0
    lines: list[str] = field(default_factory=list)
    size: int = 0


class Spool:
    """The files of one pod; `limit`: bytes of each source. Its methods may be called from any thread.

    Attributes:
        folder: where the files are, under the names of `archive_layout.name_segment`.
        problem: why lines were lost last, or an empty string. `add` cannot log it: it gets the log.
    """

    def __init__(self, folder: Path, writer: str, *, limit: int, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._writer = writer
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._sizes: dict[str, int] = {}
        self.problem = ""

    def has(self, source: str) -> bool:
        return source in self._sources

    def add(self, source: str, line: str) -> None:
        """Keeps a line with the time at which it was read, in UTC, as in `kubectl logs --timestamps`."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        with self._lock:
            state = self._sources.setdefault(source, _Source())
            state.lines.append(f"{stamp} {line}")
            state.size += len(state.lines[-1])
            if state.size >= MEMBER_BYTES:
                self._write(source, state)

    def write_all(self) -> dict[str, int]:
        """Returns the size of each file in bytes, with all lines so far."""
        with self._lock:
            for source, state in self._sources.items():
                self._write(source, state)
            return dict(self._sizes)

    def _write(self, source: str, state: _Source) -> None:
        lines = state.lines
        # Forgotten even if the disk does not take them: memory must not grow instead.
        state.lines = []
        state.size = 0
        if not lines:
            return
        try:
            name = name_segment(source, self._writer, state.number)
            self._append(name, "\n".join(lines))
            if self._sizes[name] * SEGMENTS >= self._limit:
                state.number += 1
                self._drop(source, find_dropped(state.number))
        except OSError as error:
            self.problem = describe_exception(error)

    def _append(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        data = gzip.compress(f"{redact(text)}\n".encode())
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE), "wb") as file:
            # A full disk may have left half a member.
            file.truncate(self._sizes.get(name, 0))
            file.write(data)
        self._sizes[name] = self._sizes.get(name, 0) + len(data)

    def _drop(self, source: str, number: Optional[int]) -> None:
        if number is None:
            return
        name = name_segment(source, self._writer, number)
        (self.folder / name).unlink()
        del self._sizes[name]
        if number == find_dropped(SEGMENTS):
            self._append(name, describe_gap(self._limit))
