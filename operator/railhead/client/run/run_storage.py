"""Opens a storage with the folders of many runs: a path of this machine, or an object store.

The user has typed where it is, so the user's own credentials may go there, as with --folder. What it holds is trusted
in nothing: no link is followed, no more is read than was asked for, and a name has to be plain.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run import folder_program
from railhead.client.run.process_files import ProcessFiles
from railhead.client.run.run_files import RunFiles
from railhead.client.run.store_files import StoreFiles
from railhead.contract.text import clean_line

READS_AT_ONCE = 64  # of small objects, each of which waits for an answer most of the time
MOST_FOLDERS = folder_program.MOST_FILES


class RunStorage(Protocol):
    """A storage with runs. Its methods block, and may be called from several threads at once."""

    @property
    def place(self) -> str:
        """Tells where it is, for messages."""
        ...

    def list_folders(self) -> list[str]:
        """Returns the names of the folders. Raises ClientError."""
        ...

    def read(self, name: str, most: int) -> bytes | None:
        """Returns at most that many bytes of a file; None if there is none. Raises OSError."""
        ...

    def open_folder(self, name: str) -> RunFiles:
        """Returns the folder of a run."""
        ...


@dataclass(frozen=True)
class PathStorage:
    """A path of this machine."""

    place: str

    def list_folders(self) -> list[str]:
        try:
            with os.scandir(self.place) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            message = f"cannot read {clean_line(self.place)}: {error.strerror}"
            raise ClientError(message, ExitCode.NOT_FOUND) from None
        return check_count(names, self.place)

    def read(self, name: str, most: int) -> bytes | None:
        try:
            with folder_program.open_file(os.path.realpath(self.place), name) as file:
                return file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open_folder(self, name: str) -> RunFiles:
        return open_path(str(Path(self.place, name)))


@dataclass(frozen=True)
class StoreStorage:
    """A folder of an object store, by the user's own credentials."""

    files: StoreFiles

    @property
    def place(self) -> str:
        return self.files.place

    def list_folders(self) -> list[str]:
        return check_count(self.files.list_folders(), self.place)

    def read(self, name: str, most: int) -> bytes | None:
        return self.files.read_begin(name, most)

    def open_folder(self, name: str) -> RunFiles:
        return self.files.open_below(name)


def open_path(folder: str) -> RunFiles:
    """Returns a run's folder on this machine."""
    return ProcessFiles(folder, folder, (sys.executable,))


def open_copy(place: str) -> RunFiles:
    """Returns the folder of a run, a path or a URI, which the user has named. Raises ClientError as `open_storage`."""
    if "://" in place:
        return StoreFiles.open(place)
    return open_path(place)


def open_storage(place: str) -> RunStorage:
    """Returns the storage at a path or URI. Raises ClientError if pyarrow is missing or does not know the URI."""
    if "://" in place:
        return StoreStorage(StoreFiles.open(place, connections=READS_AT_ONCE))
    return PathStorage(place)


def check_count(names: list[str], place: str) -> list[str]:
    """Returns the names. Raises ClientError if they are more than a listing is for."""
    if len(names) > MOST_FOLDERS:
        raise ClientError(
            f"{clean_line(place)} has {len(names)} folders, more than {MOST_FOLDERS}; name a folder below"
        )
    return names
