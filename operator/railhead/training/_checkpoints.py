"""The run's checkpoints, for the modules of each framework.

All ranks learn on the same step that a save is due, or that the run or a node is about to end, so that they save a
checkpoint together; a folder that all ranks write to becomes one; and a resumed run begins with the last.
"""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from railhead import training
from railhead.driver.rank.steps import read_losses, saving
from railhead.driver.ray.train_context import NOTICES
from railhead.training._save_pace import Every, SavePace

if TYPE_CHECKING:
    from ray.train import Checkpoint
    from torch.distributed import ProcessGroup

LOOK_SECONDS = 2.0  # between two looks of the ranks at each other, which is also how far apart they receive a notice
# So many steps at most without a look, however fast they are: later ones may be slower.
MAX_STEPS = 100


@dataclass(frozen=True)
class Look:
    """What all ranks know after one look at each other.

    Attributes:
        has_notice: the run, or a node of it, is about to end, and no rank has known it at an earlier look.
        votes: each is the largest of all ranks.
    """

    has_notice: bool
    votes: Tuple[int, ...] = ()


class Looks:
    """The looks of all ranks of one training loop at each other; each has its part.

    `group`: the process group of the looks; None = the default one.
    """

    def __init__(self, group: Optional[ProcessGroup] = None) -> None:
        self._group = group
        self._handled: Set[int] = set()
        self._wait = self._steps_left = 1
        self._looked_at = time.monotonic()

    def step(self, vote: Callable[[], Tuple[int, ...]]) -> Optional[Look]:
        """Returns None on most steps, at no cost. All ranks must call it equally often, once per step.

        About every two seconds, at the latest every 100 steps, the ranks vote: an all_reduce of some bytes, if there is
        a process group.
        """
        self._steps_left -= 1
        if self._steps_left > 0:
            return None
        return self.look(vote)

    def look(self, vote: Callable[[], Tuple[int, ...]]) -> Look:
        """Looks now. All ranks must call it."""
        now = time.monotonic()
        steps = int(self._wait * LOOK_SECONDS / max(now - self._looked_at, 1e-6))
        wait = min(MAX_STEPS, max(1, steps))
        notice = training.end_notice()
        # The same number in every process, which `hash` is not; 0 = no notice.
        mark = zlib.crc32(repr(notice).encode()) if notice else 0
        if mark in self._handled:
            mark = 0
        # The largest negative number is the shortest wait, so that all ranks look again on the same step.
        agreed, negative_wait, *votes = _reduce([mark, -wait, *vote()], self._group)
        self._wait = self._steps_left = -negative_wait
        self._looked_at = now
        if agreed:
            self._handled.add(agreed)
        return Look(agreed > 0, tuple(votes))


class Agreement:
    """The agreement of all ranks of one training loop on when they save, while training waits for each save.

    `every`: seconds or "auto", as `dcp.save` takes it; None = only for a notice.

    Attributes:
        has_notice: the last save was due because the run or a node is about to end.
    """

    def __init__(self, every: Optional[Every] = None) -> None:
        """Raises ValueError."""
        if every == "continuous":
            raise ValueError('every="continuous" needs saves in the background, as railhead.training.dcp makes them')
        self._pace: Optional[SavePace] = None
        if every is not None:
            pace = SavePace(every, ranks=count_ranks(), now=time.monotonic())
            self._pace = pace if is_rank() else None  # nothing takes a report elsewhere
        self._looks = Looks()
        self.has_notice = False

    def is_time_to_save(self) -> bool:
        """Returns whether there is a new notice or a save is due: the same on the same call of every rank.

        All ranks must call it equally often, once per step. It is always False outside of Ray Train, and without
        `every` outside of a TrainJob.
        """
        if self._pace is None and not NOTICES.are_watched:
            return False
        found = self._looks.step(self._vote)
        if found is None:
            return False
        [is_early] = found.votes
        self.has_notice = found.has_notice
        is_due = found.has_notice or not is_early
        if is_due and self._pace is not None:
            self._pace.begin(time.monotonic())
        return is_due

    def note_save(self, seconds: float) -> None:
        """Notes for how long training has waited for the save."""
        if self._pace is not None and self._pace.has_begun:
            self._pace.add_stall(seconds)

    def _vote(self) -> Tuple[int, ...]:
        if self._pace is None:
            return (1,)
        self._pace.note_losses(read_losses())
        return (int(not self._pace.is_due(time.monotonic())),)


def _reduce(values: List[int], group: Optional[ProcessGroup]) -> List[int]:
    """Returns the largest of all ranks, of each value."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return values
    devices = [part.partition(":")[0] for part in dist.get_backend_config(group).split(",")]
    together = torch.tensor(values, device="cpu" if "cpu" in devices else devices[0])
    dist.all_reduce(together, op=dist.ReduceOp.MAX, group=group)
    agreed: List[int] = together.tolist()
    return agreed


def count_ranks() -> int:
    """Returns how many ranks this process is one of."""
    if not is_rank():
        return 1
    import ray.train

    world: int = ray.train.get_context().get_world_size()
    return world


def is_rank() -> bool:
    """Returns whether this process is a rank of a Ray Train run, in a TrainJob or not; elsewhere nothing takes a
    report."""
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
        with saving():
            write(folder)
        made = ray.train.Checkpoint.from_directory(folder) if os.listdir(folder) else None
        ray.train.report(metrics or {}, checkpoint=made)
