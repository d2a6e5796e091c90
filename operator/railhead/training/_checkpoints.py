"""The run's checkpoints, for the modules of each framework.

All ranks learn on the same step that the run or a node is about to end, so that they save a checkpoint together; a
folder that all ranks write to becomes one; and a resumed run begins with the last.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Set, Tuple

from railhead import training
from railhead.driver.ray.train_context import NOTICES

if TYPE_CHECKING:
    from ray.train import Checkpoint

LOOK_SECONDS = 2.0  # between two looks of the ranks at each other, which is also how far apart they receive a notice
MAX_STEPS = 100  # without a look, however fast they are: later ones may be slower


class Agreement:
    """The agreement of all ranks of one training loop on when they save; each has its part."""

    def __init__(self) -> None:
        self._handled: Set[int] = set()
        self._wait = self._steps_left = 1
        self._looked_at = time.monotonic()

    def is_time_to_save(self) -> bool:
        """True once for each new notice, on the same call of every rank; False outside of a TrainJob.

        All ranks must call it equally often, once per step. About every two seconds, at the latest every 100 steps, a
        call is an all_reduce of 16 bytes in the default process group, if there is one; the others cost nothing.
        """
        self._steps_left -= 1
        if not NOTICES.are_watched or self._steps_left > 0:
            return False
        now = time.monotonic()
        steps = int(self._wait * LOOK_SECONDS / max(now - self._looked_at, 1e-6))
        notice = training.end_notice()
        mark = zlib.crc32(repr(notice).encode()) if notice else 0
        agreed, wait = _reduce(0 if mark in self._handled else mark, min(MAX_STEPS, max(1, steps)))
        self._wait = self._steps_left = wait
        self._looked_at = now
        if agreed:
            self._handled.add(agreed)
        return agreed > 0


def _reduce(mark: int, wait: int) -> Tuple[int, int]:
    """Returns the largest mark and the smallest wait of all ranks."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return mark, wait
    devices = [part.partition(":")[0] for part in dist.get_backend_config().split(",")]
    both = torch.tensor([mark, -wait], device="cpu" if "cpu" in devices else devices[0])
    dist.all_reduce(both, op=dist.ReduceOp.MAX)
    agreed, negative = both.tolist()
    return agreed, -negative


def is_rank() -> bool:
    """Whether this process is a rank of a Ray Train run, in a TrainJob or not; elsewhere nothing takes a report."""
    try:
        import ray.train

        ray.train.get_context()
    except (ImportError, RuntimeError):
        return False
    return True


def find_checkpoint() -> Optional[Checkpoint]:
    """Returns the run's last checkpoint; None if it has none, and outside of Ray Train."""
    if not is_rank():
        return None
    import ray.train

    return ray.train.get_checkpoint()


def report_folder(write: Callable[[str], object], metrics: Optional[Dict[str, Any]]) -> None:
    """Reports what `write(folder)` writes on each rank as one checkpoint; every rank must call it."""
    import ray.train

    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        write(folder)
        made = ray.train.Checkpoint.from_directory(folder) if os.listdir(folder) else None
        ray.train.report(metrics or {}, checkpoint=made)
