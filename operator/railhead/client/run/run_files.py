"""Reads the files of a run's folder, from a process that prints them or from an object store.

A folder in a pod is read by `folder_program`, which kubectl starts there. A pod is its user's: no name, size or text
of it is trusted.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.folder_program import FileCheck
from railhead.contract.text import clean_line

MEMORY_BYTES = 1 << 30  # of files that are read, not copied
TRIES = 3  # to read what a job writes meanwhile
REQUEST_BYTES = 8 << 20  # of one request to a store
LONGEST_NAME = 1024
Result = TypeVar("Result")
FORBIDDEN = frozenset('\\:*?"<>|')  # some systems give them a meaning in a path


@dataclass(frozen=True)
class RunFile:
    """A file of the run.

    Attributes:
        name: relative to the run's folder, with slashes.
        size: in bytes.
        time: of its last change, in seconds since 1970.
    """

    name: str
    size: int
    time: float


class RunFiles(Protocol):
    """A run's folder that can be read. All methods raise ClientError."""

    @property
    def place(self) -> str:
        """Tells where it is, for messages."""
        ...

    async def find(self, names: Sequence[str]) -> list[RunFile]:
        """Returns these files and those in these folders and below; a name that does not exist has none."""
        ...

    def stream(self, files: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
        """Yields the bytes of each file, in order and in pieces, as many as its size says."""
        ...

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        """Returns whether each file is complete, in order. The files stay where they are."""
        ...


def is_plain(name: str) -> bool:
    """Returns whether the name can be a path below a folder on any system."""
    parts = name.split("/")
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and FORBIDDEN.isdisjoint(name)
        and not any(part.strip(" .") == "" for part in parts)
    )


async def read_files(files: RunFiles, wanted: Sequence[RunFile]) -> dict[str, bytes]:
    """Returns the contents by name. Raises ClientError, also if they do not fit into memory."""
    total = sum(file.size for file in wanted)
    if total > MEMORY_BYTES:
        raise ClientError(f"{total >> 20} MiB of {files.place} do not fit into {MEMORY_BYTES >> 20} MiB of memory")
    return {file.name: b"" for file in wanted} | {file.name: data async for file, data in read_each(files, wanted)}


async def read_each(files: RunFiles, wanted: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
    """Yields the files that are not empty, with their contents, of which one is in memory. Raises ClientError."""
    data = bytearray()
    async for file, chunk in files.stream(wanted):
        data += chunk
        if len(data) == file.size:
            yield file, bytes(data)
            data.clear()


async def read_found(files: RunFiles, names: Sequence[str]) -> dict[str, bytes]:
    """Returns the contents of these files, and of those in these folders, by name. Raises ClientError."""
    return await read_files(files, await files.find(names))


async def try_again(read: Callable[[], Awaitable[Result]]) -> Result:
    """Returns what `read` returns, which a job may be writing: a file that is longer, shorter or gone after it was
    listed is listed again. Raises ClientError if that fails each time."""
    for _ in range(TRIES - 1):
        with suppress(ClientError):
            return await read()
    return await read()


async def read_folder(files: RunFiles, name: str) -> dict[str, bytes]:
    """Returns the contents of the files in the folder, by their names in it. Raises ClientError."""
    found = await try_again(lambda: read_found(files, [name]))
    return {each[len(name) + 1 :]: data for each, data in found.items()}


async def copy_files(files: RunFiles, wanted: Sequence[RunFile], *, folder: str, into: Path) -> None:
    """Copies the files of a folder into a new or empty one of this machine, all of them or none.

    Raises:
        ClientError: `into` has files already, there is no room, or the copy is not complete.
    """
    targets = {file: into / file.name.removeprefix(f"{folder}/") for file in wanted}
    try:
        into.mkdir(parents=True, exist_ok=True)
        if any(into.iterdir()):
            raise ClientError(f"{into} is not empty; name another folder", ExitCode.USAGE)
        total = sum(file.size for file in wanted)
        free = shutil.disk_usage(into).free
        if total > free:
            raise ClientError(f"{into} has room for {free >> 20} MiB, but the files have {total >> 20} MiB")
        try:
            _create(targets, into)
            async for file, chunk in files.stream(wanted):
                with targets[file].open("ab") as target:
                    target.write(chunk)
        except BaseException:  # an interruption, too
            for top in {into / path.relative_to(into).parts[0] for path in targets.values()}:
                shutil.rmtree(top) if top.is_dir() else top.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ClientError(f"cannot write {error.filename or into}: {error.strerror}") from None


def _create(targets: Mapping[RunFile, Path], into: Path) -> None:
    """Creates the empty files. Raises ClientError for a name that this system cannot have, and OSError."""
    for path in targets.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("xb").close()
    made = set(into.rglob("*"))
    refused = [file.name for file, path in targets.items() if path not in made]
    # Windows has no file nul, and removes the dot at the end of a name.
    if refused:
        raise ClientError(f"this system can have no file of the name {clean_line(refused[0])}")
