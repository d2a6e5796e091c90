"""Who may write into a run's folder: the order of claims, and Ray's own checkpoint manager behind the fence.

Claims and the manager's guard promise one thing together, so their tests stay together.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import shutil
import threading
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
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.acquire_run import restore_run
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import Fenced, JobRefused
from railhead.driver.rank.run_rank import permit_training
from railhead.driver.ray import checkpoint_manager as checkpoint_manager_module
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.storage import claims as claims_module
from railhead.driver.storage.claims import Claim, Claimant, check_claim, take_run
from railhead.driver.storage.resumable import find_resumable
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.storage_call import Patience
from railhead.driver.storage.unfinished_uploads import RECORDS, record_upload
from railhead.driver.train_controller.fence_step import FenceStep
from railhead.driver.train_controller.worker_group import Group

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own use of pydantic
UID, OTHER = "0a1b-mine", "9f8e-other"


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller has its own process; here, patches of Ray's module must be undone."""
    monkeypatch.setattr(checkpoint_manager, "delete_fs_path", checkpoint_manager.delete_fs_path)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(LocalFileSystem(), str(tmp_path / "r"))


def test_a_later_attempt_fences_the_earlier_one(folder: RunFolder) -> None:
    first = take_run(folder, Claimant(UID), attempt=1)
    check_claim(folder, first)
    second = take_run(folder, Claimant(UID), attempt=2)
    with pytest.raises(Fenced, match="attempt 2 has taken over the run; attempt 1 no longer commits"):
        check_claim(folder, first)
    with pytest.raises(Fenced):
        take_run(folder, Claimant(UID), attempt=1)
    check_claim(folder, second)


MAY_TAKE = (Claimant(UID, "team/mine", is_sharing=True), Claimant(UID, "team/mine", former_uids=("x", OTHER)))


@pytest.mark.parametrize("claimant", MAY_TAKE)
def test_a_job_that_shares_or_continues_a_run_takes_it_permanently(folder: RunFolder, claimant: Claimant) -> None:
    earlier = take_run(folder, Claimant(OTHER), attempt=7)
    mine = take_run(folder, claimant, attempt=1)
    with pytest.raises(JobRefused, match=r"run\.name: TrainJob team/mine \(uid 0a1b-mine\) continues the run") as taken:
        check_claim(folder, earlier)
    assert taken.value.failure.reason == "RunTakenOver"
    with pytest.raises(JobRefused):
        take_run(folder, Claimant(OTHER), attempt=8)
    check_claim(folder, mine)
    check_claim(folder, take_run(folder, Claimant(UID), attempt=2))


@pytest.mark.parametrize("other", [Claimant(OTHER), Claimant(OTHER, former_uids=("x",))])
def test_no_other_job_takes_a_run(folder: RunFolder, other: Claimant) -> None:
    mine = take_run(folder, Claimant(UID, "team/mine"), attempt=1)
    with pytest.raises(JobRefused, match=r"belongs to TrainJob team/mine \(uid 0a1b-mine\)") as refused:
        take_run(folder, other, attempt=1)
    assert refused.value.failure.reason == "RunOfAnotherJob"
    assert folder.list_names(claims_module.CLAIMS) == [str(mine)]
    check_claim(folder, mine)


@pytest.mark.parametrize("text", ["", "no name", "a/b\n", "team/mine" * 99])
def test_an_owner_without_a_readable_name_is_named_by_its_uid(folder: RunFolder, text: str) -> None:
    take_run(folder, Claimant(UID, text), attempt=1)
    with pytest.raises(JobRefused, match=r"belongs to another TrainJob \(uid 0a1b-mine\)"):
        take_run(folder, Claimant(OTHER), attempt=1)


