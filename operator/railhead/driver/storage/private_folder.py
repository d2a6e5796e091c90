"""A folder of ours in the run's folder that only the job's user and group may read, and that follows no planted link.

On a path its files have mode 0640 and folders 0750. Another user who may write to the storage could leave a link in the
place of a folder or a file, so that a pod writes elsewhere with its own rights; such a link is an error, or it is
replaced. The run's folder itself may be a link: the user names it. An object store has neither modes nor links.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable, Optional

from railhead.driver.storage.call import is_passing
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder

FILE_MODE, FOLDER_MODE = 0o640, 0o750
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class PrivateFolder:
    """The folder of this name in `.railhead`. May block for as long as the storage does, and raises OSError.

    `check` is the fence: it raises when the run belongs to another head, before each write.
    """

    run: RunFolder
    name: str
    check: Callable[[], None]

    def write(self, name: str, data: bytes) -> None:
        """Creates or replaces a file, atomically where the storage can."""
        self.check()
        if not self._is_path:
            self.run.replace(self._find(name), data)
            return
        with self._open() as folder:
            temporary = f"{name}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)  # it may be a link of either kind
            try:
                _write(temporary, data, folder, os.O_EXCL)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)  # a full disk needs its room for checkpoints
                if is_passing(error):
                    raise
                _write(name, data, folder, os.O_TRUNC)  # object stores that are mounted as a path cannot rename

    def read(self, name: str) -> Optional[bytes]:
        """Returns None when there is no such file."""
        if not self._is_path:
            return self.run.read(self._find(name))
        with self._open() as folder:
            try:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                return None
            with open(file, "rb") as stream:
                return stream.read()

    def list_sizes(self) -> dict[str, int]:
        """Returns the bytes of each file."""
        if not self._is_path:
            return self.run.list_sizes(f"{OWN_FOLDER}/{self.name}")
        with self._open() as folder, os.scandir(folder) as entries:
            files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in files}

    @property
    def _is_path(self) -> bool:
        return bool(self.run.filesystem.type_name == "local")

    def _find(self, name: str) -> str:
        return f"{OWN_FOLDER}/{self.name}/{name}"

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            folder = os.open(self.run.path, _FOLDER)
            stack.callback(os.close, folder)
            for name in (OWN_FOLDER, self.name):
                folder = _enter(folder, name)
                stack.callback(os.close, folder)
            yield folder


def _enter(parent: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another head has just made it
            os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    with contextlib.suppress(OSError):  # a storage without modes; else the umask may have cut them
        os.fchmod(folder, FOLDER_MODE)
    return folder


def _write(name: str, data: bytes, folder: int, flag: int) -> None:
    with open(os.open(name, _NEW | flag, FILE_MODE, dir_fd=folder), "wb") as stream:
        with contextlib.suppress(OSError):
            os.fchmod(stream.fileno(), FILE_MODE)
        stream.write(data)
