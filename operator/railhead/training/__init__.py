"""What training code may ask Railhead on any rank, which run and attempt this is and whether the run or its node ends,
and what it may tell: how far it is, which of its code only computes, and where a tracker shows the run.

Every pod of a job has this package, whatever its image contains. It runs on Python 3.9, needs the standard library
only, and does nothing outside of a TrainJob: the same code runs on a laptop.
"""

from __future__ import annotations

import functools
import os
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Optional, Tuple

from railhead.contract import environment
from railhead.contract.trackers import RUN_ID
from railhead.driver.rank.sections import SECTIONS
from railhead.driver.rank.steps import note_progress
from railhead.driver.rank.tracker_link import note_link

__all__ = ["EndNotice", "attempt", "compute", "end_notice", "link_tracker", "progress", "run_id"]


@dataclass(frozen=True)
class EndNotice:
    """The run, or the node of some of its ranks, is about to end.

    Attributes:
        deadline: when, in seconds of the epoch (`time.time()`); None if the platform has not said.
        ranks: the world ranks that end then, in order; all of them before the run ends.
    """

    deadline: Optional[float]
    ranks: Tuple[int, ...]


def attempt() -> int:
    """Returns the number of the job's attempt that this process belongs to, from 1; 1 outside of a TrainJob."""
    return int(os.environ.get(environment.ATTEMPT) or 1)


def compute() -> AbstractContextManager[None]:
    """Marks code that computes without waiting for other ranks, so that status.progress.slowRanks names slow ranks.

    Use it in each step, on every rank: `with railhead.training.compute(): loss = loss_of(model(batch))`. What it
    measures must be the same work on all ranks and have no collective in it, such as the forward pass and the loss,
    but not `backward()`, which waits for the others under DDP. On a CUDA or ROCm GPU its events measure it, and
    elsewhere the host's clock does, so a device of another kind must have finished the work when the block ends.
    Costs a few microseconds, and waits for nothing. Has no effect outside of a TrainJob.
    """
    return SECTIONS


def end_notice() -> Optional[EndNotice]:
    """Returns the notice that has reached this rank, or None; always None outside of a TrainJob and before Ray 2.58.

    It asks no other rank, so that a call costs a few microseconds, and `ray.train.get_preemption_info()` a barrier of
    all ranks. But the notice reaches the ranks up to two seconds apart: let them agree, such as by an all_reduce of
    one byte, before they save a checkpoint together.
    """
    from railhead.driver.ray.train_context import read_notice

    found = read_notice()
    if found is None:
        return None
    deadline = found.deadline_ms / 1000 if found.deadline_ms else None
    return EndNotice(deadline, tuple(found.preempted_ranks))


def link_tracker(url: str) -> None:
    """Shows the address of a tracker's page of this run in status.trackerURL and `railhead ui`.

    The link of `railhead.training.mlflow.start_run` and of Weights & Biases is shown without it; this one goes before
    them. Costs microseconds, and asks no server. An address that is not http or https, that is longer than 1,024
    characters or that holds a credential of this process is not shown; a user in it is left out.

    Raises:
        TypeError: it is not a text.
    """
    if not isinstance(url, str):
        raise TypeError(f"railhead.training.link_tracker: url must be a text, not {url!r:.200}")
    note_link(url)


def progress(step: int, total: Optional[int] = None, tokens: Optional[int] = None) -> None:
    """Says how far training is, for status.progress and for the detection of hangs.

    Costs about a microsecond and asks no other rank, so call it in every step, on every rank, and in long evaluations
    with the same step again: a rank that calls it is alive. Rank 0's numbers are shown. Has no effect outside of a
    TrainJob.

    Args:
        step: steps of the whole run so far, those before the checkpoint that it resumed from included.
        total: steps that the run will have; None if it is not known.
        tokens: tokens that all ranks together have trained on since the run began; None if training has none.

    Raises:
        TypeError: one of them is not an integer.
    """
    note_progress(step, total, tokens)


def run_id() -> str:
    """Returns an id of the run for trackers.

    It is the same on all ranks, in all attempts and in each job that continues the run; no other run has it, also in
    another cluster. It has at most 54 letters, digits, dots, underscores and hyphens. Outside of a TrainJob each
    process has another one.
    """
    return os.environ.get(RUN_ID) or _make_id()


@functools.lru_cache(maxsize=1)
def _make_id() -> str:
    return uuid.uuid4().hex[:8]