@pytest.mark.parametrize("uid", [UID, OTHER])
@pytest.mark.parametrize("step", range(4))  # two listings of all claims, two writes
def test_exactly_one_of_two_concurrent_attempts_wins(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, uid: str, step: int
) -> None:
    """The other attempt takes the run between two steps of this one."""
    claims = take_concurrently(
        folder,
        monkeypatch,
        mine=lambda: take_run(folder, Claimant(UID, is_sharing=True), attempt=1),
        other=lambda: take_run(folder, Claimant(uid, is_sharing=True), attempt=2),
        step=step,
    )
    free = [claim for claim in claims if is_free(folder, claim)]
    assert len(free) == 1, claims
    assert is_free(folder, free[0])


def test_the_second_head_of_an_attempt_stops_and_the_first_one_keeps_the_run(folder: RunFolder) -> None:
    """The operator has made the head again, and the first one still runs on a node that is cut off."""
    first = take_run(folder, Claimant(UID), attempt=1, pod="pod-b")
    for pod in ("pod-a", "pod-c"):
        with pytest.raises(Fenced, match="attempt 1 has another head pod, which has the run; this one commits and"):
            take_run(folder, Claimant(UID), attempt=1, pod=pod)
        check_claim(folder, first)
    assert folder.list_names(claims_module.CLAIMS) == [str(first)], "a head that was refused leaves nothing"
    second = take_run(folder, Claimant(UID), attempt=2, pod="pod-a")
    with pytest.raises(Fenced, match="attempt 2 has taken over"):
        check_claim(folder, first)
    check_claim(folder, second)


def test_a_container_that_restarts_in_its_pod_keeps_the_run(folder: RunFolder) -> None:
    first = take_run(folder, Claimant(UID), attempt=1, pod="pod-a")
    assert take_run(folder, Claimant(UID), attempt=1, pod="pod-a") == first
    check_claim(folder, first)


@pytest.mark.parametrize("pods", [("pod-a", "pod-b"), ("pod-b", "pod-a")])
@pytest.mark.parametrize("step", range(4))
def test_exactly_one_of_two_concurrent_heads_of_an_attempt_wins(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, pods: tuple[str, str], step: int
) -> None:
    claims = take_concurrently(
        folder,
        monkeypatch,
        mine=lambda: take_run(folder, Claimant(UID), attempt=1, pod=pods[0]),
        other=lambda: take_run(folder, Claimant(UID), attempt=1, pod=pods[1]),
        step=step,
    )
    free = [claim for claim in claims if is_free(folder, claim)]
    assert len(free) == 1, claims
    assert is_free(folder, free[0])


