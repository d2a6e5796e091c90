"""A rank's train context: its reports and uploads, the notice of the end that it gets, and its first checkpoint.

All uploads of a rank, in the background or not, go through TrainContext's `report` and `_upload_checkpoint`, and Ray's
own copy of a folder goes through StorageContext's `persist_current_checkpoint`.

Ray's public `ray.train.get_preemption_info`, however it was imported, calls the method that is watched here: a function
that returns after it has learned of the end may have stopped early, so `train_controller.returns_step` does not take
it for a success while the run ends.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, ContextManager, Mapping, Optional, Protocol, Sequence, Tuple

from railhead.driver.messages.attempt_errors import TrainingError, explain_exception
from railhead.driver.messages.log import log
from railhead.driver.ray.types import RayCheckpoint, RayWorker, Storage, TrainContext

REPORT = "report"
UPLOAD = "_upload_checkpoint"
METHODS = {
    REPORT: ["self", "metrics", "checkpoint", "checkpoint_dir_name"],
    UPLOAD: ["self", "checkpoint_dir_name", "metrics", "checkpoint"],
}
NOTICE = "get_preemption_info"
# of StorageContext
COPY = "persist_current_checkpoint"
MARKER_CHECK = "_check_validation_file"
COPIED = ["self", "checkpoint", "checkpoint_dir_name"]
_WATCHED = "_railhead_is_watched"
_CALLED = "_railhead_called"
_FILES = "_railhead_files"
# Plain numbers, which any process can unpickle: those of `mailbox.progress.ReportTimes`, and how many files Ray has
# copied.
TIMES = "_railhead_times"
FILES = "_railhead_number_of_files"
_Method = Callable[..., Any]  # one of Ray's, which is handed what it was called with


class Files(Protocol):
    """The files of a checkpoint's local folder, as in `rank.checkpoint_files`."""

    @property
    def number(self) -> int: ...
    @property
    def size(self) -> int: ...
    def note(self) -> None: ...
    def find_damage(self, list_stored: Callable[[], Mapping[str, int]], /) -> str: ...


@dataclass(frozen=True)
class Watch:
    """The functions that are called around a rank's reports and uploads.

    Attributes:
        reporting: for each report, from its begin to its end.
        read_times: of this rank, as in `rank.steps`.
        convert: makes a report's metrics such that Ray Train can write them; the second argument says whether the
            report has a checkpoint, with which it does.
        announce: on rank 0, with the folder of a checkpoint before the other ranks learn its name.
        list_files: of a local folder, once they are noted; the second argument says whether training continues
            meanwhile.
        uploading: with the folder and the rank's own files, for its upload.
        copying: the same, for Ray's own copy, with the path of the rank's own folder.
        after_upload: with the folder, and with the path where the checkpoint is.
    """

    reporting: Callable[[], ContextManager[None]]
    read_times: Callable[[], Tuple[float, float]]
    convert: Callable[[Mapping[object, object], bool], Mapping[object, object]]
    announce: Callable[[Storage, str], None]
    list_files: Callable[[RayCheckpoint, bool], Files]
    uploading: Callable[[Storage, str, Files], ContextManager[None]]
    copying: Callable[[Storage, str, str, Files], ContextManager[None]]
    after_upload: Callable[[Storage, str, str], None]


@dataclass
class Reports:
    """The reports of this process, which runs the user's function once.

    Attributes:
        failed: the error of the first report that Ray has counted and that never came to its end.
        refused: the error of a later one: Ray would wait for that report without end.
    """

    failed: Optional[TrainingError] = None
    refused: Optional[TrainingError] = None


REPORTS = Reports()


@dataclass
class Notices:
    """The notices of the end in this process, which runs the user's function once."""

    are_watched: bool = False
    was_read: bool = False


NOTICES = Notices()


def watch_reports(watch: Watch) -> None:
    """Patches Ray's methods, once per process; without effect in a Ray whose methods take something else."""
    from ray.train.v2._internal.execution.context import TrainContext as Context
    from ray.train.v2._internal.execution.storage import StorageContext

    are_known = all(_takes(Context, name, METHODS[name]) for name in METHODS) and _takes(StorageContext, COPY, COPIED)
    if not hasattr(Context, _WATCHED) and are_known:
        setattr(Context, REPORT, _watch_report(getattr(Context, REPORT), watch))
        setattr(Context, UPLOAD, _watch_upload(getattr(Context, UPLOAD), watch))
        setattr(StorageContext, COPY, _watch_copy(getattr(StorageContext, COPY), watch))
        setattr(Context, _WATCHED, True)


def are_reports_watched() -> bool:
    """Returns whether this process is a rank of a TrainJob, whose reports are watched."""
    from ray.train.v2._internal.execution.context import TrainContext as Context

    return hasattr(Context, _WATCHED)


def attach_write(checkpoint: RayCheckpoint, *, times: Tuple[float, float], files: int) -> None:
    """Attaches what an upload of Ray's attaches to a checkpoint that is reported without one."""
    _attach(checkpoint, TIMES, times)
    _attach(checkpoint, FILES, files)


