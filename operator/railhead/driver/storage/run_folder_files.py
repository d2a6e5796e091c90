"""The run's folder, on the very file system that Ray Train writes with: small files of ours and of Ray's; and a folder
there that only the head which has the run writes.

Everything here may block for as long as the storage does, and raises what pyarrow raises.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import PurePath
from typing import Callable, Iterable, Optional, Union

from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.ray.checkpoint_manager import choose_file_system
from railhead.driver.ray.types import FileInfo, FileSystem, RunConfig
from railhead.driver.storage.path_folder import PathFolder, Stored
from railhead.driver.storage.storage_call import is_passing


@dataclass(frozen=True)
class RunFolder:
    """The run's folder.

    Attributes:
        filesystem: a pyarrow file system.
        path: the folder on it, without a scheme.
    """

    filesystem: FileSystem
    path: str

    def find(self, name: str) -> str:
        return PurePath(self.path, name).as_posix()

    def read(self, name: str) -> Optional[bytes]:
        """Returns None when there is no such file."""
        try:
            with self.filesystem.open_input_stream(self.find(name), compression=None) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Writes in place: on a network file system the next reader sees the new content despite cached listings."""
        try:
            self._put(name, data)
        except FileNotFoundError:
            # Not first: on S3 this takes a request per level.
            self.filesystem.create_dir(PurePath(self.find(name)).parent.as_posix(), recursive=True)
            self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with self.filesystem.open_output_stream(self.find(name), compression=None) as stream:
            stream.write(data)

    def replace(self, name: str, data: bytes) -> None:
        """Replaces a file, atomically where it can: object stores write whole files, and on a path this renames one.

        Some object stores that are mounted as a path cannot rename: there it writes in place, as Ray does.
        """
        if self.filesystem.type_name != "local":
            self.write(name, data)
            return
        temporary = f"{name}.new"
        self.write(temporary, data)
        try:
            self.filesystem.move(self.find(temporary), self.find(name))
        except (OSError, NotImplementedError) as error:
            if is_passing(error):
                raise
            with contextlib.suppress(OSError, NotImplementedError):
                self.delete(temporary)
            self.write(name, data)

    def delete(self, name: str) -> None:
        self.filesystem.delete_file(self.find(name))

    def delete_folder(self, name: str) -> None:
        self.filesystem.delete_dir(self.find(name))

    def list_names(self, name: str) -> list[str]:
        """Returns the names in a folder, none when there is no such folder."""
        return [info.base_name for info in self._list(self.find(name))]

    def list_files(self, name: str) -> list[Stored]:
        """Returns the files in a folder and below it, with names relative to it; none when there is no such folder."""
        top = self.find(name)
        # A file system may leave out the first slash.
        begin = len(top.lstrip("/")) + 1
        files = [info for info in self._list(top, recursive=True) if info.is_file]
        return [Stored(info.path.lstrip("/")[begin:], info.size, (info.mtime_ns or 0) / 1e9) for info in files]

    def _list(self, path: str, *, recursive: bool = False) -> list[FileInfo]:
        from pyarrow.fs import FileSelector

        forget_listings(self.filesystem)
        selector = FileSelector(path, allow_not_found=True, recursive=recursive)
        found: list[FileInfo] = self.filesystem.get_file_info(selector)
        return found

    def list_existing(self, names: Iterable[str]) -> set[str]:
        """Returns those that exist, by one listing for all in the same folder, however many there are."""
        paths = {name: PurePath(name) for name in names}
        there = {parent: set(self.list_names(str(parent))) for parent in {path.parent for path in paths.values()}}
        return {name for name, path in paths.items() if path.name in there[path.parent]}


@dataclass(frozen=True)
class PrivateFolder:
    """The folder of this name in `.railhead`, on a path as in `PathFolder`.

    `check` is the fence: it raises when the run belongs to another head, before each write.
    """

    run: RunFolder
    name: str
    check: Callable[[], None]

    def write(self, name: str, data: bytes) -> None:
        """Creates or replaces a file, atomically where the storage can."""
        self.check()
        self._files.write(f"{self._own}/{name}", data)

    def read(self, name: str) -> Optional[bytes]:
        """Returns None when there is no such file."""
        return self._files.read(f"{self._own}/{name}")

    def list_sizes(self) -> dict[str, int]:
        """Returns the bytes of each file."""
        return {file.name: file.size for file in self._files.list_files(self._own)}

    @property
    def _own(self) -> str:
        return f"{OWN_FOLDER}/{self.name}"

    @property
    def _files(self) -> Union[PathFolder, RunFolder]:
        if self.run.filesystem.type_name == "local":
            return PathFolder(self.run.path)
        return self.run


def forget_listings(filesystem: FileSystem) -> None:
    """Empties the caches of folder listings that a user's own file system has if it comes from fsspec."""
    forget = getattr(getattr(getattr(filesystem, "handler", None), "fs", None), "invalidate_cache", None)
    if forget is not None:
        forget()


def open_own_folder(storage_path: str, run_name: str) -> RunFolder:
    """Opens the job's own, which a user's trainer may not use, without Ray, which a script's driver need not import."""
    from pyarrow.fs import FileSystem

    filesystem, path = FileSystem.from_uri(storage_path)
    return RunFolder(filesystem, PurePath(path, run_name).as_posix())


def open_run_folder(run_config: RunConfig) -> RunFolder:
    """Opens the one of Ray Train's RunConfig, in the same way as fit()."""
    filesystem, path = choose_file_system(run_config)
    return RunFolder(filesystem, PurePath(path, run_config.name).as_posix())
