"""Records, times and counts a checkpoint that a rank writes straight into the run's folder (`railhead.training.dcp`),
as `rank.watched_uploads` does with one that Ray uploads. Outside of a TrainJob none of this is done.
"""

from __future__ import annotations

import errno
import time

from railhead.driver.mailbox.heartbeat import Uploads
from railhead.driver.messages.attempt_errors import build_training_error, note_exception
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank import steps
from railhead.driver.rank.watched_uploads import announce_upload, count_upload
from railhead.driver.ray.train_context import are_reports_watched, attach_write, check_mount
from railhead.driver.ray.types import RayCheckpoint, Storage
from railhead.driver.storage.storage_call import is_of_storage


class DirectUpload:
    """One rank's part of one checkpoint, from its beginning to its commit."""

    def __init__(self, storage: Storage, name: str, *, is_rank_0: bool) -> None:
        """Records the upload on rank 0, before any rank writes."""
        self._storage = storage
        self._began = time.monotonic()
        self._trained = steps.read_times()[1]
        if is_rank_0 and are_reports_watched():
            announce_upload(storage, name)

    def check(self) -> None:
        """Raises OSError if the storage's mount is missing here: the files would land on the node's own disk."""
        try:
            check_mount(self._storage)
        except RuntimeError as error:
            # A number, since torch sends the error to other ranks without its traceback, by which Ray's is recognized.
            raise OSError(errno.ENODEV, f"the run's folder is not mounted here: {error}") from error

    def finish(self, checkpoint: RayCheckpoint, *, files: int, size: int) -> None:
        """Tells the controller how much training the checkpoint keeps; call it before the checkpoint is reported."""
        if not are_reports_watched():
            return
        blocked, trained = steps.read_times()
        attach_write(checkpoint, times=(blocked, trained - self._trained), files=files)
        count_upload(Uploads(1, time.monotonic() - self._began, size))


def note_storage_error(error: Exception, cause: BaseException) -> None:
    """Attaches to `error` that the storage has failed rather than the application, if that follows from `cause`."""
    if is_of_storage(cause, source=None):
        note_exception(error, build_training_error(RankErrorKind.STORAGE, -1, cause))


def show_stuck_save(text: str) -> None:
    """Shows in the status that checkpoints are not written, and why; an empty string: they are again."""
    steps.STEPS.stuck_save = text
