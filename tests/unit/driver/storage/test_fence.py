"""Who may write into a run's folder: the order of claims, and Ray's own checkpoint manager behind the fence."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint import checkpoint_manager
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from railhead.contract import environment as e
from railhead.driver.errors import Fenced, JobRefused
from railhead.driver.rank.run import permit_training
from railhead.driver.reporting.spool import Spool
from railhead.driver.run_context import RunContext
from railhead.driver.storage import fence
from railhead.driver.storage.fence import Claim, look, take_run
from railhead.driver.storage.leftovers import record_failed_uploads
from railhead.driver.storage.patience import Patience
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.train_controller import group
from railhead.driver.train_controller.fence import FenceCallback
from railhead.driver.train_controller.snapshot_copy import SnapshotCopy

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own use of pydantic
UID, OTHER = "0a1b-mine", "9f8e-other"


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller has a process of its own; here what is put into Ray's module must go again."""
    monkeypatch.setattr(checkpoint_manager, "delete_fs_path", checkpoint_manager.delete_fs_path)
    monkeypatch.setattr(group, "CURRENT", group.Group())
    monkeypatch.setattr(SnapshotCopy, "request", SnapshotCopy.copy)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(LocalFileSystem(), str(tmp_path / "r"))


def test_a_later_attempt_shuts_out_the_earlier_one(folder: RunFolder) -> None:
    first = take_run(folder, uid=UID, attempt=1)
    look(folder, first)
    second = take_run(folder, uid=UID, attempt=2)
    with pytest.raises(Fenced, match="attempt 2 has taken over the run; attempt 1 no longer commits"):
        look(folder, first)
    with pytest.raises(Fenced):
        take_run(folder, uid=UID, attempt=1)
    look(folder, second)


def test_a_job_takes_the_run_from_another_one_for_good(folder: RunFolder) -> None:
    earlier = take_run(folder, uid=OTHER, attempt=7)
    mine = take_run(folder, uid=UID, attempt=1)
    with pytest.raises(JobRefused, match=r"run\.name: another TrainJob \(uid 0a1b-mine\)"):
        look(folder, earlier)
    with pytest.raises(JobRefused):
        take_run(folder, uid=OTHER, attempt=8)
    look(folder, mine)
    look(folder, take_run(folder, uid=UID, attempt=2))


@pytest.mark.parametrize("uid", [UID, OTHER])
@pytest.mark.parametrize("step", range(4))  # two looks at all claims, two writes
def test_of_two_that_begin_at_once_one_goes_on(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, uid: str, step: int
) -> None:
    """The other one's whole beginning falls between two steps of this one's."""
    steps: list[str] = []
    claims: list[Claim] = []

    def meanwhile(name: str) -> Callable[..., Any]:
        method = getattr(RunFolder, name)

        def call(self: RunFolder, *arguments: Any) -> Any:
            steps.append(name)
            if len(steps) == step + 1:
                claims.append(take_run(folder, uid=uid, attempt=2))
            return method(self, *arguments)

        return call

    for name in ("list_names", "write"):
        monkeypatch.setattr(RunFolder, name, meanwhile(name))
    with contextlib.suppress(Fenced, JobRefused):
        claims.append(take_run(folder, uid=UID, attempt=1))
    assert len(claims) >= 1 and steps
    free = [claim for claim in claims if is_free(folder, claim)]
    assert len(free) == 1, claims
    assert is_free(folder, free[0])


def is_free(folder: RunFolder, claim: Claim) -> bool:
    try:
        look(folder, claim)
    except (Fenced, JobRefused):
        return False
    return True


@pytest.mark.parametrize("text", ["", "000001.0a1b", "nonsense", None])
def test_a_fence_that_is_just_being_written_is_no_permission(folder: RunFolder, text: str | None) -> None:
    first = take_run(folder, uid=UID, attempt=1)
    second = take_run(folder, uid=UID, attempt=2)
    path = Path(folder.find(fence.FENCE))
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(Fenced):
        look(folder, first)
    look(folder, second)
    assert path.read_text() == str(second)


