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
            text = clean_line(str(error))
            code = ExitCode.DENIED if "ACCESS_DENIED" in text else ExitCode.FAILED
            message = f"cannot read {self.place} with the credentials of this machine, which the job's are not: {text}"
            raise ClientError(message, code) from None
