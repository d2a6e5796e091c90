"""Before a rank uploads a checkpoint, the upload is recorded in the run's folder (`storage.leftovers`).

Rank 0 does it before the other ranks learn the folder's name, so that one small write per checkpoint is enough and
no upload begins earlier. A rank that finds no record, because rank 0 has no checkpoint or its write is
slow, writes it right before its own upload. An error costs only the record. Reaches into Ray: all
uploads of a rank, in the background or not, go through these two methods.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from typing import Any, Callable

from railhead.driver.describe import describe_exception
from railhead.driver.rank.steps import reporting
from railhead.driver.storage.leftovers import is_recorded, keep_uploads, record_upload
from railhead.driver.storage.run_folder import RunFolder

REPORT, UPLOAD = "report", "_upload_checkpoint"
METHODS = {
    REPORT: ["self", "metrics", "checkpoint", "checkpoint_dir_name"],
    UPLOAD: ["self", "checkpoint_dir_name", "metrics", "checkpoint"],
}
PATIENCE = 1.0  # seconds that a report waits for the record, for storage that hangs
_WATCHED = "_railhead_is_watched"
_Method = Callable[..., Any]
_reports = 0


def watch_uploads() -> None:
    """Once per process. Without effect in a Ray whose methods take something else."""
    from ray.train.v2._internal.execution.context import TrainContext as Context

    if not hasattr(Context, _WATCHED) and all(_takes(Context, name, METHODS[name]) for name in METHODS):
        setattr(Context, REPORT, _watch_report(getattr(Context, REPORT)))
        setattr(Context, UPLOAD, _watch_upload(getattr(Context, UPLOAD)))
        setattr(Context, _WATCHED, True)


def count_reports() -> int:
    """How many this process has begun; the controller calls this on a worker."""
    return _reports


def _takes(context: Any, method: str, names: list[str]) -> bool:
    found = getattr(context, method, None)
    return found is not None and list(inspect.signature(found).parameters)[: len(names)] == names


def _watch_report(report: _Method) -> _Method:
    @functools.wraps(report)
    def record_and_report(
        self: Any, metrics: Any, checkpoint: Any = None, checkpoint_dir_name: Any = None, *others: Any, **options: Any
    ) -> Any:
        global _reports
        _reports += 1
        mode = options.get("checkpoint_upload_mode", others[0] if others else None)
        if checkpoint is not None and getattr(mode, "name", "") != "NO_UPLOAD" and self.get_world_rank() == 0:
            checkpoint_dir_name = checkpoint_dir_name or self.storage_context.make_default_checkpoint_dir_name()
            thread = threading.Thread(target=_record, args=(_find_folder(self), checkpoint_dir_name), daemon=True)
            thread.start()
            thread.join(PATIENCE)
        with reporting():
            return report(self, metrics, checkpoint, checkpoint_dir_name, *others, **options)

    return record_and_report


def _watch_upload(upload: _Method) -> _Method:
    @functools.wraps(upload)
    def record_and_upload(
        self: Any, checkpoint_dir_name: Any, metrics: Any, checkpoint: Any = None, *others: Any, **options: Any
    ) -> Any:
        folder = _find_folder(self)
        if checkpoint is not None:
            _record(folder, checkpoint_dir_name, is_new=False)
        done = upload(self, checkpoint_dir_name, metrics, checkpoint, *others, **options)
        if done.checkpoint is not None and not _is_within(done.checkpoint.path, folder.find(checkpoint_dir_name)):
            keep_uploads(folder)
        return done

    return record_and_upload


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _find_folder(context: Any) -> RunFolder:
    storage = context.storage_context
    return RunFolder(storage.storage_filesystem, storage.experiment_fs_path)


def _record(folder: RunFolder, name: str, *, is_new: bool = True) -> None:
    try:
        if is_new or not is_recorded(folder, name):
            record_upload(folder, name)
    except Exception as error:
        print(f"railhead: what {name} leaves may stay: {describe_exception(error)}", file=sys.stderr, flush=True)
