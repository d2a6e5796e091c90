"""Lists, prints and checks the files of a folder, below it only and without following a link.

The text of this file runs in a pod, with the Python of its image (3.9 or newer) and no package, or on this machine,
which may run Windows. A link that is put into the folder while it is read can still be followed: the reader then has a
copy of a file that the reader may read anyway, and that leads to no more rights for the one who has put it there.
"""

from __future__ import annotations

import json
import os
import pickletools
import stat
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple, TypedDict

MOST_FILES = 100_000
CHUNK_BYTES = 1 << 20
GONE = "it is gone"
HEADER_BYTES = 64 << 20  # of an index that is read to check it
JSON_BYTES = 16 << 20  # of a header or a file of JSON, which Python needs twenty times the memory for
# What the entries of an archive may expand to: reading more would take minutes, and torch does not compress.
EXPANDED_BYTES = 4 << 30
EXPANDED_TIMES = 20


class FolderRequest(TypedDict):
    """What is wanted of the folder `root`.

    Attributes:
        list: names of files and folders, whose files are listed as JSON: name, size in bytes and time in seconds.
        send: names and sizes of files, of which exactly that many bytes are printed, one file after the other.
        check: names and sizes of files, of which the results of `check_file` are printed as JSON, in this order.
    """

    root: str
    list: list[str]
    send: list[tuple[str, int]]
    check: list[tuple[str, int]]


class FileCheck(NamedTuple):
    """Whether a file is complete, by its own format.

    Attributes:
        problem: what is wrong; "" = nothing.
        needs: the files that it refers to, relative to its folder, with the least size of each in bytes; None = its
            format is unknown, or tells neither its length nor its end.
    """

    problem: str
    needs: dict[str, int] | None


def main(request: FolderRequest) -> None:
    """Writes the answer to standard output. Exits with a message if it cannot be complete."""
    output = sys.stdout.buffer
    try:
        # What does not exist, or is no folder, has no files otherwise.
        os.scandir(request["root"]).close()
        root = os.path.realpath(request["root"])
        for name, size in request["send"]:
            for chunk in read_file(root, name, size):
                output.write(chunk)
        if request["list"]:
            output.write(json.dumps(list(list_files(root, request["list"]))).encode())
        if request["check"]:
            output.write(json.dumps(list(_check_each(root, request["check"], output))).encode())
        output.flush()
    except OSError as error:
        sys.exit(f"{error.filename or request['root']}: {error.strerror or error}")


def list_files(root: str, names: Sequence[str]) -> Iterator[tuple[str, int, float]]:
    """Yields the regular files among these names and in these folders; a link and a name without a file have none.

    `root`: without links.
    """
    count = 0
    for name in names:
        for found in _list(root, name):
            count += 1
            if count > MOST_FILES:
                raise OSError(f"more than {MOST_FILES} files in {', '.join(names)}")
            yield found


def _list(root: str, name: str) -> Iterator[tuple[str, int, float]]:
    path = _locate(root, name)
    if path is None:
        return
    for file in [path] if os.path.isfile(path) else _walk(path):
        with suppress(FileNotFoundError):  # deleted meanwhile
            info = os.lstat(file)
            if stat.S_ISREG(info.st_mode):
                yield os.path.relpath(file, root).replace(os.sep, "/"), info.st_size, info.st_mtime


