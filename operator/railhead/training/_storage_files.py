"""Reads and writes the files of `torch.distributed.checkpoint` where the run's storage is, without a local copy.

On a path torch's own files are used, and elsewhere those of pyarrow's file system: a rank writes its own part and reads
only the bytes that it needs, in few requests.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Callable, Dict, List, cast

from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan
from torch.futures import Future

from railhead.driver.ray.types import FileSystem as ArrowFileSystem
from railhead.training._slices import READERS, Slice, SliceReader, cut_batches
from railhead.training._state_copy import StateCopy

LOCAL = "local"  # pyarrow's name for the type of file system that paths are on


class WriteProgress:
    """How far one rank's writing of one checkpoint is. Threads of torch's write it, and that of training reads it.

    Attributes:
        path: the file or folder that the storage is asked for now; empty while this rank waits for others.
        files, size: how many files have been opened, and the bytes in them.
        moved_at: when the storage was asked last, by `time.monotonic`.
    """

    def __init__(self) -> None:
        self.path = ""
        self.files = 0
        self.size = 0
        self.moved_at = time.monotonic()
        self._is_abandoned = threading.Event()

    def abandon(self) -> None:
        """Lets the next call raise: nothing waits for the checkpoint any more, and its thread holds a copy of it."""
        self._is_abandoned.set()

    @contextmanager
    def using(self, path: object) -> Iterator[None]:
        """Names the file or folder that the calls of the storage in this block are for."""
        self._move()
        self.path = str(path)
        try:
            yield
        finally:
            self.path = ""

    def add(self, size: int) -> None:
        """Counts bytes of the file that is being written."""
        self._move()
        self.size += size

    def _move(self) -> None:
        if self._is_abandoned.is_set():
            raise OSError("the checkpoint was given up")
        self.moved_at = time.monotonic()


class _CountedStream:
    """A stream that is written to, whose bytes are counted."""

    def __init__(self, stream: Any, progress: WriteProgress) -> None:
        self._stream = stream
        self._progress = progress

    def write(self, data: Any) -> object:
        written: object = self._stream.write(data)
        self._progress.add(memoryview(data).nbytes)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _ArrowFiles(FileSystemBase):
    """Files on one of pyarrow's file systems, such as an object store."""

    def __init__(self, filesystem: ArrowFileSystem) -> None:
        self._filesystem = filesystem

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        if mode == "rb":
            opened = self._filesystem.open_input_file(path)
        else:
            opened = self._filesystem.open_output_stream(path, compression=None)
        with opened as stream:
            yield stream

    def concat_path(self, path: Any, suffix: str) -> str:
        return f"{path}/{suffix}"

    def init_path(self, path: Any) -> str:
        return str(path)

    def mkdir(self, path: Any) -> None:
        self._filesystem.create_dir(path, recursive=True)

    def rename(self, path: Any, new_path: Any) -> None:
        self._filesystem.move(path, new_path)

    def exists(self, path: Any) -> bool:
        from pyarrow.fs import FileType

        return bool(self._filesystem.get_file_info(path).type != FileType.NotFound)

    def rm_file(self, path: Any) -> None:
        self._filesystem.delete_file(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:  # noqa: ARG003
        return True


class _NoFiles(_ArrowFiles):
    """Opens nothing: what is needed of the files has been read."""

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        yield io.BytesIO()


class _WatchedFiles(FileSystemBase):
    """Other files, whose calls are noted in `progress`."""

    def __init__(self, files: FileSystemBase, progress: WriteProgress) -> None:
        self._files = files
        self._progress = progress

    @contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[Any]:
        self._progress.files += 1
        with self._progress.using(path), self._files.create_stream(path, mode) as stream:
            yield _CountedStream(stream, self._progress)

    def concat_path(self, path: Any, suffix: str) -> Any:
        return self._files.concat_path(path, suffix)

    def init_path(self, path: Any) -> Any:
        return self._files.init_path(path)

    def mkdir(self, path: Any) -> None:
        with self._progress.using(path):
            self._files.mkdir(path)

    def rename(self, path: Any, new_path: Any) -> None:
        with self._progress.using(new_path):
            self._files.rename(path, new_path)

    def exists(self, path: Any) -> bool:
        with self._progress.using(path):
            return self._files.exists(path)

    def rm_file(self, path: Any) -> None:
        with self._progress.using(path):
            self._files.rm_file(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:  # noqa: ARG003
        return True


class StorageReader(FileSystemReader):
    """Reads a checkpoint, and of each file what this rank needs: several files at a time, or several parts of them."""

    def __init__(self, filesystem: ArrowFileSystem, path: str) -> None:
        super().__init__(path)
        self._is_path = filesystem.type_name == LOCAL
        self._read: Dict[Slice, memoryview] = {}
        if not self._is_path:
            self._filesystem = filesystem
            self.fs = cast(Any, _ArrowFiles(filesystem))
            self.path = cast(Any, path)

    def has_metadata(self) -> bool:
        """Returns whether there is a checkpoint of `torch.distributed.checkpoint`."""
        return self.fs.exists(self.fs.concat_path(self.path, ".metadata"))

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        if self._is_path:
            self._read_files(plan, planner)
        else:
            self._read_slices(plan, planner)
        result: Future[None] = Future()
        result.set_result(None)
        return result

    def _read_files(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        of_file: Dict[str, List[ReadItem]] = {}
        for item in plan.items:
            of_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)

        def read(items: List[ReadItem]) -> None:
            super(StorageReader, self).read_data(replace(plan, items=items), planner)

        with ThreadPoolExecutor(READERS) as pool:
            for done in [pool.submit(read, items) for items in of_file.values()]:
                done.result()

    def _read_slices(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        of_slice: Dict[Slice, List[ReadItem]] = {}
        for item in plan.items:
            of_slice.setdefault(_locate(self.storage_data[item.storage_index]), []).append(item)
        files = self.fs
        self.fs = cast(Any, _NoFiles(self._filesystem))
        try:
            with SliceReader(lambda name: self._filesystem.open_input_file(f"{self.path}/{name}")) as reader:
                for batch in cut_batches(of_slice):
                    self._read = reader.read(batch)
                    items = [item for piece in batch for item in of_slice[piece]]
                    super().read_data(replace(plan, items=items), planner)
        finally:
            self.fs = files
            self._read = {}

    def _slice_file(self, file: Any, sinfo: Any) -> Any:
        found = self._read.get(_locate(sinfo))
        if found is None:
            return super()._slice_file(file, sinfo)
        return io.BytesIO(found)


def _locate(info: Any) -> Slice:
    """Returns where torch has put an item. `info`: torch's _StorageInfo."""
    return Slice(info.relative_path, info.offset, info.length)


class StorageWriter(FileSystemWriter):
    """Writes a checkpoint where it is to stay.

    `copy`: makes the copy of the state from which it is written while training continues. `check`: is called before
    the first write, in the thread that writes.
    """

    def __init__(
        self,
        filesystem: ArrowFileSystem,
        path: str,
        progress: WriteProgress,
        *,
        copy: StateCopy,
        check: Callable[[], None],
    ) -> None:
        is_path = filesystem.type_name == LOCAL
        # An object store keeps a file once its stream is closed.
        super().__init__(path, sync_files=is_path)
        self._progress = progress
        self._copy = copy
        self._check = check
        files = FileSystem() if is_path else _ArrowFiles(filesystem)
        self.fs = cast(Any, _WatchedFiles(files, progress))
        self.path = cast(Any, files.init_path(path))

    def stage(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        return self._copy.take(state_dict)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        with self._progress.using(self.path):
            self._check()
        return super().prepare_local_plan(plan)
