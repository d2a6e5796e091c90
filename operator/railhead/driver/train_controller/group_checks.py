"""Before a worker group trains, or a part of it that Ray has replaced: its pods share the storage, and old processes
are gone.

A path that only one pod can see (no volume, an emptyDir, a claim that another node cannot mount)
would otherwise surface at the first checkpoint, or at the next attempt as a run that starts from scratch.
A URI needs no such check.

Ray kills a group's processes and starts the next one in the same pods without waiting for their end,
and a process that a rank has started, such as a DataLoader's, may hold its GPU for longer. Ray puts each
rank and what it starts into a process group of its own (see `ray_node`), by which they are found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.contract.failure import PROCESS_NOT_ENDING, Failure, FailureClass
from railhead.driver.describe import describe_exception, log, never_raises, read_text
from railhead.driver.errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.node.machine import read_process_table
from railhead.driver.ray.callback import Step
from railhead.driver.ray.controller import make_room
from railhead.driver.ray.hooks import check_hooks
from railhead.driver.ray.types import ExecutionGroup, WorkerGroup
from railhead.driver.storage.acquire_run import PROBE
from railhead.driver.storage.call import UNREACHABLE, is_passing
from railhead.driver.train_controller.group import call_ranks

MARKER = ".railhead-shared-check-"
# A network file system may show a new file late, because it caches the listing of a folder for a while.
MARKER_PATIENCE_SECONDS, MARKER_PAUSE_SECONDS = 6.0, 0.5
MARKER_TIMEOUT_SECONDS = 60.0  # a file system that hangs is not necessarily the wrong one
END_PATIENCE_SECONDS = 60.0  # for a killed process to end: freeing a full GPU's memory takes some
END_PAUSE_SECONDS = 0.05
END_TIMEOUT_SECONDS = END_PATIENCE_SECONDS + 30.0
LIMIT = 1000  # calls at once, Ray's default for an async actor
SPARE = 16  # calls of the controller itself


class Barriers(Step):
    """Makes room for every rank in the actors of Ray Train in which each rank waits for the others.

    Of a group that has more ranks than such an actor runs calls at once, the last ones would not get in, and all would
    wait forever, at the first `report` or `get_dataset_shard`.
    """

    def before_group_start(self, size: int) -> None:
        """Raises JobRefused when this Ray has no room for that many ranks."""
        if size + SPARE > LIMIT:
            check_hooks(is_large=True)
            make_room(size + SPARE)


class OldProcessesStep(Step):
    """Gives up the pod in which a process of the previous group does not end: it is not usable any more."""

    def __init__(self) -> None:
        self._old: dict[str, tuple[int, ...]] = {}  # Ray's node id -> process ids of the last group that was there

    def started(self, part: ExecutionGroup, group: WorkerGroup) -> None:
        """Ends the processes on the nodes of the workers that have started, but for those of the `group`.

        Raises AttemptFailed. Ray's error for a worker that dies meanwhile appears at the next poll.
        """
        now, workers = list_processes(group), part.get_workers()
        rank_of_node = {worker.metadata.node_id: rank for rank, worker in enumerate(workers)}
        left = {
            rank: tuple(pid for pid in self._old.get(node, ()) if pid not in now.get(node, ()))
            for node, rank in rank_of_node.items()
        }
        old = {rank: (pids,) for rank, pids in left.items() if pids}
        self._old.update(now)
        answers = call_ranks(part, old, end_processes, each=old, timeout=END_TIMEOUT_SECONDS) if old else {}
        for rank, answer in answers.items():
            if answer.value:
                pod = workers[rank].metadata.hostname
                raise AttemptFailed(Failure(FailureClass.HARDWARE, PROCESS_NOT_ENDING, answer.value, suspect_pod=pod))


class SharedStorageStep(Step):
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
            _remove(marker)  # a full disk takes an empty file
            return
        try:
            answers = _find_on_workers(part, marker)
        finally:
            _remove(marker)
        problem = explain_answers(str(Path(folder).parent), answers)
        if problem:
            raise (Unreachable if self._was_shared else JobRefused)("StorageNotShared", problem)
        self._was_shared = self._was_shared or bool(answers)


def list_processes(group: ExecutionGroup) -> dict[str, tuple[int, ...]]:
    """Returns the process ids of the ranks by Ray's id of their node."""
    found: dict[str, tuple[int, ...]] = {}
    for worker in group.get_workers():
        node = worker.metadata.node_id
        found[node] = (*found.get(node, ()), worker.metadata.pid)
    return found


def end_processes(pids: tuple[int, ...]) -> str:
    """Kills, on a worker, what is left of these process groups. Returns an empty string, or what remains."""
    deadline = time.monotonic() + END_PATIENCE_SECONDS
    while left := find_left(pids):
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            break
        time.sleep(END_PAUSE_SECONDS)
    else:
        return ""
    pod = os.environ.get(environment.POD_NAME, "of another node")
    return (
        f"pod {pod}: process {', '.join(map(str, left[:8]))} of the previous worker group has not ended "
        f"{END_PATIENCE_SECONDS:.0f} s after SIGKILL and may hold its GPU; check the node's driver"
    )


def find_left(pids: tuple[int, ...]) -> list[int]:
    """Returns the processes with one of these ids or of these process groups, without zombies: those hold nothing."""
    found = read_process_table().items()
    return [pid for pid, stat in found if stat.state not in "ZX" and (pid in pids or stat.group in pids)]


def find_run_folder(worker_group: WorkerGroup) -> Optional[str]:
    """Returns the run's folder when the storage is a path; the actual one, even if a script chose it."""
    storage = worker_group._storage_context
    return str(storage.experiment_fs_path) if storage.storage_filesystem.type_name == "local" else None


def _find_on_workers(part: ExecutionGroup, marker: Path) -> list[tuple[str, str]]:
    """Returns the answers of `find_marker`, which one worker of each node gives."""
    import ray

    ranks = {worker.metadata.node_id: rank for rank, worker in enumerate(part.get_workers())}.values()
    asked = dict.fromkeys(ranks, (str(marker),))
    answers = call_ranks(part, asked, find_marker, each=asked, timeout=MARKER_TIMEOUT_SECONDS).values()
    for error in filter(None, (answer.error for answer in answers)):
        if isinstance(error, ray.exceptions.RayTaskError) and is_passing(error):
            raise Unreachable(UNREACHABLE, f"run.storagePath {marker.parent}: {read_text(error.cause)}") from error
        raise error
    if any(answer.value is None for answer in answers):
        problem = f"a worker did not respond in {MARKER_TIMEOUT_SECONDS:.0f} s"
        log(f"run.storagePath: did not check that all pods share {marker.parent}: {problem}")
    return [answer.value for answer in answers if answer.value]


def find_marker(path: str) -> tuple[str, str]:
    """Returns, on a worker, its pod and the problem or an empty string. Raises OSError if its mount does not work."""
    pod = os.environ.get(environment.POD_NAME, "of another node")
    deadline = time.monotonic() + MARKER_PATIENCE_SECONDS
    while (found := _find_problem(path))[0] and time.monotonic() < deadline:
        time.sleep(MARKER_PAUSE_SECONDS)
    problem, error = found
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
