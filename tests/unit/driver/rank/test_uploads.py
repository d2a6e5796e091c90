"""Ray's own report and upload on several ranks, with a record in the run's folder before the upload begins."""

from __future__ import annotations

import pickle
import queue
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2._internal.execution import context as ray_context
from ray.train.v2._internal.execution.context import TrainContext
from ray.train.v2._internal.execution.storage import StorageContext

from railhead.driver.rank import steps, uploads
from railhead.driver.ray import context
from railhead.driver.reporting.heartbeat import Uploads
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.uploads import ELSEWHERE, RECORDS, record_upload

NAME = "checkpoint_2026-11-22_23-44-51.000123"
SYNC, ASYNC, NO_UPLOAD = CheckpointUploadMode.SYNC, CheckpointUploadMode.ASYNC, CheckpointUploadMode.NO_UPLOAD


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (context.REPORT, context.UPLOAD):
        method = getattr(TrainContext, name)  # another test may have called run_rank(), which watches it
        monkeypatch.setattr(TrainContext, name, getattr(method, "__wrapped__", method))
    monkeypatch.setattr(TrainContext, context._WATCHED, True, raising=False)
    monkeypatch.delattr(TrainContext, context._WATCHED)
    monkeypatch.setattr(steps, "STEPS", steps.Beat())
    uploads.watch_uploads()
    uploads.watch_uploads()


