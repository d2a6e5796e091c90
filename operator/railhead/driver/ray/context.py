"""A rank's train context: its reports and uploads, the notice of the end that it gets, and its first checkpoint.

All uploads of a rank, in the background or not, go through TrainContext's `report` and `_upload_checkpoint`. Ray's
public `ray.train.get_preemption_info`, however it was imported, calls the method that is watched here: a function that
returns after it has learned of the end may have stopped early, so `train_controller.polls` does not take it for a
success while the run ends.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from dataclasses import dataclass
from typing import Any, Callable, ContextManager, Optional, Sequence, Tuple

from railhead.driver.describe import log
from railhead.driver.ray.types import Checkpoint, Storage, TrainContext, Worker

REPORT, UPLOAD = "report", "_upload_checkpoint"
METHODS = {
    REPORT: ["self", "metrics", "checkpoint", "checkpoint_dir_name"],
    UPLOAD: ["self", "checkpoint_dir_name", "metrics", "checkpoint"],
}
NOTICE = "get_preemption_info"
_WATCHED, _CALLED = "_railhead_is_watched", "_railhead_called"
TIMES = "_railhead_times"  # plain numbers, which any process can unpickle: see `reporting.progress.ReportTimes`
_Method = Callable[..., Any]  # one of Ray's, which is handed what it was called with


@dataclass(frozen=True)
class Watch:
    """The functions that are called around a rank's reports and uploads.

    Attributes:
        reporting: for each report, from its begin to its end.
        read_times: of this rank, as in `rank.steps`.
        announce: on rank 0, with the folder of a checkpoint before the other ranks learn its name.
        uploading: with the folder and the path of the rank's own copy, for its upload.
        after_upload: with the folder, and with the path where the checkpoint is.
    """

    reporting: Callable[[], ContextManager[None]]
    read_times: Callable[[], Tuple[float, float]]
    announce: Callable[[Storage, str], None]
    uploading: Callable[[Storage, str, str], ContextManager[None]]
    after_upload: Callable[[Storage, str, str], None]


def watch_reports(watch: Watch) -> None:
    """Once per process. Without effect in a Ray whose methods take something else."""
    from ray.train.v2._internal.execution.context import TrainContext as Context

    if not hasattr(Context, _WATCHED) and all(_takes(Context, name, METHODS[name]) for name in METHODS):
        setattr(Context, REPORT, _watch_report(getattr(Context, REPORT), watch))
        setattr(Context, UPLOAD, _watch_upload(getattr(Context, UPLOAD), watch))
        setattr(Context, _WATCHED, True)


def _takes(context: type, method: str, names: list[str]) -> bool:
    found = getattr(context, method, None)
    return found is not None and list(inspect.signature(found).parameters)[: len(names)] == names


def _watch_report(report: _Method, watch: Watch) -> _Method:
    @functools.wraps(report)
    def announce_and_report(
        self: TrainContext,
        metrics: object,
        checkpoint: Optional[object] = None,
        checkpoint_dir_name: Optional[str] = None,
        *others: object,
        **options: object,
    ) -> object:
        with watch.reporting():
            if checkpoint is not None:
                _attach(checkpoint, _CALLED, watch.read_times()[1])
            mode = options.get("checkpoint_upload_mode", others[0] if others else None)
            if checkpoint is not None and getattr(mode, "name", "") != "NO_UPLOAD" and self.get_world_rank() == 0:
                checkpoint_dir_name = checkpoint_dir_name or self.storage_context.make_default_checkpoint_dir_name()
                watch.announce(self.storage_context, checkpoint_dir_name)
            return report(self, metrics, checkpoint, checkpoint_dir_name, *others, **options)

    return announce_and_report


def _watch_upload(upload: _Method, watch: Watch) -> _Method:
    @functools.wraps(upload)
    def watched_upload(
        self: TrainContext,
        checkpoint_dir_name: str,
        metrics: object,
        checkpoint: Optional[Checkpoint] = None,
        *others: object,
        **options: object,
    ) -> object:
        if checkpoint is None:
            return upload(self, checkpoint_dir_name, metrics, checkpoint, *others, **options)
        with watch.uploading(self.storage_context, checkpoint_dir_name, checkpoint.path):
            done = upload(self, checkpoint_dir_name, metrics, checkpoint, *others, **options)
        if done.checkpoint is not None:
            blocked, trained = watch.read_times()
            _attach(done.checkpoint, TIMES, (blocked, trained - getattr(checkpoint, _CALLED, trained)))
            watch.after_upload(self.storage_context, checkpoint_dir_name, done.checkpoint.path)
        return done

    return watched_upload


def _attach(checkpoint: object, name: str, value: object) -> None:
    """It travels with Ray's object, also to the controller. One that does not take it is as good."""
    with contextlib.suppress(Exception):
        setattr(checkpoint, name, value)


@dataclass
class Notices:
    """The notices of the end in this process, which runs the user's function once."""

    are_watched: bool = False
    was_read: bool = False


NOTICES = Notices()


def watch_notices() -> None:
    """Once per process. Without effect in a Ray older than 2.58, which sends none."""
    from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils as Utils

    original = getattr(Utils, NOTICE, None)
    if original is None or NOTICES.are_watched:
        return

    @functools.wraps(original)
    def note_and_return(self: object) -> object:
        found: object = original(self)
        NOTICES.was_read |= found is not None
        return found

    setattr(Utils, NOTICE, note_and_return)
    NOTICES.are_watched = True


def read_notice() -> Any:
    """Returns Ray's PreemptionInfo as it has reached this rank, or None. Asks no other rank."""
    if not NOTICES.are_watched:
        return None
    from ray.train.v2._internal.execution.context import get_train_context

    found = get_train_context().preemption_context.preemption_info
    NOTICES.was_read |= found is not None
    return found


def notify_ranks(workers: Sequence[Worker], *, deadline: float) -> None:
    """Sends the `deadline`, in seconds of the epoch, to each rank, as Ray's own watcher does. Waits for no answer."""
    try:
        from ray.train.v2.api.preemption import PreemptionInfo
    except ImportError:
        log("this Ray cannot notify the ranks that the run ends (Ray 2.58 or newer can)")
        return
    ranks_of_nodes: dict[str, list[int]] = {}
    for rank, worker in enumerate(workers):
        ranks_of_nodes.setdefault(worker.metadata.node_id, []).append(rank)
    info = PreemptionInfo(deadline_ms=int(deadline * 1000), preempted_node_to_ranks=ranks_of_nodes)
    for worker in workers:
        worker.actor.mark_preempt.remote(info)
    log(f"notified {len(workers)} ranks that the run ends (ray.train.get_preemption_info)")


def start_from_checkpoint(uri: str) -> None:
    """Makes `ray.train.get_checkpoint()` return this one (spec.resumeFrom), unless the run has a checkpoint.

    Ray's trainers no longer have a parameter for it, and a callback cannot set it. Ray's checkpoint manager never
    learns of it, so this run never deletes it.
    """
    if not uri:
        return
    from ray.train import Checkpoint
    from ray.train.v2._internal.execution.context import get_train_context

    context = get_train_context()
    if context.checkpoint is None:
        context.checkpoint = Checkpoint(uri)