def test_one_file_is_read_and_nothing_else(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = take_run(folder, uid=UID, attempt=3)
    reads: list[str] = []
    read = RunFolder.read
    monkeypatch.setattr(RunFolder, "read", lambda self, name: reads.append(name) or read(self, name))  # type: ignore[func-returns-value]
    for name in ("list_names", "write"):
        monkeypatch.setattr(RunFolder, name, lambda *_: pytest.fail("more than a read"))
    look(folder, claim)
    assert reads == [fence.FENCE]


class Controller:
    """A real checkpoint manager with our callback, as in Ray Train's controller of one attempt."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, attempt: int) -> None:
        self.storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.folder = RunFolder(self.storage.storage_filesystem, self.storage.experiment_fs_path)
        self.temp = folder / f"temp-{attempt}"
        monkeypatch.setenv(e.TEMP, str(self.temp))
        claim = take_run(self.folder, uid=UID, attempt=attempt)
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext("/runs/r", claim=str(claim)).write()
        self.manager = CheckpointManager(CheckpointConfig(num_to_keep=1), self.storage)
        self.callback = FenceCallback()
        self.group = types.SimpleNamespace(_callbacks=[object(), self.manager])
        for _ in range(2):  # a group that forms anew
            self.callback.after_worker_group_start(self.group)

    def commit(self, name: str) -> None:
        Path(self.folder.find(name)).mkdir(exist_ok=True)
        checkpoint = Checkpoint(path=self.folder.find(name), filesystem=self.storage.storage_filesystem)
        report = _TrainingReport(checkpoint, {}, False)

        async def run() -> None:
            self.manager.after_report(report, [{}])

        asyncio.run(run())

    def checkpoints(self) -> list[str]:
        return sorted(p.name for p in Path(self.folder.path).iterdir() if p.name.startswith("c"))

    def latest(self) -> str:
        text = Path(self.folder.path, "checkpoint_manager_snapshot.json").read_text()
        return str(json.loads(text)["latest_checkpoint_result"]["checkpoint_dir_name"])


def test_an_old_manager_neither_commits_nor_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    for name in ("c0", "c1"):
        old.commit(name)
    assert [n for n in old.checkpoints() if n != "checkpoint_manager_snapshot.json"] == ["c1"]
    new = Controller(tmp_path, monkeypatch, attempt=2)
    with pytest.raises(Fenced):
        old.commit("c2")
    failure = Spool(old.temp).read_failure()
    assert failure is not None and failure.class_ == "Fenced"
    assert (new.latest(), (tmp_path / "r" / "c1").exists()) == ("c1", True)
    new.commit("c3")
    assert (new.latest(), (tmp_path / "r" / "c1").exists()) == ("c3", False)
    with pytest.raises(Fenced):
        old.callback.after_worker_group_start(old.group)


def test_a_successor_that_comes_between_a_commit_and_its_deletion_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    old.commit("c0")
    save = old.manager._save_state

    def save_late() -> Any:  # after the look, before the snapshot is written
        take_run(old.folder, uid=UID, attempt=2)
        return save()

    old.manager._save_state = save_late
    with pytest.raises(Fenced):
        old.commit("c1")
    assert (tmp_path / "r" / "c0").exists(), "the successor may have read that c0 is the latest"


class BadDays:
    """A storage whose fence cannot be read: each look raises the next error, until none is left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[OSError] = []
        self.now = 0.0
        read = RunFolder.read
        monkeypatch.setattr(
            RunFolder, "read", lambda s, name: self.fail() if name == fence.FENCE and self.errors else read(s, name)
        )
        monkeypatch.setattr("railhead.driver.train_controller.fence.Patience", self.make_patience)

    def fail(self) -> bytes:
        raise self.errors.pop(0)

    def make_patience(self, tell: Callable[[Exception], None]) -> Patience:
        return Patience(tell, sleep=lambda seconds: self.sleep(seconds), monotonic=lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def bad_days(monkeypatch: pytest.MonkeyPatch) -> BadDays:
    return BadDays(monkeypatch)


SLOW_DOWN = "AWS Error SLOW_DOWN during GetObject operation"


def test_a_commit_waits_for_a_storage_that_fails_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    bad_days.errors = [OSError(SLOW_DOWN), OSError(errno.ESTALE, "Stale file handle"), TimeoutError()]
    run.commit("c0")
    assert (run.latest(), bad_days.errors) == ("c0", [])
    assert SLOW_DOWN in capsys.readouterr().err
    warning = Spool(run.temp).read_warning()
    assert warning is not None and warning.reason == "StorageUnreachable"
    assert warning.message.startswith(f"run.storagePath: {run.folder.path}: ")
    assert Spool(run.temp).read_failure() is None
    bad_days.errors = [OSError(SLOW_DOWN)]
    run.callback.after_worker_group_start(run.group)


def test_a_commit_does_not_wait_for_ever_nor_for_what_no_retry_can_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    bad_days.errors = [OSError(SLOW_DOWN) for _ in range(1000)]
    with pytest.raises(OSError, match="SLOW_DOWN"):
        run.commit("c0")
    assert 90 < bad_days.now <= 120 and len(bad_days.errors) > 980
    bad_days.errors, bad_days.now = [PermissionError(errno.EACCES, "no")], 0.0
    with pytest.raises(PermissionError):
        run.commit("c1")
    assert bad_days.now == 0.0


def test_a_successor_is_obeyed_at_once_even_in_bad_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays
) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    take_run(old.folder, uid=UID, attempt=2)
    bad_days.errors = [OSError(SLOW_DOWN)]
    with pytest.raises(Fenced):
        old.commit("c0")
    assert bad_days.now == 0.5


def test_a_deletion_is_put_off_while_the_storage_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    run.commit("c0")
    write = run.manager._write_state_to_storage

    def write_and_break() -> None:
        write()
        bad_days.errors = [OSError(SLOW_DOWN)]

    run.manager._write_state_to_storage = write_and_break
    run.commit("c1")
    assert (run.latest(), (tmp_path / "r" / "c0").exists()) == ("c1", True)
    told = [line for line in capsys.readouterr().err.splitlines() if "railhead:" in line]
    assert len(told) == 1 and "c0 is not deleted yet" in told[0] and SLOW_DOWN in told[0]
    run.manager._write_state_to_storage = write
    run.commit("c2")
    left = sorted(path.name for path in (tmp_path / "r").glob("c?"))
    assert (run.latest(), left) == ("c2", ["c2"]), "the next deletion makes up for it"


def test_a_deletion_that_was_left_out_does_not_meet_a_later_commit_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    run.commit("c0")
    write = run.manager._write_state_to_storage

    def write_and_break() -> None:
        write()
        bad_days.errors = [OSError(SLOW_DOWN)]

    run.manager._write_state_to_storage = write_and_break
    run.commit("c1")
    run.manager._write_state_to_storage = write
    run.commit("c0")
    assert run.latest() == "c0" and sorted(path.name for path in (tmp_path / "r").glob("c?")) == ["c0"]


def test_rays_own_write_of_the_snapshot_is_tried_again_behind_the_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad_days: BadDays
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    save, failed = run.manager._save_state, [OSError(errno.ENOSPC, "No space left on device")]

    def save_later() -> Any:
        if failed:
            raise failed.pop()
        return save()

    run.manager._save_state = save_later
    run.commit("c0")
    assert run.latest() == "c0"
    failed.append(OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(bad_days, "sleep", lambda seconds: take_run(run.folder, uid=UID, attempt=2))
    with pytest.raises(Fenced):
        run.commit("c1")


def test_the_next_group_finds_no_folder_of_a_failed_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partial, whole = "checkpoint_2026-11-22_23-44-51.000123", "checkpoint_2026-11-22_23-40-00.000001"
    run = Controller(tmp_path, monkeypatch, attempt=1)
    run.commit(whole)
    Path(run.folder.find(partial)).mkdir()
    record_failed_uploads(run.folder, [partial, whole])
    successor = Controller(tmp_path, monkeypatch, attempt=2)
    assert not Path(run.folder.find(partial)).exists() and Path(run.folder.find(whole)).exists()
    Path(run.folder.find(partial)).mkdir()
    record_failed_uploads(run.folder, [partial])
    with pytest.raises(Fenced):
        run.callback.after_worker_group_start(run.group)
    assert Path(run.folder.find(partial)).exists(), "an attempt that is fenced removes nothing"
    monkeypatch.setattr(RunFolder, "delete_folder", lambda *_: bad_disk())
    successor.callback.after_worker_group_start(successor.group)
    assert Path(run.folder.find(partial)).exists(), "and an error of it ends no run"


def bad_disk() -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_each_worker_gets_the_fences_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    workers = [types.SimpleNamespace(execute_async=called.append) for _ in range(3)]
    callback = Controller(tmp_path, monkeypatch, attempt=1).callback
    assert callback.before_init_train_context(workers) == {}
    assert called == [permit_training] * 3


def test_a_ray_that_keeps_its_checkpoints_elsewhere_does_not_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = Controller(tmp_path, monkeypatch, attempt=1).callback
    with pytest.raises(JobRefused) as caught:
        callback.after_worker_group_start(types.SimpleNamespace(_callbacks=[]))
    assert caught.value.failure.reason == "RayTrainNotUsable"