class Rank:
    """Ray's context in one rank's process; `at_barrier` takes the name that the rank brings and returns rank 0's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, rank: int = 0) -> None:
        storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)
        self.local = folder / "local"
        self.local.mkdir()
        (self.local / "weights").write_text("w")
        self.reports: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[BaseException] = queue.Queue()
        self.at_barrier: Callable[[str], str] = lambda name: name if rank == 0 else NAME
        execution = types.SimpleNamespace(
            train_context_callbacks=[],
            result_queue=self.reports,
            training_thread_runner=types.SimpleNamespace(get_exception_queue=lambda: self.errors),
        )
        fields: dict[str, Any] = dict.fromkeys(TrainContext.__dataclass_fields__)
        fields.update(storage_context=storage, execution_context=execution, current_report_index=0)
        fields["distributed_context"] = types.SimpleNamespace(world_rank=rank, world_size=4)
        self.context = object.__new__(TrainContext)
        self.context.__dict__.update(fields, report_call_index=0, report_order_condition=threading.Condition())
        self.context.checkpoint_upload_threadpool = ray_context.ThreadPoolExecutor(1)
        monkeypatch.setattr(
            TrainContext,
            "_sync_checkpoint_dir_name_across_ranks",
            lambda _, name=None: self.at_barrier(name or storage.make_default_checkpoint_dir_name()),
        )

    @property
    def records(self) -> list[str]:
        return self.folder.list_names(RECORDS)

    def report(self, **options: Any) -> Any:
        """The checkpoint that Ray reports to its controller."""
        positional = [options.pop(name, None) for name in ("checkpoint", "checkpoint_dir_name")]
        mode = options.pop("mode", SYNC)
        self.context.report({"loss": 1.0}, *positional, mode, **options)  # as Ray calls it
        self.context.checkpoint_upload_threadpool.shutdown()
        assert self.errors.empty()
        return self.reports.get_nowait().checkpoint

    def make(self) -> Checkpoint:
        return Checkpoint(str(self.local))


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_rank_0_records_the_name_before_any_rank_learns_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    rank, seen = Rank(tmp_path, monkeypatch), list[list[str]]()

    def meet(name: str) -> str:
        seen.append([name])
        assert rank.records == [name]
        return name

    rank.at_barrier = meet
    done = rank.report(checkpoint=rank.make(), mode=mode)
    assert [[Path(done.path).name]] == seen == [rank.records], "the record stays until the commit"


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_another_rank_records_its_upload_if_rank_0_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode, is_there: bool
) -> None:
    rank = Rank(tmp_path, monkeypatch, rank=3)
    if is_there:
        record_upload(rank.folder, NAME)
        monkeypatch.setattr(RunFolder, "write", lambda *_: pytest.fail("512 ranks must not write one file"))

    def upload(checkpoint: Checkpoint, name: str) -> Checkpoint:
        assert rank.records == [name] == [NAME]
        done: Checkpoint = rank.context.storage_context.persist_current_checkpoint(checkpoint, name)
        return done

    assert rank.report(checkpoint=rank.make(), mode=mode, checkpoint_upload_fn=upload).path == rank.folder.find(NAME)


@pytest.mark.parametrize("rank_number", [0, 3])
def test_records_nothing_without_an_upload_that_ray_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank_number: int
) -> None:
    rank = Rank(tmp_path, monkeypatch, rank=rank_number)
    rank.at_barrier = lambda name: name
    mine = Checkpoint(rank.folder.find("mine"), rank.folder.filesystem)
    rank.context.report({}, None, None, SYNC)
    rank.context.report({}, rank.make(), "epoch-5", SYNC)
    rank.context.report({}, mine, None, NO_UPLOAD)
    rank.context.report({}, checkpoint=mine, checkpoint_upload_mode=NO_UPLOAD)
    assert [each and Path(each.path).name for each in (rank.reports.get_nowait().checkpoint for _ in range(4))] == [
        *(None, "epoch-5", "mine", "mine")
    ]
    assert rank.records == []


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_an_upload_counts_with_its_bytes_although_ray_deletes_the_local_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    rank, clock = Rank(tmp_path, monkeypatch), iter([100.0, 102.5])
    monkeypatch.setattr(uploads, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    (rank.local / "shards").mkdir()
    (rank.local / "shards" / "0").write_bytes(b"x" * 99)
    rank.report(checkpoint=rank.make(), mode=mode, delete_local_checkpoint_after_upload=True)
    assert not rank.local.exists()
    assert steps.STEPS.uploads == Uploads(1, 2.5, 100)


@pytest.mark.parametrize(("mode", "times"), [(SYNC, (5.0, 0.0)), (ASYNC, (1.0, 4.0))])
def test_a_checkpoint_brings_how_long_it_blocked_its_rank_and_how_long_training_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode, times: tuple[float, float]
) -> None:
    """The ranks meet for 1 s, and the upload takes 4 s."""
    rank, clock = Rank(tmp_path, monkeypatch), types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(steps, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    has_returned = threading.Event()

    def meet(name: str) -> str:
        clock.now += 1.0
        return name

    def upload(checkpoint: Checkpoint, name: str) -> Checkpoint:
        assert mode is SYNC or has_returned.wait(10)
        clock.now += 4.0
        done: Checkpoint = rank.context.storage_context.persist_current_checkpoint(checkpoint, name)
        return done

    rank.at_barrier = meet
    rank.context.report({}, rank.make(), None, mode, checkpoint_upload_fn=upload)
    has_returned.set()
    done = pickle.loads(pickle.dumps(rank.reports.get(timeout=10).checkpoint))
    assert getattr(done, context.TIMES) == times


def test_an_upload_that_fails_and_a_report_without_one_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(checkpoint: Checkpoint, name: str) -> Checkpoint:
        raise OSError("no space left")

    rank = Rank(tmp_path, monkeypatch)
    rank.context.report({}, None, None, SYNC)
    with pytest.raises(OSError, match="no space left"):
        rank.report(checkpoint=rank.make(), checkpoint_upload_fn=fail)
    assert steps.STEPS.uploads == Uploads()


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_a_report_counts_once_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    rank, counts = Rank(tmp_path, monkeypatch), list[int]()

    def meet(name: str) -> str:
        counts.append(steps.read_beat().reports)
        return name

    rank.at_barrier = meet
    rank.context.report({}, None, None, SYNC)
    rank.reports.get_nowait()
    rank.report(checkpoint=rank.make(), mode=mode)
    assert counts == [1, 2] and steps.read_beat().reports == 2


def test_a_record_that_cannot_be_written_fails_no_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    Path(rank.folder.find(".railhead")).write_text("no folder")
    rank.report(checkpoint=rank.make())
    assert "cannot record an upload, of which files may stay: NotADirectoryError" in capsys.readouterr().out


def test_a_storage_that_hangs_holds_up_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(tmp_path, monkeypatch)
    write, responds, is_done = RunFolder.write, threading.Event(), threading.Event()

    def write_late(self: RunFolder, name: str, data: bytes) -> None:
        assert responds.wait(60)
        write(self, name, data)
        is_done.set()

    monkeypatch.setattr(RunFolder, "write", write_late)
    monkeypatch.setattr(uploads, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(uploads, "is_recorded", lambda *_: True)
    done = rank.report(checkpoint=rank.make())
    assert done is not None and rank.records == []
    responds.set()
    assert is_done.wait(60)


@pytest.mark.parametrize(("where", "is_elsewhere"), [("pointers", True), (NAME, False), (f"{NAME}/deep", False)])
def test_notes_a_function_that_puts_its_checkpoint_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, is_elsewhere: bool
) -> None:
    rank = Rank(tmp_path, monkeypatch, rank=1)
    put = lambda checkpoint, name: Checkpoint(rank.folder.find(where), rank.folder.filesystem)  # noqa: E731
    rank.report(checkpoint=rank.make(), mode=ASYNC, checkpoint_upload_fn=put)
    assert (rank.folder.read(ELSEWHERE) is not None) is is_elsewhere


@pytest.mark.parametrize("name", [context.REPORT, context.UPLOAD])
def test_leaves_a_ray_alone_whose_methods_take_something_else(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    other = lambda self, everything: None  # noqa: E731
    monkeypatch.setattr(TrainContext, name, other)
    monkeypatch.delattr(TrainContext, context._WATCHED)
    before = {each: getattr(TrainContext, each) for each in context.METHODS}
    uploads.watch_uploads()
    assert {each: getattr(TrainContext, each) for each in context.METHODS} == before