def _walk(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        # Windows has links that os.walk follows before Python 3.12.
        if os.path.realpath(place) != place:
            folders.clear()
            continue
        yield from (os.path.join(place, name) for name in names)


def read_file(root: str, name: str, size: int) -> Iterator[bytes]:
    """Yields exactly `size` bytes of the file. Raises OSError if it is a link or has fewer."""
    with open_file(root, name) as file:
        while size:
            chunk = file.read(min(size, CHUNK_BYTES))
            if not chunk:
                raise OSError(f"{name} has become shorter while it was read; try again")
            size -= len(chunk)
            yield chunk


def open_file(root: str, name: str) -> BinaryIO:
    """Returns the file, open to read. Raises OSError if it is a link, or in a folder that is one.

    `root`: without links.
    """
    path = _locate(root, name)
    if path is None:
        raise OSError(f"{name} is a link, or in a folder that is one")
    return open(path, "rb", opener=_open_at_once)


def _open_at_once(file: str, flags: int) -> int:
    # A pipe would wait for its writer.
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _locate(root: str, name: str) -> str | None:
    """Returns the path of the name; None if a link leads there. Raises OSError if it is not below the root."""
    path = os.path.normpath(os.path.join(root, name))
    if path != root and not path.startswith(os.path.join(root, "")):
        raise OSError(f"{name} is not below the folder")
    if os.path.realpath(path) == path:
        return path
    return None


def _check_each(root: str, files: Sequence[tuple[str, int]], output: BinaryIO) -> Iterator[FileCheck]:
    for name, size in files:
        yield _check(root, name, size)
        # JSON allows it, and a proxy on the way ends a connection on which nothing is sent.
        output.write(b"\n")
        output.flush()


def _check(root: str, name: str, size: int) -> FileCheck:
    with suppress(FileNotFoundError), open_file(root, name) as file:
        return check_file(file, name, size)
    return FileCheck(GONE, None)


def check_file(file: BinaryIO, name: str, size: int) -> FileCheck:
    """Checks a file by its header or index, and a zip archive by its checksums; loads no pickle.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        return FileCheck("", _inspect(file, PurePosixPath(name), size))
    except OSError:
        raise
    except Exception as error:
        # A damaged file can be anything.
        return FileCheck(f"it is damaged ({type(error).__name__}: {error})"[:500], None)


def _inspect(file: BinaryIO, name: PurePosixPath, size: int) -> dict[str, int] | None:
    head = file.read(8)
    file.seek(0)
    if head.startswith(b"PK\x03\x04"):  # torch.save, numpy.savez
        return _check_archive(file, size)
    # A pickle of an older torch, which begins with \x80, is no archive either.
    if name.suffix in (".pt", ".pth", ".npz") and not head.startswith(b"\x80"):
        raise ValueError("it is not a zip archive" if head else "it is empty")
    if name.suffix == ".safetensors":
        return _check_tensors(file, size)
    if size <= HEADER_BYTES and name.name == ".metadata":
        return _read_storage(file)
    if size <= JSON_BYTES and name.suffix == ".json":
        # More values may follow, a line each.
        found, _ = json.JSONDecoder().raw_decode(file.read().decode().lstrip())
        if name.name.endswith(".index.json"):
            return dict.fromkeys(found["weight_map"].values(), 1)
        return {}
    return None


def _check_archive(file: BinaryIO, size: int) -> dict[str, int] | None:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if sum(entry.compress_size for entry in entries) > size:  # which would also be read many times over
            raise ValueError("its entries overlap")
        if sum(entry.file_size for entry in entries) > max(EXPANDED_BYTES, EXPANDED_TIMES * size):
            return None
        for entry in entries:
            is_readable = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not entry.flag_bits & 1
            # torch writes 0 if its user has turned the checksums off.
            if entry.CRC and is_readable:
                with archive.open(entry) as data:
                    while data.read(CHUNK_BYTES):
                        pass
    return {}


def _check_tensors(file: BinaryIO, size: int) -> dict[str, int] | None:
    length = int.from_bytes(file.read(8), "little")
    if length > size:
        raise ValueError("it is shorter than its header")
    if length > JSON_BYTES:
        return None
    header = json.loads(file.read(length))
    ends = [tensor["data_offsets"][1] for key, tensor in header.items() if key != "__metadata__"]
    if size != 8 + length + max(ends, default=0):
        raise ValueError(f"it has {size} bytes, and its tensors need {8 + length + max(ends, default=0)}")
    return {}


def _read_storage(file: BinaryIO) -> dict[str, int]:
    """Returns the files of a torch.distributed.checkpoint, from the names and numbers in its pickle, in their order."""
    memo: dict[int, object] = {}
    values: list[object] = []
    last: object = None
    for code, argument, _ in pickletools.genops(file.read()):
        if code.name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if code.name == "MEMOIZE" else int(argument or 0)] = last
            continue
        last = memo.get(int(argument or 0)) if code.name in ("BINGET", "LONG_BINGET") else argument
        if last is not None:
            values.append(last)
    needs: dict[str, int] = {}
    # An object's attributes follow each other in a pickle, each as its name and its value.
    for at in range(len(values) - 5):
        if values[at : at + 6 : 2] == ["relative_path", "offset", "length"]:
            path, offset, length = values[at + 1 : at + 6 : 2]
            if isinstance(path, str) and isinstance(offset, int) and isinstance(length, int):
                needs[path] = max(needs.get(path, 0), offset + length)
    return needs
