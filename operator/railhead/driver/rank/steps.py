"""How far training is on this rank: numbers that Ray Train's controller reads while training runs.

Training writes them without a lock, without I/O and without the other ranks, and the controller reads them from
another thread (`train_controller.heartbeat_thread`). A reader may see the step of one call and the total of the call
before it, which does no harm.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Optional, SupportsIndex, Tuple

from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.driver.mailbox.heartbeat import NO_UPLOADS, GpuUse, Uploads
from railhead.driver.rank.tracker_link import read_link

MODULE = "torch.optim.optimizer"


@dataclass
class RankProgress:
    """How far the training of one process is, which trains once; the answer of its rank to the controller.

    Attributes:
        clock: seconds when it was read, by a clock of the process that never jumps.
        optimizer: steps of the optimizers of torch.
        calls: of `railhead.training.progress`.
        step, total, tokens: as its last call said; None if it did not.
        reports: how many calls of ray.train.report it has begun; `open_reports`: how many of them are under way.
        blocked: seconds in these calls, and in saves of `railhead.training` before them: of what has ended, and in an
            answer also of a call that is under way.
        report_began: when the last of them began, by the same clock.
        sections, section_seconds: how many sections of `railhead.training.compute` are over, and how long they took.
        uploads: of its checkpoints; `open_uploads`: how many of them are under way.
        stuck_save: why no checkpoints are written for now; empty while they are, or while none is due.
        has_returned: the function has returned, also if Ray Train's thread still waits for uploads.
        gpus: the use of its GPUs, at the time `gpus_clock` of the same clock.
        tracker_url: where a tracker shows its run, or empty.
    """

    clock: float = 0.0
    optimizer: int = 0
    calls: int = 0
    step: Optional[int] = None
    total: Optional[int] = None
    tokens: Optional[int] = None
    reports: int = 0
    open_reports: int = 0
    blocked: float = 0.0
    report_began: float = 0.0
    sections: int = 0
    section_seconds: float = 0.0
    uploads: Uploads = NO_UPLOADS
    open_uploads: int = 0
    stuck_save: str = ""
    has_returned: bool = False
    gpus: Tuple[GpuUse, ...] = ()
    gpus_clock: float = 0.0
    tracker_url: str = ""


STEPS = RankProgress()
_is_counting = False
_losses = NO_LOSSES


def note_progress(step: SupportsIndex, total: Optional[SupportsIndex], tokens: Optional[SupportsIndex]) -> None:
    """Raises TypeError for anything but integers."""
    found = STEPS
    found.step = _read("step", step)
    found.total = None if total is None else _read("total", total)
    found.tokens = None if tokens is None else _read("tokens", tokens)
    found.calls += 1


def read_beat() -> RankProgress:
    """Returns, on a worker, how far its training is."""
    now = time.monotonic()
    return replace(STEPS, clock=now, blocked=_count_blocked(now), tracker_url=read_link())


def exchange_beat(losses: LossHistory) -> RankProgress:
    """Answers the controller, which asks each worker every few seconds and tells what it knows of the run's losses."""
    global _losses
    _losses = losses
    return read_beat()


def read_losses() -> LossHistory:
    """Returns the run's losses as the controller has told them last; none in a run without a TrainJob."""
    return _losses


def read_times() -> Tuple[float, float]:
    """Returns the seconds that this process has spent in ray.train.report, and a clock that stands still meanwhile."""
    now = time.monotonic()
    blocked = _count_blocked(now)
    return blocked, now - blocked


def _count_blocked(now: float) -> float:
    """Counts the seconds in reports.

    Another thread may end one meanwhile. So the reports that have ended are read first: in the other order such a
    report would count twice.
    """
    blocked = STEPS.blocked
    return blocked + (max(now - STEPS.report_began, 0.0) if STEPS.open_reports else 0.0)


def watch_optimizers() -> None:
    """Counts the steps of all optimizers, once per process; without effect where torch is not imported yet."""
    global _is_counting
    register = getattr(sys.modules.get(MODULE), "register_optimizer_step_post_hook", None)
    if register is not None and not _is_counting:
        register(_count_step)
        _is_counting = True


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Marks a report: while it waits for the other ranks and the storage, no step is due."""
    # The tracker's run may be over when the controller asks next.
    read_link()
    STEPS.report_began = began = time.monotonic()
    STEPS.reports += 1
    STEPS.open_reports += 1
    try:
        yield
    finally:
        STEPS.open_reports -= 1
        STEPS.blocked += time.monotonic() - began


@contextlib.contextmanager
def saving() -> Iterator[None]:
    """Counts what training waits for its state to be copied or written, before the report, as the checkpoint's time."""
    began = time.monotonic()
    try:
        yield
    finally:
        STEPS.blocked += time.monotonic() - began


def _count_step(*_: object) -> None:
    STEPS.optimizer += 1


def _read(name: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"railhead.training.progress: {name} must be an integer, not {value!r}") from None
