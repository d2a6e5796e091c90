"""Sharded checkpoints by `torch.distributed.checkpoint`: each rank writes its own part of the state.

Call `dcp.load(state)` before the loop, `dcp.save(state, metrics=..., every="auto")` in each step, and `dcp.save(state)`
after the loop.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from railhead.training._checkpoints import find_checkpoint, is_rank, report_folder
from railhead.training._paced_saves import Metrics, PacedSaves, State, make_gloo_group
from railhead.training._save_pace import Every
from railhead.training._storage_files import StorageReader

__all__ = ["load", "save"]

_group: Optional[dist.ProcessGroup] = None
_paced: Optional[PacedSaves] = None


def save(state: State, *, metrics: Metrics = None, every: Optional[Every] = None) -> bool:
    """Saves `state` and reports it with `metrics` as one checkpoint. Every rank must call it.

    Args:
        state: as `torch.distributed.checkpoint.save` takes it, with the same keys on all ranks. What several ranks
            have in common is written once. With `every` it may be a function that returns it, as may `metrics`: it is
            called only when a save begins.
        every: saves only when a save is due, in the background; call it in each step of the loop. Seconds between two
            saves; "auto": as often as costs least, waiting in at most 1 % of the time, and at most every 30 s;
            "continuous": again as soon as the last save is committed. All ranks agree about every two seconds on what
            is due, also when the run or a node is about to end; other calls take under 1 us. A save whose storage
            does not answer is given up after 5 minutes, and training continues. Call `save` without `every` after the
            loop: it commits what is being written, and saves the end.

    Returns whether a save was made, or with `every` whether one has begun.

    An error in the background ends the run as an error of the training function. Outside of Ray Train it does nothing.
    Raises ValueError if several ranks have no `torch.distributed`, or for another value of `every`.
    """
    if every is not None:
        return _save_when_due(state, metrics, every)
    if not is_rank():
        return False
    if _paced is not None:
        _paced.finish()
    group = _find_group()
    numbers = metrics() if callable(metrics) else metrics

    def write(folder: str) -> None:
        found = state() if callable(state) else state
        state_dict_saver.save(found, storage_writer=FileSystemWriter(folder), process_group=group)

    report_folder(write, numbers)
    return True


def _save_when_due(state: State, metrics: Metrics, every: Every) -> bool:
    global _paced
    if _paced is None or _paced.every != every:
        if not is_rank():
            return False
        _check_ranks()
        if _paced is not None:
            _paced.finish()
        _paced = PacedSaves(every)
    return _paced.step(state, metrics)


def load(state: Dict[str, Any]) -> bool:
    """Loads the run's last checkpoint into `state`, with any number of ranks. Every rank must call it.

    Args:
        state: as `torch.distributed.checkpoint.load` takes it: tensors are filled in place, other values replaced,
            and objects with `load_state_dict` load theirs.

    Each rank reads the bytes that it needs from where they are, several files at a time. Returns whether there was a
    checkpoint. Raises ValueError if another library has written it, or if several ranks have no `torch.distributed`.
    """
    checkpoint = find_checkpoint()
    if checkpoint is None:
        return False
    reader = StorageReader(checkpoint.filesystem, checkpoint.path)
    if not reader.has_metadata():
        raise ValueError(f"{checkpoint.path} was not saved by torch.distributed.checkpoint: it has no .metadata")
    state_dict_loader.load(state, storage_reader=reader, process_group=_find_group())
    return True


def _find_group() -> Optional[dist.ProcessGroup]:
    """Returns a gloo group of all ranks: NCCL, which training may use, would send what they agree on through GPUs."""
    global _group
    _check_ranks()
    if _group is None:
        _group = make_gloo_group()
    return _group


def _check_ranks() -> None:
    """Raises ValueError if the ranks cannot reach each other: each would write its whole state over the others'."""
    import ray.train

    world = ray.train.get_context().get_world_size()
    if world > 1 and not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            f"railhead.training.dcp needs torch.distributed, which these {world} ranks have not initialized: use Ray "
            "Train's TorchTrainer, or call torch.distributed.init_process_group first"
        )
