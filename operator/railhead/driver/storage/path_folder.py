"""The run's folder as a path, for files that only the job's user and group may read, and that follow no planted link.

Another user who may write to the storage could leave a link in the place of a folder or a file, so that a pod writes
elsewhere with its own rights. So every folder below the run's is opened by its name in the one above, never through a
link. The run's folder itself may be a link: the user names it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import PurePath
from typing import Iterator, Optional

from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.storage.storage_call import is_passing

FOLDER_MODE = 0o750
FILE_MODE = 0o640
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # a planted pipe would block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Stored:
    """A file of the storage.

    Attributes:
        name: relative to the folder that was listed.
        size: in bytes.
        time: of its last change, in seconds.
    """

    name: str
    size: int
    time: float


class PathFolder:
    """The run's folder, which must exist. All names are relative to it; all methods raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self, name: str) -> Optional[bytes]:
        """Returns None when there is no such file."""
        try:
            with self._open(PurePath(name).parent) as folder:
                descriptor = os.open(PurePath(name).name, _READ, dir_fd=folder)
                with open(descriptor, "rb") as file:
                    return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Replaces the file, at once where the file system can rename."""
        own = PurePath(name).name
        new = f"{PurePath(name).name}.new"
        with self._open(PurePath(name).parent, creates=True) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new, dir_fd=folder)
            try:
                _put(new, data, os.O_EXCL, folder)
                os.replace(new, own, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    # A full disk needs its room for checkpoints.
                    os.unlink(new, dir_fd=folder)
                if is_passing(error):
                    raise
                # Object stores that are mounted as a path cannot rename.
                _put(own, data, os.O_TRUNC, folder)

    def delete(self, name: str) -> None:
        with self._open(PurePath(name).parent) as folder:
            os.unlink(PurePath(name).name, dir_fd=folder)

    def delete_folder(self, name: str) -> None:
        with self._open(PurePath(name).parent) as folder:
            shutil.rmtree(f"/proc/self/fd/{folder}/{PurePath(name).name}")

    def list_files(self, name: str) -> list[Stored]:
        """Returns the files in a folder and below it, with names relative to it; none when there is no such folder."""
        found = []
        with contextlib.suppress(FileNotFoundError), self._open(PurePath(name)) as folder:
            for place, _, names, descriptor in os.fwalk(".", dir_fd=folder):
                for each in names:
                    info = os.stat(each, dir_fd=descriptor, follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode):
                        found.append(Stored(PurePath(place, each).as_posix(), info.st_size, info.st_mtime))
        return found

    @contextlib.contextmanager
    def _open(self, name: PurePath, *, creates: bool = False) -> Iterator[int]:
        """Opens a folder below the run's."""
        with contextlib.ExitStack() as opened:
            folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, folder)
            for part in name.parts:
                is_new = creates and _make_folder(part, folder)
                folder = os.open(part, _FOLDER, dir_fd=folder)
                opened.callback(os.close, folder)
                if is_new and part != OWN_FOLDER:
                    _set_mode(folder, FOLDER_MODE)
            yield folder


def _make_folder(name: str, parent: int) -> bool:
    """Returns whether it did not exist before."""
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return False
    return True


def _put(name: str, data: bytes, flag: int, folder: int) -> None:
    with open(os.open(name, _WRITE | flag, FILE_MODE, dir_fd=folder), "wb") as file:
        _set_mode(file.fileno(), FILE_MODE)
        file.write(data)


def _set_mode(descriptor: int, mode: int) -> None:
    """Sets the mode whatever the umask is. An object store that is mounted as a path may have no modes."""
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, mode)
