"""Checks that the pods of a worker group share the storage, before it trains, or a part of it that Ray has replaced.

A path that only one pod can see (no volume, an emptyDir, a claim that another node cannot mount)
would otherwise surface at the first checkpoint, or at the next attempt as a run that starts from scratch.
A URI needs no such check.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.driver.messages.attempt_errors import JobRefused, Unreachable
from railhead.driver.messages.exception_text import read_text
from railhead.driver.messages.log import log, never_raises
from railhead.driver.rank.pod_checks import read_marker
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import ExecutionGroup, WorkerGroup
from railhead.driver.storage.storage_call import UNREACHABLE, is_passing
from railhead.driver.storage.write_check import PROBE
from railhead.driver.train_controller.worker_group import call_ranks

MARKER = ".railhead-shared-check-"
# A file system that hangs is not necessarily the wrong one.
MARKER_TIMEOUT_SECONDS = 60.0


class SharedStorageStep(ControllerStep):
    """Ends the run before it trains if a worker does not see the head's file.

    Storage that all pods have shared before is tried again instead.
    """

    def __init__(self) -> None:
        self._was_shared = int(os.environ.get(environment.CHECKPOINT_INDEX) or -1) >= 0

    def started(self, part: ExecutionGroup, group: WorkerGroup) -> None:
        """Raises JobRefused or Unreachable. Ray's error for a worker that dies meanwhile propagates."""
        folder = find_run_folder(group)
        if folder is None:
            return
        _remove_old_markers(Path(folder))
        marker = Path(folder, f"{MARKER}{uuid.uuid4().hex}")
        try:
            marker.write_text(marker.name)
        except OSError as error:
            log(f"run.storagePath: did not check that all pods share {folder}: {read_text(error)}")
            # A full disk takes an empty file.
            _remove(marker)
            return
        try:
            answers = _ask_workers(part, marker)
        finally:
            _remove(marker)
        problem = explain_answers(str(Path(folder).parent), answers)
        if problem:
            raise (Unreachable if self._was_shared else JobRefused)("StorageNotShared", problem)
        self._was_shared = self._was_shared or bool(answers)


def find_run_folder(worker_group: WorkerGroup) -> Optional[str]:
    """Returns the run's folder when the storage is a path; the actual one, even if a script chose it."""
    storage = worker_group._storage_context
    if storage.storage_filesystem.type_name == "local":
        return str(storage.experiment_fs_path)
    return None


def _ask_workers(part: ExecutionGroup, marker: Path) -> list[tuple[str, str]]:
    """Returns the answers of `read_marker`, which one worker of each node gives."""
    import ray

    ranks = {worker.metadata.node_id: rank for rank, worker in enumerate(part.get_workers())}.values()
    asked = dict.fromkeys(ranks, (str(marker),))
    answers = call_ranks(part, asked, read_marker, each=asked, timeout=MARKER_TIMEOUT_SECONDS).values()
    for error in filter(None, (answer.error for answer in answers)):
        if isinstance(error, ray.exceptions.RayTaskError) and is_passing(error):
            raise Unreachable(UNREACHABLE, f"run.storagePath {marker.parent}: {read_text(error.cause)}") from error
        raise error
    if any(answer.value is None for answer in answers):
        problem = f"a worker did not respond in {MARKER_TIMEOUT_SECONDS:.0f} s"
        log(f"run.storagePath: did not check that all pods share {marker.parent}: {problem}")
    return [answer.value for answer in answers if answer.value]


def explain_answers(storage_path: str, answers: list[tuple[str, str]]) -> str:
    """Returns the message for the user, or an empty string."""
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


@never_raises("look for old markers in run.storagePath")
def _remove_old_markers(folder: Path) -> None:
    """Removes those of heads that died. An older head that is still checking has lost the run anyway."""
    for marker in (*folder.glob(f"{MARKER}*"), *folder.glob(f"{PROBE}*")):
        _remove(marker)


@never_raises("remove a marker from run.storagePath")
def _remove(marker: Path) -> None:
    marker.unlink(missing_ok=True)
