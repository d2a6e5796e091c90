"""Lists and prints the files of a folder, below it only and without following a link.

The text of this file runs in a pod, with the Python of its image (3.9 or newer) and no package, or on this machine.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import PurePosixPath
from typing import TypedDict

MOST_FILES = 100_000
CHUNK_BYTES = 1 << 20


class Request(TypedDict):
    """What is wanted of the folder `root`.

    Attributes:
        list: names of files and folders, whose files are listed as JSON: name, size in bytes and time in seconds.
        send: names and sizes of files, of which exactly that many bytes are printed, one file after the other.
    """

    root: str
    list: list[str]
    send: list[tuple[str, int]]


def main(request: Request) -> None:
    """Writes the answer to standard output. Exits with a message if it cannot be complete."""
    output = sys.stdout.buffer
    try:
        root = os.open(request["root"], os.O_RDONLY | os.O_DIRECTORY)
        for name, size in request["send"]:
            for chunk in read_file(root, name, size):
                output.write(chunk)
        if not request["send"]:
            output.write(json.dumps(list(list_files(root, request["list"]))).encode())
        output.flush()
    except OSError as error:
        sys.exit(f"{error.filename or request['root']}: {error.strerror or error}")


def list_files(root: int, names: Sequence[str]) -> Iterator[tuple[str, int, float]]:
    """Yields the regular files among these names and in these folders; a link and a name without a file have none."""
    count = 0
    for name in names:
        for found in _list(root, PurePosixPath(name)):
            count += 1
            if count > MOST_FILES:
                raise OSError(f"more than {MOST_FILES} files in {', '.join(names)}")
            yield found


def _list(root: int, name: PurePosixPath) -> Iterator[tuple[str, int, float]]:
    with suppress(FileNotFoundError, NotADirectoryError), _open_folder(root, name.parent) as parent:
        info = os.stat(name.name or ".", dir_fd=parent, follow_symlinks=False)
        if stat.S_ISREG(info.st_mode):
            yield str(name), info.st_size, info.st_mtime
        if not stat.S_ISDIR(info.st_mode):
            return
        with _open_folder(root, name) as folder:
            for place, _, names, descriptor in os.fwalk(".", dir_fd=folder):
                for each in names:
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        info = os.stat(each, dir_fd=descriptor, follow_symlinks=False)
                        if stat.S_ISREG(info.st_mode):
                            yield str(name / place / each), info.st_size, info.st_mtime


def read_file(root: int, name: str, size: int) -> Iterator[bytes]:
    """Yields exactly `size` bytes of the file. Raises OSError if it is a link or has fewer."""
    path = PurePosixPath(name)
    with _open_folder(root, path.parent) as parent:
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    with open(descriptor, "rb") as file:
        while size:
            chunk = file.read(min(size, CHUNK_BYTES))
            if not chunk:
                raise OSError(f"{name} has become shorter while it was read; try again")
            size -= len(chunk)
            yield chunk


@contextmanager
def _open_folder(root: int, name: PurePosixPath) -> Iterator[int]:
    """Opens each folder in the one above, so that no link is followed on the way."""
    if name.is_absolute() or ".." in name.parts:
        raise OSError(f"{name} is not below the folder")
    with ExitStack() as opened:
        folder = root
        for part in name.parts:
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            opened.callback(os.close, folder)
        yield folder
