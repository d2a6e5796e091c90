"""The fence in Ray Train's controller: the checkpoint manager checks it before each commit and each deletion.

Reaches into Ray: a commit is the manager's `_write_state_to_storage`, and its deletions go
through its module's `delete_fs_path`, right after. The second check covers a successor that
took over in between: it read either the snapshot just written, which does not name what is
deleted, or the previous one, and then nothing may be deleted any more.

Storage that does not respond for a moment costs nothing: a commit is tried again, a deletion is put
off until the next one, or left out if the user chose the folder's name.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Any, Callable, Optional

from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.describe import describe_exception
from railhead.driver.errors import AttemptFailed, Fenced, JobRefused
from railhead.driver.rank.run import permit_training
from railhead.driver.reporting.spool import Spool
from railhead.driver.run_context import RunContext
from railhead.driver.storage.call import UNREACHABLE, Patience
from railhead.driver.storage.fence import Claim, look
from railhead.driver.storage.leftovers import find_leftovers, finish_commit, is_named_by_ray, remove_leftovers
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.train_controller import group, ray_checkpoints
from railhead.driver.train_controller.storage_failure import log, warn

_NO_MANAGER = (
    "spec.image: this Ray keeps its CheckpointManager where Railhead does not find it, so that nothing would keep an "
    "earlier head of this job from committing; use a Ray version that Railhead is tested with"
)
LIST_PATIENCE, END_PATIENCE = 10.0, 20.0  # seconds: a storage that hangs holds up neither a group nor the end
_GUARDED, _ORIGINAL = "_railhead_is_guarded", "_railhead_original"


class FenceCallback(ControllerCallback, WorkerGroupCallback):  # type: ignore[misc]
    """Checks the fence once a worker group has formed, before it trains, and from then on in the manager."""

    def __init__(self) -> None:
        self._claim = Claim.parse(RunContext.read().claim)
        self._spool_folder = os.environ.get(e.TEMP, "")
        self._start_clean_up: Callable[[], Optional[threading.Thread]] = lambda: None

    def before_init_train_context(self, workers: list[Any]) -> dict[str, list[Any]]:
        """The sign of life without which no rank trains; workers that replace others get it too."""
        for worker in workers:
            worker.execute_async(permit_training)  # runs before the training function, in the order of submission
        return {}

    @group.freed_on_error
    def after_worker_group_start(self, worker_group: Any) -> None:
        """Raises JobRefused when this Ray keeps its checkpoints elsewhere."""
        if self._claim is None:
            return
        manager = ray_checkpoints.find_manager(worker_group)
        if manager is None:
            raise JobRefused("RayTrainNotUsable", _NO_MANAGER)
        storage = manager._storage_context
        folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)
        check = functools.partial(self._look, folder, self._claim)
        check_quietly = functools.partial(look, folder, self._claim)
        group.CURRENT.folder, group.CURRENT.check_fence = folder, check_quietly
        patience = Patience(functools.partial(_tell, Spool(Path(self._spool_folder)), folder))
        patience.call(check)
        self._start_clean_up = functools.partial(_start_clean_up, folder, manager, check_quietly)
        self._start_clean_up()
        guard(manager, check=check, after=functools.partial(finish_commit, folder, check_quietly), patience=patience)

    def after_controller_finish(self, result: Any) -> None:
        """The last group is gone, and there may be no later one. Never raises."""
        thread = self._start_clean_up()
        if thread is not None:
            thread.join(END_PATIENCE)

    def _look(self, folder: RunFolder, claim: Claim) -> None:
        """Older Rays do not pass the exception to the failure policy, so this writes the failure to the spool."""
        try:
            look(folder, claim)
        except (Fenced, JobRefused) as error:
            Spool(Path(self._spool_folder)).write_failure(error.failure)
            raise


def guard(manager: Any, *, check: Callable[[], None], after: Callable[[], None], patience: Patience) -> None:
    """Wraps each commit and deletion; idempotent. What `check` raises propagates out of the commit."""
    if getattr(manager, _GUARDED, False):
        return
    save, write = manager._save_state_and_delete_old_checkpoints, manager._write_state_to_storage

    def save_state_and_delete_old_checkpoints() -> None:
        group.CURRENT.repeated_name = ray_checkpoints.drop_repeated(manager) or group.CURRENT.repeated_name
        save()

    def check_and_write() -> None:
        check()
        write()

    def write_state_to_storage() -> None:
        patience.call(check_and_write)
        after()

    manager._save_state_and_delete_old_checkpoints = save_state_and_delete_old_checkpoints
    manager._write_state_to_storage = write_state_to_storage
    _guard_deletions(manager, check)
    setattr(manager, _GUARDED, True)


def _guard_deletions(manager: Any, check: Callable[[], None]) -> None:
    module: Any = sys.modules[type(manager).__module__]
    delete = getattr(module.delete_fs_path, _ORIGINAL, module.delete_fs_path)
    left_out: list[str] = []

    def delete_fs_path(fs: Any, fs_path: str) -> None:
        try:
            check()
        except AttemptFailed:
            raise
        except Exception as error:
            if is_named_by_ray(PurePosixPath(fs_path).name):  # else an upload may be filling it again by then
                left_out.append(fs_path)
            yet = " yet" if fs_path in left_out else ""
            log(f"{fs_path} is not deleted{yet}, because the storage failed: {describe_exception(error)}")
            return
        kept = [f"{each.checkpoint.path}/" for each in manager._checkpoint_results]  # a user may repeat a name
        for path in (fs_path, *left_out):
            if not any(each.startswith(f"{path}/") for each in kept):
                delete(fs=fs, fs_path=path)
        left_out.clear()

    setattr(delete_fs_path, _ORIGINAL, delete)
    module.delete_fs_path = delete_fs_path


def _tell(spool: Spool, folder: RunFolder, error: Exception) -> None:
    what = f"run.storagePath: {folder.path}: {describe_exception(error)}"
    log(f"{what}; retrying while training continues")
    warn(spool, UNREACHABLE, f"{what}; a commit waits for it, and training continues until its next report")


def _start_clean_up(folder: RunFolder, manager: Any, check: Callable[[], None]) -> threading.Thread:
    """Removes what unfinished uploads have left, in a thread. Returns once that is listed, so that a group may train.

    If it takes longer than LIST_PATIENCE, the list may have uploads of that group: nothing is removed.
    """
    committed = ray_checkpoints.list_names(manager)
    deadline, is_listed = time.monotonic() + LIST_PATIENCE, threading.Event()

    def clean_up() -> None:
        try:
            found = find_leftovers(folder, committed=committed)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{folder.path}: the storage took longer than {LIST_PATIENCE:.0f} s to list it")
            is_listed.set()
            check()
            remove_leftovers(folder, found)
            if found.folders:
                log(f"removed what unfinished uploads had left: {', '.join(found.folders)}")
        except Exception as error:
            log(f"cannot remove what unfinished uploads have left: {describe_exception(error)}")
        finally:
            is_listed.set()

    thread = threading.Thread(target=clean_up, name="railhead-clean-up", daemon=True)
    thread.start()
    is_listed.wait(LIST_PATIENCE)
    return thread