def check_mount(storage: Storage) -> None:
    """Raises RuntimeError if Ray's marker is not in the run's folder, as Ray does before each copy."""
    getattr(storage, MARKER_CHECK)()


def _takes(context: type, method: str, names: list[str]) -> bool:
    found = getattr(context, method, None)
    return found is not None and list(inspect.signature(found).parameters)[: len(names)] == names


def _watch_report(report: _Method, watch: Watch) -> _Method:
    names = list(inspect.signature(report).parameters)[len(METHODS[REPORT]) :]

    @functools.wraps(report)
    def announce_and_report(
        self: TrainContext,
        metrics: Mapping[object, object],
        checkpoint: Optional[RayCheckpoint] = None,
        checkpoint_dir_name: Optional[str] = None,
        *others: object,
        **options: object,
    ) -> object:
        _refuse_after_failure()
        named = {**dict(zip(names, others)), **options}
        mode = getattr(named.get("checkpoint_upload_mode"), "name", "")
        with watch.reporting():
            metrics = watch.convert(metrics, checkpoint is not None and self.get_world_rank() == 0)
            files = None
            if checkpoint is not None and mode != "NO_UPLOAD":
                checkpoint = copy.copy(checkpoint)  # the same object may be reported again before its upload begins
                _attach(checkpoint, _CALLED, watch.read_times()[1])
                if named.get("checkpoint_upload_fn") is None:
                    files = watch.list_files(checkpoint, mode == "ASYNC")
                    _attach(checkpoint, _FILES, files)
                if self.get_world_rank() == 0:
                    checkpoint_dir_name = checkpoint_dir_name or self.storage_context.make_default_checkpoint_dir_name()
                    watch.announce(self.storage_context, checkpoint_dir_name)
            with _noting_failure(self):
                done: object = report(self, metrics, checkpoint, checkpoint_dir_name, *others, **options)
            if files is not None and mode == "ASYNC":
                files.note()  # from now on the user's code may change the folder
            return done

    return announce_and_report


def _refuse_after_failure() -> None:
    failed = REPORTS.failed
    if failed is None:
        return
    text = (
        f"an earlier report of this rank failed, and the training function continued: {failed.text}; the ranks cannot "
        "report together any more, so let the exception of ray.train.report end the function"
    )
    REPORTS.refused = TrainingError(failed.kind, failed.rank, text, failed.exit_code)
    raise REPORTS.refused


def raise_refused_report() -> None:
    """Raises what a report has raised that was refused: the function may have caught it, and other ranks wait."""
    if REPORTS.refused is not None:
        raise REPORTS.refused


@contextlib.contextmanager
def _noting_failure(context: TrainContext) -> Iterator[None]:
    """Notes an exception of a report that Ray has counted already: its turn would never come to an end."""
    before = context.report_call_index
    try:
        yield
    except BaseException as error:
        if context.report_call_index != before:
            REPORTS.failed = explain_exception(error, context.get_world_rank())
        raise


def _watch_upload(upload: _Method, watch: Watch) -> _Method:
    @functools.wraps(upload)
    def watched_upload(
        self: TrainContext,
        checkpoint_dir_name: str,
        metrics: object,
        checkpoint: Optional[RayCheckpoint] = None,
        *others: object,
        **options: object,
    ) -> object:
        if checkpoint is None:
            return upload(self, checkpoint_dir_name, metrics, checkpoint, *others, **options)
        files: Optional[Files] = getattr(checkpoint, _FILES, None)
        with watch.uploading(self.storage_context, checkpoint_dir_name, files or watch.list_files(checkpoint, False)):
            done = upload(self, checkpoint_dir_name, metrics, checkpoint, *others, **options)
        if done.checkpoint is not None:
            blocked, trained = watch.read_times()
            _attach(done.checkpoint, TIMES, (blocked, trained - getattr(checkpoint, _CALLED, trained)))
            if files is not None:
                _attach(done.checkpoint, FILES, files.number)
            watch.after_upload(self.storage_context, checkpoint_dir_name, done.checkpoint.path)
        return done

    return watched_upload


def _watch_copy(persist: _Method, watch: Watch) -> _Method:
    """Watches Ray's copy, which the user's own checkpoint_upload_fn may call too, with files that are new."""

    @functools.wraps(persist)
    def watched_copy(self: Storage, checkpoint: RayCheckpoint, checkpoint_dir_name: str) -> object:
        files = getattr(checkpoint, _FILES, None) or watch.list_files(checkpoint, False)
        with watch.copying(self, checkpoint_dir_name, checkpoint.path, files):
            return persist(self, checkpoint, checkpoint_dir_name)

    return watched_copy


def _attach(checkpoint: object, name: str, value: object) -> None:
    """Attaches a value that travels with Ray's object to the controller; one that does not take it is as good."""
    with contextlib.suppress(Exception):
        setattr(checkpoint, name, value)


def watch_notices() -> None:
    """Notes when the user's code reads a notice, once per process; without effect before Ray 2.58, which sends none."""
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


def notify_ranks(workers: Sequence[RayWorker], *, deadline: float) -> None:
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
