"""What a rank writes into the run's folder itself is recorded, timed and counted as an upload of Ray's."""

from __future__ import annotations

import pickle
import types
from pathlib import Path
from typing import Any

import pytest
from ray.train import Checkpoint
from ray.train.v2._internal.execution.context import TrainContext

from railhead.driver.mailbox.heartbeat import Uploads
from railhead.driver.messages.attempt_errors import read_note
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank import direct_upload, steps
from railhead.driver.rank.direct_upload import DirectUpload, note_storage_error, show_stuck_save
from railhead.driver.ray import train_context
from railhead.driver.storage.unfinished_uploads import RECORDS
from tests.unit.driver.rank.test_watched_uploads import NO_UPLOAD, Rank, ours

__all__ = ["ours"]  # a fixture that each test uses

NAME = "checkpoint_2026-11-22_23-44-51.000123"


class Clock:
    """The clock of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (steps, direct_upload):
            monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: self.now))


def test_rank_0_records_the_name_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(tmp_path, monkeypatch)
    DirectUpload(rank.context.storage_context, NAME, is_rank_0=False)
    assert rank.records == []
    DirectUpload(rank.context.storage_context, NAME, is_rank_0=True)
    assert rank.records == [NAME]


def test_a_checkpoint_keeps_the_training_until_its_state_was_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training continues for 4 s while it is written, and for 3 s until the ranks find that it is."""
    rank, clock = Rank(tmp_path, monkeypatch), Clock(monkeypatch)
    upload = DirectUpload(rank.context.storage_context, NAME, is_rank_0=True)
    clock.now += 7.0
    storage = rank.context.storage_context
    path = f"{storage.experiment_fs_path}/{NAME}"
    Path(path).mkdir(parents=True)
    checkpoint = Checkpoint(path, filesystem=storage.storage_filesystem)
    upload.finish(checkpoint, files=3, size=50)
    rank.context.report({}, checkpoint, None, NO_UPLOAD)
    committed = pickle.loads(pickle.dumps(rank.reports.get_nowait().checkpoint))
    assert getattr(committed, train_context.TIMES) == (0.0, 7.0)
    assert getattr(committed, train_context.FILES) == 3
    assert steps.STEPS.uploads == Uploads(1, 7.0, 50)


def test_outside_of_a_trainjob_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(tmp_path, monkeypatch)
    monkeypatch.delattr(TrainContext, train_context._WATCHED)
    upload = DirectUpload(rank.context.storage_context, NAME, is_rank_0=True)
    upload.finish(Checkpoint(str(tmp_path)), files=1, size=1)
    assert not (Path(rank.folder.path) / RECORDS).exists() and steps.STEPS.uploads == Uploads()


def test_a_missing_mount_is_the_storages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, the checkpoint would land on the disk of the pod's node."""
    rank = Rank(tmp_path, monkeypatch)
    upload = DirectUpload(rank.context.storage_context, NAME, is_rank_0=False)
    upload.check()
    Path(rank.folder.path).rename(tmp_path / "unmounted")
    with pytest.raises(OSError, match="the run's folder is not mounted here") as caught:
        upload.check()
    sent = pickle.loads(pickle.dumps(caught.value))  # to the other ranks
    assert find_kind(sent) is RankErrorKind.STORAGE


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (OSError(28, "No space left on device"), RankErrorKind.STORAGE),
        (OSError("When uploading part: AWS Error SLOW_DOWN"), RankErrorKind.STORAGE),
        (PermissionError(13, "Permission denied", "/runs/a/checkpoint/__0_0.distcp"), RankErrorKind.STORAGE),
        (OSError(30, "Read-only file system", "/runs/a/checkpoint/__0_0.distcp"), RankErrorKind.STORAGE),
        (FileNotFoundError(2, "No such file or directory", "/runs/a/checkpoint/__0_0.distcp"), RankErrorKind.STORAGE),
        (FileNotFoundError("When initiating multiple part upload: AWS Error NO_SUCH_BUCKET"), RankErrorKind.STORAGE),
        (OSError(36, "File name too long", "/runs/a"), None),
        (TypeError("cannot pickle a lock"), None),
    ],
)
def test_who_pays_for_an_error_follows_from_its_cause(cause: BaseException, kind: RankErrorKind | None) -> None:
    assert find_kind(cause) is kind


def find_kind(cause: BaseException) -> Any:
    error = RuntimeError("the checkpoint could not be written in the background")
    note_storage_error(error, cause)
    noted = read_note(error)
    return noted and noted.kind


def test_the_controller_reads_why_checkpoints_are_not_written() -> None:
    show_stuck_save("the storage has not answered rank 1")
    assert steps.read_beat().stuck_save == "the storage has not answered rank 1"
    show_stuck_save("")
    assert not steps.read_beat().stuck_save
