"""Reads a run's folder in an object store."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run import folder_program
from railhead.client.run.folder_program import FileCheck
from railhead.client.run.process_files import check_listing
from railhead.client.run.run_files import REQUEST_BYTES, RunFile
from railhead.contract.checkpoint_uri import split_query
from railhead.contract.text import clean_line


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
    def open(uri: str, *, connections: int = 0) -> StoreFiles:
        """Opens the folder at a URI, with at least that many connections to the store, of which pyarrow has 25.

        Raises ClientError if pyarrow is not installed or does not know the URI.
        """
        try:
            import pyarrow
            from pyarrow.fs import FileSystem
        except ModuleNotFoundError:
            remedy = "pip install 'railhead-train[storage]'"
            raise ClientError(f"{uri} needs the package pyarrow: {remedy}") from None
        # For S3 it has as many as it has threads for input and output, when the file system is made.
        pyarrow.set_io_thread_count(max(pyarrow.io_thread_count(), connections))
        try:
            store, root = FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot open {uri}: {clean_line(str(error))}") from None
        return StoreFiles(uri, store, root)

    def open_below(self, name: str) -> StoreFiles:
        """Returns a folder in this one."""
        path, query = split_query(self.place)
        return StoreFiles(f"{path.rstrip('/')}/{name}{query}", self.store, f"{self.root}/{name}")

    def list_folders(self) -> list[str]:
        """Returns the names of the folders in this one. Raises ClientError."""
        from pyarrow.fs import FileSelector, FileType

        try:
            found = self.store.get_file_info(FileSelector(self.root, allow_not_found=True))
            if not found:
                self._check_bucket(self.root.partition("/")[0])
        except (OSError, ValueError, NotImplementedError) as error:
            raise self._explain(error) from None
        return [info.base_name for info in found if info.type == FileType.Directory]

    def read_begin(self, name: str, most: int) -> bytes | None:
        """Returns at most that many bytes of a file; None if there is none. Raises OSError."""
        try:
            with self.store.open_input_stream(f"{self.root}/{name}", compression=None) as source:
                return bytes(source.read(most))
        except FileNotFoundError:
            return None

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
            path = f"{self.root}/{file.name}"
            left = file.size
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
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> ClientError:
        text = clean_line(str(error))
        code = ExitCode.FAILED
        if "ACCESS_DENIED" in text:
            code = ExitCode.DENIED
        message = f"cannot read {self.place} with the credentials of this machine, which the job's are not: {text}"
        return ClientError(message, code)
