"""Reads a run's folder by a process in a pod that mounts it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from operator import attrgetter

from railhead.client.cluster.child_process import parse_answer, read_all, run_process
from railhead.client.exit_codes import ClientError
from railhead.client.run import folder_program
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.run_files import RunFile, is_plain
from railhead.contract.text import clean_line

START = (
    "import json,sys;r=json.loads(sys.stdin.readline());g={'__name__':'railhead'};exec(r['program'],g);"
    "g['main'](r['request'])"
)
ARGUMENTS = ("-I", "-S", "-c", START)
LISTING_BYTES = 32 << 20


@dataclass(frozen=True)
class ProcessFiles:
    """A folder that another process reads.

    Attributes:
        command: starts Python, on this machine or through kubectl in a pod.
    """

    place: str
    root: str
    command: tuple[str, ...]

    async def find(self, names: Sequence[str]) -> list[RunFile]:
        async with self._start({"root": self.root, "list": [*names], "send": [], "check": []}) as output:
            data = await read_all(output, LISTING_BYTES, self.place)
        return parse_listing(data, names, self.place)

    async def stream(self, files: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
        wanted = [(file.name, file.size) for file in files if file.size]
        if not wanted:
            return
        async with self._start({"root": self.root, "list": [], "send": wanted, "check": []}) as output:
            for file in files:
                left = file.size
                while left:
                    chunk = await output.read(min(left, 1 << 20))
                    if not chunk:
                        break
                    left -= len(chunk)
                    yield file, chunk
                if left:
                    # The process says why, else bytes are missing.
                    break
            else:
                return
        raise ClientError(f"{self.place} has sent too few bytes of {clean_line(file.name)}; try again")

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        wanted = [(file.name, file.size) for file in files]
        if not wanted:
            return []
        async with self._start({"root": self.root, "list": [], "send": [], "check": wanted}) as output:
            return parse_checks(await read_all(output, LISTING_BYTES, self.place), len(wanted), self.place)

    def _start(self, request: folder_program.FolderRequest) -> AbstractAsyncContextManager[asyncio.StreamReader]:
        line = json.dumps({"program": inspect.getsource(folder_program), "request": request})
        return run_process((*self.command, *ARGUMENTS), f"cannot read {self.place}", line)


def parse_listing(data: bytes, names: Sequence[str], place: str) -> list[RunFile]:
    """Returns the files of a listing from a pod. Raises ClientError if it is anything but what was asked for."""
    found = parse_answer(list[tuple[str, int, float]], data, f"{place} did not return a list of files")
    return check_listing([RunFile(*each) for each in found], names, place)


def parse_checks(data: bytes, count: int, place: str) -> list[FileCheck]:
    """Returns the answer of a pod. Raises ClientError if it is anything but that many checks."""
    problem = f"{place} did not return a list of {count} checks"
    found = parse_answer(list[FileCheck], data, problem)
    if len(found) != count:
        raise ClientError(problem)
    return found


def check_listing(files: Sequence[RunFile], names: Sequence[str], place: str) -> list[RunFile]:
    """Returns the files by name. Raises ClientError for a name that was not asked for or leads elsewhere, or a size."""
    for file in files:
        if not is_plain(file.name):
            raise ClientError(f"{place} has a file whose name is refused: {clean_line(repr(file.name)[:200])}")
        if not any(name in ("", ".", file.name) or file.name.startswith(f"{name}/") for name in names):
            raise ClientError(f"{place} lists {clean_line(file.name)}, which is not in {', '.join(names)}")
        if file.size < 0:
            raise ClientError(f"{place} has no size for {clean_line(file.name)}")
    return sorted({file.name: file for file in files}.values(), key=attrgetter("name"))
