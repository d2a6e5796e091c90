"""Reads the files of a run's folder, from a process that prints them or from an object store.

A folder in a pod is read by `folder_program`, which kubectl starts there. A pod is its user's: no name, size or text
of it is trusted.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

from railhead.client import folder_program
from railhead.client.errors import ClientError, ExitCode
from railhead.client.folder_program import FileCheck
from railhead.client.process import parse_answer, read_all, run_process
from railhead.contract.text import clean_line

START = (
    "import json,sys;r=json.loads(sys.stdin.readline());g={'__name__':'railhead'};exec(r['program'],g);"
    "g['main'](r['request'])"
)
ARGUMENTS = ("-I", "-S", "-c", START)
LISTING_BYTES = 32 << 20
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
        """Where it is, for messages."""
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
                    break  # the process says why, else bytes are missing
            else:
                return
        raise ClientError(f"{self.place} has sent too few bytes of {clean_line(file.name)}; try again")

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        wanted = [(file.name, file.size) for file in files]
        if not wanted:
            return []
        async with self._start({"root": self.root, "list": [], "send": [], "check": wanted}) as output:
            return parse_checks(await read_all(output, LISTING_BYTES, self.place), len(wanted), self.place)

    def _start(self, request: folder_program.Request) -> AbstractAsyncContextManager[asyncio.StreamReader]:
        line = json.dumps({"program": inspect.getsource(folder_program), "request": request})
        return run_process((*self.command, *ARGUMENTS), f"cannot read {self.place}", line)


@dataclass(frozen=True)
class StoreFiles:
    """A folder of an object store, by the user's own credentials.

    Attributes:
        store: a pyarrow file system, which has no types.
        root: the folder on it.
    """

    place: str
    store: Any
    root: str

    @staticmethod
    def open(uri: str) -> StoreFiles:
        """Raises ClientError if pyarrow is not installed or does not know the URI."""
        try:
            from pyarrow.fs import FileSystem
        except ModuleNotFoundError:
            remedy = "pip install 'railhead-train[storage]'"
            raise ClientError(f"{uri} needs the package pyarrow: {remedy}") from None
        try:
            store, root = FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot open {uri}: {clean_line(str(error))}") from None
        return StoreFiles(uri, store, root)

    async def find(self, names: Sequence[str]) -> list[RunFile]:
        found = await self._call(self._find, names)
        if not found:
            await self._call(self._check_bucket, self.root.partition("/")[0])
        return check_listing(found, names, self.place)

    def _find(self, names: Sequence[str]) -> list[RunFile]:
        from pyarrow.fs import FileSelector, FileType

        found = []
        for name in names:
            path = str(PurePosixPath(self.root, name))
            infos = self.store.get_file_info([path])
            if infos[0].type != FileType.File:
                infos = self.store.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
            for info in infos:
                if info.type == FileType.File:
                    own = info.path[len(self.root) :].lstrip("/")
                    found.append(RunFile(own, info.size or 0, info.mtime.timestamp() if info.mtime else 0.0))
        return found

    def _check_bucket(self, bucket: str) -> None:
        """Raises OSError if there is none: a folder in it would merely be empty."""
        from pyarrow.fs import FileType

        if bucket and self.store.get_file_info([bucket])[0].type == FileType.NotFound:
            raise OSError(f"there is no bucket {bucket}")

    async def stream(self, files: Sequence[RunFile]) -> AsyncIterator[tuple[RunFile, bytes]]:
        for file in files:
            path, left = f"{self.root}/{file.name}", file.size
            source = await self._call(lambda path: self.store.open_input_stream(path, compression=None), path)
            with source:
                while left:
                    chunk = await self._call(source.read, min(left, REQUEST_BYTES))
                    if not chunk:
                        raise ClientError(f"{file.name} in {self.place} has become shorter; try again")
                    left -= len(chunk)
                    yield file, bytes(chunk)

    async def check(self, files: Sequence[RunFile]) -> list[FileCheck]:
        return [await self._call(self._check, file) for file in files]

    def _check(self, file: RunFile) -> FileCheck:
        with suppress(FileNotFoundError), self.store.open_input_file(f"{self.root}/{file.name}") as source:
            return folder_program.check_file(io.BufferedReader(source, REQUEST_BYTES), file.name, file.size)
        return FileCheck(folder_program.GONE, None)

    async def _call(self, call: Any, argument: Any) -> Any:
        try:
            return await asyncio.to_thread(call, argument)
        except (OSError, ValueError, NotImplementedError) as error:
            text = clean_line(str(error))
            code = ExitCode.DENIED if "ACCESS_DENIED" in text else ExitCode.FAILED
            message = f"cannot read {self.place} with the credentials of this machine, which the job's are not: {text}"
            raise ClientError(message, code) from None


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
    return sorted({file.name: file for file in files}.values(), key=lambda file: file.name)


def is_plain(name: str) -> bool:
    """Whether the name can be a path below a folder on any system."""
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
        total, free = sum(file.size for file in wanted), shutil.disk_usage(into).free
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
    if refused:  # Windows has no file nul, and removes the dot at the end of a name
        raise ClientError(f"this system can have no file of the name {clean_line(refused[0])}")
