"""The fence in Ray Train's controller: the checkpoint manager checks it before each commit and each deletion.

The second check covers a successor that took over in between: it read either the snapshot just written, which does
not name what is deleted, or the previous one, and then nothing may be deleted any more.

Storage that does not respond for a moment costs nothing: a commit is tried again, a deletion is put
off until the next one, or left out if the user chose the folder's name. After each commit follows our own copy of
the snapshot.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Callable, Optional

from railhead.contract.report import RunWarning
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.mailbox import Mailbox, MailboxFile
from railhead.driver.mailbox.values import FromController
from railhead.driver.messages.attempt_errors import AttemptFailed, Fenced, JobRefused
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import log, never_raises
from railhead.driver.messages.redaction import redact
from railhead.driver.rank.reported_metrics import make_writable
from railhead.driver.rank.run_rank import permit_training
from railhead.driver.ray import checkpoint_manager
from railhead.driver.ray.checkpoint_manager import Delete, Write
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.train_context import FILES
from railhead.driver.ray.types import CheckpointManager, RayWorker, WorkerGroup
from railhead.driver.storage.claims import Claim, check_claim
from railhead.driver.storage.empty_checkpoints import note_empty
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.storage_call import UNREACHABLE, Patience
from railhead.driver.storage.unfinished_uploads import finish_commit, is_named_by_ray, list_leftovers, remove_leftovers
from railhead.driver.train_controller.worker_group import Group

# A storage that hangs holds up neither a group nor the end.
LIST_PATIENCE_SECONDS = 10.0
END_PATIENCE_SECONDS = 20.0


class FenceStep(ControllerStep):
    """Checks the fence once a worker group has formed, before it trains, and from then on in the manager."""

    def __init__(self, group: Group, mailbox: Mailbox, run: RunContext) -> None:
        self._group = group
        self._box = mailbox.controller
        self._claim = Claim.parse(run.claim)
        self._run_id = run.run_id
        self._start_clean_up: Optional[Callable[[], threading.Thread]] = None

    def before_training_context(self, workers: Sequence[RayWorker]) -> None:
        """Permits each worker to train, also one that replaces another: without that, no rank does."""
        for worker in workers:
            # Runs before the training function, in the order of submission.
            worker.execute_async(permit_training, self._run_id)

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        """Raises JobRefused when this Ray keeps its checkpoints elsewhere."""
        if self._claim is None:
            return
        manager = checkpoint_manager.find_manager(worker_group)
        storage = manager._storage_context
        folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)
        check = functools.partial(self._check_claim, folder, self._claim)
        check_quietly = functools.partial(check_claim, folder, self._claim)
        self._group.folder = folder
        self._group.check_fence = check_quietly
        Patience(functools.partial(_report_trouble, self._box, folder)).call(check)
        self._start_clean_up = functools.partial(_start_clean_up, folder, manager, check_quietly)
        self._start_clean_up()
        self._guard(manager, folder, check, check_quietly)

    def after_finish(self) -> None:
        """Cleans up once more: the last group is gone, and there may be no later one. Never raises."""
        if self._start_clean_up is not None:
            self._start_clean_up().join(END_PATIENCE_SECONDS)

    def _check_claim(self, folder: RunFolder, claim: Claim) -> None:
        """Checks the claim, and tells the driver a failure: older Rays do not pass it to the failure policy."""
        try:
            check_claim(folder, claim)
        except (Fenced, JobRefused) as error:
            self._box.change(functools.partial(replace, failure=error.failure))
            raise

    def _guard(
        self,
        manager: CheckpointManager,
        folder: RunFolder,
        check: Callable[[], None],
        check_quietly: Callable[[], None],
    ) -> None:
        """Wraps each commit and deletion; idempotent. What `check` raises propagates out of the commit."""

        def note_repeated() -> None:
            self._group.repeated_name = checkpoint_manager.drop_repeated(manager) or self._group.repeated_name

        patience = Patience(functools.partial(_report_trouble, self._box, folder))
        empty = EmptyCommits(manager, folder)

        def commit(write: Write) -> None:
            def check_and_write() -> None:
                check()
                empty.note_newest()
                write_metrics(manager, write)

            patience.call(check_and_write)
            finish_commit(folder, check_quietly)

        checkpoint_manager.guard(manager, before=note_repeated, commit=commit, delete=Deletions(manager, check).delete)


def write_metrics(manager: CheckpointManager, write: Write) -> None:
    """Writes Ray's snapshot, without the metrics that cannot be written.

    A rank refuses such a metric by itself. It does not know that of another rank's checkpoint, or of a validation
    function in a trainer that the user built, whose result each later attempt would try to write again.
    """
    try:
        write()
    except (OSError, AttemptFailed):
        raise
    except Exception:
        dropped = checkpoint_manager.drop_metrics(manager, make_writable)
        if dropped:
            log(f"the checkpoint is committed without metrics that cannot be written: {'; '.join(dropped)}")
        write()


class EmptyCommits:
    """Notes the newest checkpoint of a manager if it has no files."""

    def __init__(self, manager: CheckpointManager, folder: RunFolder) -> None:
        self._manager = manager
        self._folder = folder
        self._seen: object = manager.latest_checkpoint_result  # of an earlier group, which noted it

    def note_newest(self) -> None:
        """Notes the newest checkpoint if it is empty; call it before the commit.

        Only a checkpoint of which no rank says that it has files costs a request.
        """
        newest = self._manager.latest_checkpoint_result
        if newest is None or newest is self._seen:
            return
        name = checkpoint_manager.name_checkpoint(self._manager, newest.checkpoint)
        if not getattr(newest.checkpoint, FILES, 0) and not self._folder.list_names(name):
            note_empty(self._folder, name, kept=checkpoint_manager.list_names(self._manager))
        self._seen = newest


class Deletions:
    """The deletions of a checkpoint manager; a deletion that the storage does not let us check is put off."""

    def __init__(self, manager: CheckpointManager, check: Callable[[], None]) -> None:
        self._manager = manager
        self._check = check
        self._left_out: list[str] = []

    def delete(self, delete: Delete, fs_path: str) -> None:
        left_out = self._left_out
        try:
            self._check()
        except AttemptFailed:
            raise
        except Exception as error:
            # A folder with a name of the user's is not removed later: an upload may be filling it again by then.
            if is_named_by_ray(PurePosixPath(fs_path).name):
                left_out.append(fs_path)
            yet = " yet" if fs_path in left_out else ""
            log(f"{fs_path} is not deleted{yet}, because the storage failed: {describe_exception(error)}")
            return
        # A user may repeat a name.
        kept = [f"{path}/" for path in checkpoint_manager.list_paths(self._manager)]
        for path in (fs_path, *left_out):
            if not any(each.startswith(f"{path}/") for each in kept):
                delete(path)
        left_out.clear()


def _report_trouble(box: MailboxFile[FromController], folder: RunFolder, error: Exception) -> None:
    what = f"run.storagePath: {folder.path}: {describe_exception(error)}"
    log(f"{what}; retrying while training continues")
    warn(box, UNREACHABLE, f"{what}; a commit waits for it, and training continues until its next report")


def _start_clean_up(folder: RunFolder, manager: CheckpointManager, check: Callable[[], None]) -> threading.Thread:
    """Removes what unfinished uploads have left, in a thread. Returns once that is listed, so that a group may train.

    If it takes longer than LIST_PATIENCE_SECONDS, the list may have uploads of that group: nothing is removed.
    """
    committed = checkpoint_manager.list_names(manager)
    deadline = time.monotonic() + LIST_PATIENCE_SECONDS
    is_listed = threading.Event()

    @never_raises("remove what unfinished uploads have left")
    def clean_up() -> None:
        try:
            folders, records = list_leftovers(folder, committed=committed)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the storage took longer than {LIST_PATIENCE_SECONDS:.0f} s to list {folder.path}")
            is_listed.set()
            check()
            remove_leftovers(folder, folders, records)
            if folders:
                log(f"removed what unfinished uploads had left: {', '.join(folders)}")
        finally:
            is_listed.set()

    thread = threading.Thread(target=clean_up, name="railhead-clean-up", daemon=True)
    thread.start()
    is_listed.wait(LIST_PATIENCE_SECONDS)
    return thread


@never_raises("report that the storage failed")
def warn(box: MailboxFile[FromController], reason: str, message: str) -> None:
    """Shows it in the status while training continues without new checkpoints; the next commit removes it."""
    box.change(partial(replace, warning=RunWarning(reason, redact(message))))
