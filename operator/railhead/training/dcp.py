"""Sharded checkpoints by `torch.distributed.checkpoint`: each rank writes its own part of the state.

Call `dcp.load(state)` before the loop, and in it `dcp.save(state, metrics={"loss": loss}, in_background=True)`.
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import Future
from typing import Any, Dict, Optional, cast

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

from railhead.training._checkpoints import find_checkpoint, is_rank, report_folder

__all__ = ["load", "save"]

_last: Optional[Future[Any]] = None  # what writes the files of the last save in the background
_group: Optional[dist.ProcessGroup] = None


def save(state: Dict[str, Any], *, metrics: Optional[Dict[str, Any]] = None, in_background: bool = False) -> None:
    """Saves `state` and reports it with `metrics` as one checkpoint. Every rank must call it.

    Args:
        state: as `torch.distributed.checkpoint.save` takes it, with the same keys on all ranks. What several ranks
            have in common is written once.
        in_background: returns once the state is copied to the memory of the host and all ranks have called. Writing
            and uploading continue beside training; a save waits until the files of the one before are written.

    An error in the background ends the run as an error of the training function. Outside of Ray Train it does nothing.
    """
    global _last
    if not is_rank():
        return
    group = _find_group()
    if _last is not None:
        _wait(_last)
        _last = None
    if in_background:
        _last = _save_in_background(state, metrics, group)
    else:
        report_folder(
            lambda folder: state_dict_saver.save(state, storage_writer=FileSystemWriter(folder), process_group=group),
            metrics,
        )


def _save_in_background(
    state: Dict[str, Any], metrics: Optional[Dict[str, Any]], group: Optional[dist.ProcessGroup]
) -> Future[Any]:
    import ray.train

    storage = ray.train.get_context().get_storage()
    folder = tempfile.mkdtemp(prefix="checkpoint-")  # Ray deletes it after the upload
    writer = FileSystemWriter(folder)
    written = cast("Future[Any]", state_dict_saver.async_save(state, storage_writer=writer, process_group=group))

    def upload(checkpoint: ray.train.Checkpoint, name: str) -> ray.train.Checkpoint:
        _wait(written)
        return storage.persist_current_checkpoint(checkpoint, name)

    ray.train.report(
        metrics or {},
        checkpoint=ray.train.Checkpoint.from_directory(folder),
        checkpoint_upload_mode=ray.train.CheckpointUploadMode.ASYNC,
        checkpoint_upload_fn=upload,
    )
    return written


def _wait(written: Future[Any]) -> None:
    """Raises an Exception if the files could not be written: that of torch is a BaseException, which Ray would miss."""
    error = written.exception()
    if error is not None:
        raise RuntimeError(f"a checkpoint could not be written in the background: {error}") from error


def load(state: Dict[str, Any]) -> bool:
    """Loads the run's last checkpoint into `state`, with any number of ranks. Every rank must call it.

    Args:
        state: as `torch.distributed.checkpoint.load` takes it: tensors are filled in place, other values replaced,
            and objects with `load_state_dict` load theirs.

    Returns whether there was a checkpoint. Raises ValueError if another library has written it. From a storage
    that is not a path, each node downloads the whole checkpoint first.
    """
    checkpoint = find_checkpoint()
    if checkpoint is None:
        return False
    with checkpoint.as_directory() as folder:
        if not os.path.exists(os.path.join(folder, ".metadata")):
            raise ValueError(f"{checkpoint.path} was not saved by torch.distributed.checkpoint: it has no .metadata")
        state_dict_loader.load(state, storage_reader=FileSystemReader(folder), process_group=_find_group())
    return True


def _find_group() -> Optional[dist.ProcessGroup]:
    """A group of all ranks for checkpoints alone: a save in the background must not meet collectives of training."""
    global _group
    if _group is None and dist.is_available() and dist.is_initialized():
        _group = cast(dist.ProcessGroup, dist.new_group(backend="gloo"))
    return _group
