"""Checks that all worker pods see the storage that the head sees, for each new worker group, before train_func.

A path that only one pod can see (no volume, an emptyDir, a claim that another node cannot mount)
would otherwise surface at the first checkpoint, or at the next attempt as a run that starts from scratch.
A URI needs no such check.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Optional

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.describe import describe_exception, read_text
from railhead.driver.errors import JobRefused, Unreachable
from railhead.driver.storage.acquire_run import PROBE
from railhead.driver.storage.call import UNREACHABLE, is_passing
from railhead.driver.train_controller.group import freed_on_error

MARKER = ".railhead-shared-check-"
# A network file system may show a new file late, because it caches the listing of a folder for a while.
PATIENCE, PAUSE = 6.0, 0.5  # seconds
ANSWER_TIMEOUT = 60.0  # seconds; a file system that hangs is not necessarily the wrong one


class SharedStorageCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Ends the run before it trains if a worker does not see the head's file.

    Storage that all pods have shared before is tried again instead.
    """

    def __init__(self) -> None:
        self._was_shared = int(os.environ.get(e.CHECKPOINT_INDEX) or -1) >= 0

    @freed_on_error
    def after_worker_group_start(self, worker_group: Any) -> None:
        """Raises JobRefused or Unreachable. Ray's error for a worker that dies meanwhile propagates."""
        folder = find_run_folder(worker_group)
        if folder is None:
            return
        _remove_old_markers(Path(folder))
        marker = Path(folder, f"{MARKER}{uuid.uuid4().hex}")
        try:
            marker.write_text(marker.name)
        except OSError as error:
            _log(f"did not check that all pods share {folder}: {read_text(error)}")
            _remove(marker)  # a full disk takes an empty file
            return
        try:
            answers = _call_workers(worker_group, marker)
        finally:
            _remove(marker)
        problem = explain_answers(str(Path(folder).parent), answers)
        if problem:
            raise (Unreachable if self._was_shared else JobRefused)("StorageNotShared", problem)
        self._was_shared = self._was_shared or bool(answers)


def find_run_folder(worker_group: Any) -> Optional[str]:
    """The run's folder when the storage is a path; the actual one, even if a script chose it."""
    storage = worker_group._storage_context
    return str(storage.experiment_fs_path) if storage.storage_filesystem.type_name == "local" else None


def _call_workers(worker_group: Any, marker: Path) -> list[tuple[str, str]]:
    import ray

    rank_of_node = {worker.metadata.node_id: rank for rank, worker in enumerate(worker_group.get_workers())}
    references = [worker_group.execute_single_async(rank, find_marker, str(marker)) for rank in rank_of_node.values()]
    try:
        return list(ray.get(references, timeout=ANSWER_TIMEOUT))
    except ray.exceptions.GetTimeoutError:
        _log(f"did not check that all pods share {marker.parent}: a worker did not respond in {ANSWER_TIMEOUT:.0f} s")
        return []
    except ray.exceptions.RayTaskError as error:
        if not is_passing(error):
            raise
        raise Unreachable(UNREACHABLE, f"run.storagePath {marker.parent}: {read_text(error.cause)}") from error


def find_marker(path: str, patience: float = PATIENCE) -> tuple[str, str]:
    """(this pod, the problem or an empty string), on a worker. Raises OSError while its mount does not work."""
    pod = os.environ.get(e.POD_NAME, "of another node")
    deadline = time.monotonic() + patience
    problem, error = _find_problem(path)
    while problem and time.monotonic() < deadline:
        time.sleep(PAUSE)
        problem, error = _find_problem(path)
    if error is not None and is_passing(error):
        raise OSError(error.errno, f"worker pod {pod}: {describe_exception(error)}")
    return pod, problem


def _find_problem(path: str) -> tuple[str, Optional[OSError]]:
    try:
        if Path(path).read_text() != Path(path).name:
            return "does not see", None
    except OSError as error:
        return "does not see", error
    return "" if os.access(os.path.dirname(path), os.W_OK) else "can read but not write", None


def explain_answers(storage_path: str, answers: list[tuple[str, str]]) -> str:
    """The message for the user, or an empty string."""
    problems = sorted({(pod, problem) for pod, problem in answers if problem})
    if not problems:
        return ""
    pod, problem = problems[0]
    others = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return (
        f"run.storagePath {storage_path}: the head pod wrote a file there that worker pod {pod}{others} {problem}; "
        "use run.storageVolume with a claim that all pods can mount for writing (ReadWriteMany), or a URI such as "
        "s3://bucket/path"
    )


def _remove_old_markers(folder: Path) -> None:
    """Of heads that died before they could. An older head that is still checking has lost the run anyway."""
    try:
        for marker in (*folder.glob(f"{MARKER}*"), *folder.glob(f"{PROBE}*")):
            _remove(marker)
    except OSError as error:
        _log(f"cannot look for old markers: {read_text(error)}")


def _remove(marker: Path) -> None:
    try:
        marker.unlink(missing_ok=True)
    except OSError as error:
        _log(f"cannot remove {marker}: {read_text(error)}")


def _log(text: str) -> None:
    print(f"railhead: run.storagePath: {text}", file=sys.stderr, flush=True)
