"""Reads what a rank needs of a checkpoint's files from an object store, in few requests.

torch itself reads a tensor in about twenty small steps, each of which would be a request, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

READERS = 8  # requests of a rank at a time
REQUEST_BYTES = 16 * 2**20  # at most
BATCH_BYTES = 256 * 2**20  # that a rank holds, unless one tensor is larger


class Slice(NamedTuple):
    """Some bytes of a file: those of one tensor or object, or of one request."""

    file: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def cut_batches(slices: Iterable[Slice]) -> Iterator[List[Slice]]:
    """Yields the slices in the order of their files, as many at a time as there is memory for."""
    batch: List[Slice] = []
    size = 0
    for piece in sorted(set(slices)):
        if batch and size + piece.length > BATCH_BYTES:
            yield batch
            batch = []
            size = 0
        batch.append(piece)
        size += piece.length
    if batch:
        yield batch


def join_neighbours(slices: Sequence[Slice]) -> List[List[Slice]]:
    """Returns the slices, which are in order, in groups that follow on each other without a gap."""
    groups: List[List[Slice]] = []
    for piece in slices:
        last = groups[-1][-1] if groups else None
        if last is not None and last.file == piece.file and last.end == piece.offset:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return groups


class SliceReader:
    """Reads slices of files, each of which it opens once. `open_file`: returns a file of pyarrow's."""

    def __init__(self, open_file: Callable[[str], Any]) -> None:
        self._open_file = open_file
        self._files: Dict[str, Any] = {}
        self._pool = ThreadPoolExecutor(READERS)

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        for file in self._files.values():
            file.close()

    def read(self, slices: Sequence[Slice]) -> Dict[Slice, memoryview]:
        """Returns the content of slices that are in order. Raises OSError, also if a file is too short."""
        new = sorted({piece.file for piece in slices} - set(self._files))
        self._files.update(zip(new, self._pool.map(self._open_file, new)))
        found: Dict[Slice, memoryview] = {}
        requests = []
        for group in join_neighbours(slices):
            whole = Slice(group[0].file, group[0].offset, group[-1].end - group[0].offset)
            data = memoryview(bytearray(whole.length))
            for begin in range(0, whole.length, REQUEST_BYTES):
                requests.append(self._pool.submit(self._request, whole, begin, data[begin : begin + REQUEST_BYTES]))
            for piece in group:
                begin = piece.offset - whole.offset
                found[piece] = data[begin : begin + piece.length]
        for request in requests:
            request.result()
        return found

    def _request(self, whole: Slice, begin: int, data: memoryview) -> None:
        content = self._files[whole.file].read_at(len(data), whole.offset + begin)
        if len(content) != len(data):
            raise OSError(f"{whole.file} ends after {whole.offset + begin + len(content)} bytes, before {whole.end}")
        data[:] = content