def take_concurrently(
    folder: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    *,
    mine: Callable[[], Claim],
    other: Callable[[], Claim],
    step: int,
) -> list[Claim]:
    """The claims of both; `other` takes the run before this step of `mine`."""
    steps: list[str] = []
    claims: list[Claim] = []

    def meanwhile(name: str) -> Callable[..., Any]:
        method = getattr(RunFolder, name)

        def call(self: RunFolder, *arguments: Any) -> Any:
            steps.append(name)
            if len(steps) == step + 1:
                with contextlib.suppress(Fenced):
                    claims.append(other())
            return method(self, *arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("list_names", "write"):
            patch.setattr(RunFolder, name, meanwhile(name))
        with contextlib.suppress(Fenced, JobRefused):
            claims.append(mine())
    return claims


def is_free(folder: RunFolder, claim: Claim) -> bool:
    try:
        check_claim(folder, claim)
    except (Fenced, JobRefused):
        return False
    return True


@pytest.mark.parametrize("text", ["", "000001.0a1b", "000001.0a1b-mine.000002.", "nonsense", None])
def test_a_partly_written_fence_permits_nothing(folder: RunFolder, text: str | None) -> None:
    first = take_run(folder, Claimant(UID), attempt=1)
    second = take_run(folder, Claimant(UID), attempt=2)
    path = Path(folder.find(claims_module.FENCE))
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(Fenced):
        check_claim(folder, first)
    check_claim(folder, second)
    assert path.read_text() == str(second)


def test_a_check_reads_only_one_file(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = take_run(folder, Claimant(UID), attempt=3)
    reads: list[str] = []
    read = RunFolder.read
    monkeypatch.setattr(RunFolder, "read", lambda self, name: reads.append(name) or read(self, name))  # type: ignore[func-returns-value]
    for name in ("list_names", "write"):
        monkeypatch.setattr(RunFolder, name, lambda *_: pytest.fail("more than a read"))
    check_claim(folder, claim)
    assert reads == [claims_module.FENCE]


def wait_for_clean_up() -> None:
    for thread in threading.enumerate():
        if thread.name == "railhead-clean-up":
            thread.join(60)


def fake_group(*callbacks: object) -> Any:
    """A worker group of Ray's with these callbacks."""
    return types.SimpleNamespace(_callbacks=list(callbacks))


class Controller:
    """A real checkpoint manager with our callback, as in Ray Train's controller of one attempt."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, attempt: int, keep: int = 1) -> None:
        self.storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.folder = RunFolder(self.storage.storage_filesystem, self.storage.experiment_fs_path)
        self.temp = folder / f"temp-{attempt}"
        monkeypatch.setenv(e.TEMP, str(self.temp))
        claim = take_run(self.folder, Claimant(UID), attempt=attempt)
        monkeypatch.setenv("RAILHEAD_RUN", "")
        RunContext("/runs/r", claim=str(claim), run_id="the-id").write()
        self.manager = CheckpointManager(CheckpointConfig(num_to_keep=keep), self.storage)
        self.known = Group()
        self.callback = FenceStep(self.known, Mailbox(self.temp), RunContext.read())
        self.group = fake_group(object(), self.manager)
        for _ in range(2):  # a group that restarts
            self.start_group()

    def start_group(self) -> None:
        self.callback.after_group_start(self.group)
        wait_for_clean_up()

    def commit(self, name: str, *, content: str = "w") -> None:
        Path(self.folder.find(name)).mkdir(exist_ok=True, parents=True)
        Path(self.folder.find(name), "weights").write_text(content)
        checkpoint = Checkpoint(path=self.folder.find(name), filesystem=self.storage.storage_filesystem)
        report = _TrainingReport(checkpoint, {}, False)

        async def run() -> None:
            self.manager.after_report(report, [{}])

        asyncio.run(run())

    def checkpoints(self) -> list[str]:
        return sorted(p.name for p in Path(self.folder.path).iterdir() if p.name.startswith("c"))

    def kept(self) -> list[str]:
        return checkpoint_manager_module.list_names(self.manager)

    def latest(self) -> str:
        text = Path(self.folder.path, "checkpoint_manager_snapshot.json").read_text()
        return str(json.loads(text)["latest_checkpoint_result"]["checkpoint_dir_name"])


def test_a_fenced_manager_neither_commits_nor_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    for name in ("c0", "c1"):
        old.commit(name)
    assert [n for n in old.checkpoints() if n != "checkpoint_manager_snapshot.json"] == ["c1"]
    new = Controller(tmp_path, monkeypatch, attempt=2)
    with pytest.raises(Fenced):
        old.commit("c2")
    failure = Mailbox(old.temp).controller.read().failure
    assert failure is not None and failure.class_ == "Fenced"
    assert (new.latest(), (tmp_path / "r" / "c1").exists()) == ("c1", True)
    new.commit("c3")
    assert (new.latest(), (tmp_path / "r" / "c1").exists()) == ("c3", False)
    with pytest.raises(Fenced):
        old.callback.after_group_start(old.group)


def test_a_successor_between_a_commit_and_its_deletion_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    old.commit("c0")
    save = old.manager._save_state

    def save_late() -> Any:  # after the check, before the snapshot is written
        take_run(old.folder, Claimant(UID), attempt=2)
        return save()

    old.manager._save_state = save_late
    with pytest.raises(Fenced):
        old.commit("c1")
    assert (tmp_path / "r" / "c0").exists(), "the successor may have read that c0 is the latest"


class FailingStorage:
    """A storage whose fence cannot be read: each read raises the next error, until none is left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[OSError] = []
        self.now = 0.0
        read = RunFolder.read
        monkeypatch.setattr(
            RunFolder,
            "read",
            lambda s, name: self.fail() if name == claims_module.FENCE and self.errors else read(s, name),
        )
        monkeypatch.setattr("railhead.driver.train_controller.fence_step.Patience", self.make_patience)

    def fail(self) -> bytes:
        raise self.errors.pop(0)

    def make_patience(self, tell: Callable[[Exception], None]) -> Patience:
        return Patience(tell, sleep=lambda seconds: self.sleep(seconds), monotonic=lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingStorage:
    return FailingStorage(monkeypatch)


SLOW_DOWN = "AWS Error SLOW_DOWN during GetObject operation"


def test_a_commit_waits_for_a_storage_that_fails_temporarily(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    failing.errors = [OSError(SLOW_DOWN), OSError(errno.ESTALE, "Stale file handle"), TimeoutError()]
    run.commit("c0")
    assert (run.latest(), failing.errors) == ("c0", [])
    assert SLOW_DOWN in capsys.readouterr().out
    warning = Mailbox(run.temp).controller.read().warning
    assert warning is not None and warning.reason == "StorageUnreachable"
    assert warning.message.startswith(f"run.storagePath: {run.folder.path}: ")
    assert Mailbox(run.temp).controller.read().failure is None
    failing.errors = [OSError(SLOW_DOWN)]
    run.callback.after_group_start(run.group)


def test_a_commit_does_not_wait_forever_or_for_permanent_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    failing.errors = [OSError(SLOW_DOWN) for _ in range(1000)]
    with pytest.raises(OSError, match="SLOW_DOWN"):
        run.commit("c0")
    assert 90 < failing.now <= 120 and len(failing.errors) > 980
    failing.errors, failing.now = [PermissionError(errno.EACCES, "no")], 0.0
    with pytest.raises(PermissionError):
        run.commit("c1")
    assert failing.now == 0.0


def test_a_successor_fences_at_once_even_if_the_storage_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage
) -> None:
    old = Controller(tmp_path, monkeypatch, attempt=1)
    take_run(old.folder, Claimant(UID), attempt=2)
    failing.errors = [OSError(SLOW_DOWN)]
    with pytest.raises(Fenced):
        old.commit("c0")
    assert failing.now == 0.5


def break_after_write(run: Controller, failing: FailingStorage) -> None:
    """The next commit is written, and then the storage fails, right before the deletion."""
    write = run.manager._write_state_to_storage

    def write_and_break() -> None:
        write()
        failing.errors = [OSError(SLOW_DOWN)]
        run.manager._write_state_to_storage = write

    run.manager._write_state_to_storage = write_and_break


def test_postpones_a_deletion_while_the_storage_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    first = "checkpoint_2026-11-22_23-40-00.000001"
    run.commit(first)
    break_after_write(run, failing)
    run.commit("c1")
    assert (run.latest(), Path(run.folder.find(first)).exists()) == ("c1", True)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("railhead ")]
    assert len(lines) == 1 and f"{first} is not deleted yet" in lines[0] and SLOW_DOWN in lines[0]
    run.commit("c2")
    left = sorted(path.name for path in (tmp_path / "r").iterdir() if path.is_dir() and path.name[0] == "c")
    assert (run.latest(), left) == ("c2", ["c2"]), "the next deletion makes up for it"


@pytest.mark.parametrize("name", ["c0", "deep/c0", "checkpoint_000000"])
def test_postpones_no_deletion_of_a_name_that_the_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage, name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The next deletion may come while a checkpoint of that name is being uploaded in the background again."""
    run = Controller(tmp_path, monkeypatch, attempt=1)
    run.commit(name)
    break_after_write(run, failing)
    run.commit("c1")
    assert f"{name} is not deleted, because the storage failed: " in capsys.readouterr().out
    run.commit("c2")
    assert (run.kept(), Path(run.folder.find(name), "weights").exists()) == (["c2"], True)


def test_one_name_for_all_checkpoints_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1, keep=2)
    for number in range(8):
        run.commit("last")
        assert (run.kept(), run.latest()) == (["last"], "last")
        assert find_resumable(run.folder, known={"last": number})[1] is None
    run.commit("c0")
    run.commit("c1")
    assert (run.kept(), (tmp_path / "r" / "last").exists()) == (["c0", "c1"], False)


@pytest.mark.parametrize("is_validated", [False, True])
def test_a_name_repeated_after_a_resume_costs_no_other_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_validated: bool
) -> None:
    """The function resumes at epoch n instead of n + 1."""
    run = Controller(tmp_path, monkeypatch, attempt=1, keep=2)
    for epoch in (1, 2, 3):
        run.commit(f"c{epoch}")
    run = Controller(tmp_path, monkeypatch, attempt=2, keep=2)
    if is_validated:
        run.manager._validated_checkpoints.add(run.manager.latest_checkpoint_result.checkpoint)
    run.commit("c3")
    assert run.kept() == ["c2", "c3"] == sorted(path.name for path in (tmp_path / "r").glob("c?"))
    run.commit("c4")
    run.commit("c5")
    assert (run.kept(), run.latest()) == (["c4", "c5"], "c5")
    assert Controller(tmp_path, monkeypatch, attempt=3, keep=2).kept() == ["c4", "c5"], "Ray's manager reads it"


@pytest.mark.parametrize("names", [("c2", "c3", "c3"), ("c3", "c3", "c4")])
def test_a_name_repeated_after_a_fall_back_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The newest checkpoint is lost, and the run resumes from the one before."""
    run = Controller(tmp_path, monkeypatch, attempt=1, keep=2)
    for epoch in (1, 2, 3):
        run.commit(f"c{epoch}", content="large")
    shutil.rmtree(run.folder.find("c3"))
    assert restore_run(run.folder, fields=list_fields(), known={"c3": 2}, commits=3)[0] == "c2"
    run = Controller(tmp_path, monkeypatch, attempt=2, keep=2)
    assert run.kept() == ["c2"]
    for name in names:
        run.commit(name)
        assert find_resumable(run.folder, known={"c2": 3})[1] is None
    assert run.kept() == sorted(set(names)) == sorted(path.name for path in (tmp_path / "r").glob("c?"))


def test_a_snapshot_that_names_a_folder_twice_loses_it_only_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version of Railhead has written it."""
    run = Controller(tmp_path, monkeypatch, attempt=1, keep=2)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_manager_module, "drop_repeated", lambda _: "")
        run.commit("c0")
        run.commit("c0")
    run = Controller(tmp_path, monkeypatch, attempt=2, keep=2)
    assert run.kept() == ["c0", "c0"]
    run.commit("c1")
    assert (run.kept(), Path(run.folder.find("c0")).exists()) == (["c0", "c1"], True)
    run.commit("c2")
    assert (run.kept(), Path(run.folder.find("c0")).exists()) == (["c1", "c2"], False)


def test_a_folder_that_contains_a_kept_checkpoint_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    run.commit("c")
    run.commit("c/best")
    assert (run.kept(), Path(run.folder.find("c/best/weights")).exists()) == (["c/best"], True)


def test_the_callback_learns_which_name_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1, keep=2)
    for name in ("c0", "c1", "c2", "c3"):
        run.commit(name)
    assert run.known.repeated_name == ""
    run.commit("c3")
    assert run.known.repeated_name == "c3"


def test_retries_rays_snapshot_write_behind_the_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: FailingStorage
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
    monkeypatch.setattr(failing, "sleep", lambda seconds: take_run(run.folder, Claimant(UID), attempt=2))
    with pytest.raises(Fenced):
        run.commit("c1")


PARTIAL, COMPLETE = "checkpoint_2026-11-22_23-44-51.000123", "checkpoint_2026-11-22_23-40-00.000001"


def test_the_next_group_or_the_end_removes_folders_of_unfinished_uploads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial, complete = PARTIAL, COMPLETE
    run = Controller(tmp_path, monkeypatch, attempt=1)
    path = Path(run.folder.find(partial))
    record_upload(run.folder, complete)
    run.commit(complete)
    assert run.folder.list_names(RECORDS) == []
    record_upload(run.folder, complete)
    for attempt in (2, 3):  # after the end of an attempt, and after its death
        path.mkdir()
        record_upload(run.folder, partial)
        if attempt == 2:
            run.callback.after_finish()
        successor = Controller(tmp_path, monkeypatch, attempt=attempt)
        assert not path.exists() and Path(run.folder.find(complete)).exists()
    path.mkdir()
    record_upload(run.folder, partial)
    with pytest.raises(Fenced):
        run.callback.after_group_start(run.group)
    run.callback.after_finish()
    assert path.exists(), "a fenced attempt removes nothing"
    assert Mailbox(successor.temp).controller.read().failure is None
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "delete_folder", lambda *_: bad_disk())
        successor.start_group()
    assert path.exists(), "an error of the removal fails no run"
    successor.callback.after_finish()
    assert not path.exists()


class HangingStorage:
    """`method` of a run's folder does not return before `responds` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        self.responds, self.is_done = threading.Event(), threading.Event()
        self._method = getattr(RunFolder, method)
        monkeypatch.setattr(RunFolder, method, lambda folder, name: self._hang(folder, name))

    def _hang(self, folder: RunFolder, name: str) -> Any:
        try:
            assert self.responds.wait(10)
            return self._method(folder, name)
        finally:
            self.is_done.set()

    def respond(self) -> None:
        self.responds.set()
        assert self.is_done.wait(60)


@pytest.mark.parametrize("method", ["list_names", "delete_folder"])
def test_a_storage_that_hangs_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    record_upload(run.folder, PARTIAL)
    Path(run.folder.find(PARTIAL)).mkdir()
    monkeypatch.setattr("railhead.driver.train_controller.fence_step.END_PATIENCE_SECONDS", 0.0)
    if method == "list_names":
        monkeypatch.setattr("railhead.driver.train_controller.fence_step.LIST_PATIENCE_SECONDS", 0.0)
    storage = HangingStorage(monkeypatch, method)
    run.callback.after_finish()
    assert not storage.is_done.is_set()
    storage.respond()


def test_a_group_trains_while_a_slow_storage_removes_what_earlier_ones_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Controller(tmp_path, monkeypatch, attempt=1)
    for name in (PARTIAL, COMPLETE):
        record_upload(run.folder, PARTIAL)
        Path(run.folder.find(name)).mkdir()
    storage = HangingStorage(monkeypatch, "delete_folder")
    monkeypatch.setattr("railhead.driver.train_controller.fence_step.LIST_PATIENCE_SECONDS", 60.0)
    run.callback.after_group_start(run.group)
    assert not storage.is_done.is_set()
    record_upload(run.folder, COMPLETE)  # the group trains
    storage.respond()
    run.callback.after_finish()
    assert not Path(run.folder.find(PARTIAL)).exists()


def test_what_is_listed_once_the_group_trains_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the group's own."""
    run = Controller(tmp_path, monkeypatch, attempt=1)
    monkeypatch.setattr("railhead.driver.train_controller.fence_step.LIST_PATIENCE_SECONDS", 0.0)
    storage, removed = HangingStorage(monkeypatch, "list_names"), list[str]()
    monkeypatch.setattr(RunFolder, "delete_folder", lambda folder, name: removed.append(name))
    run.callback.after_group_start(run.group)
    record_upload(run.folder, PARTIAL)
    Path(run.folder.find(PARTIAL)).mkdir()
    storage.respond()
    wait_for_clean_up()
    assert removed == []


def bad_disk() -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_permits_training_on_each_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []

    def call(*arguments: object) -> None:
        called.append(arguments)

    workers: list[Any] = [types.SimpleNamespace(execute_async=call) for _ in range(3)]
    callback = Controller(tmp_path, monkeypatch, attempt=1).callback
    callback.before_training_context(workers)
    assert called == [(permit_training, "the-id")] * 3


def test_rejects_a_ray_without_a_checkpoint_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    callback = Controller(tmp_path, monkeypatch, attempt=1).callback
    with pytest.raises(JobRefused) as caught:
        callback.after_group_start(fake_group())
    assert caught.value.failure.reason == "RayTrainNotUsable"
