"""Ray's own report and upload on several ranks: a record in the run's folder before the upload begins, and what is
compared and refused around it."""

from __future__ import annotations

import errno
import os
import pickle
import queue
import re
import shutil
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from ray.train import Checkpoint, CheckpointUploadMode
from ray.train.v2._internal.execution import context as ray_context
from ray.train.v2._internal.execution import storage as ray_storage
from ray.train.v2._internal.execution.context import TrainContext
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2.api.exceptions import WorkerGroupError

from railhead.contract.failure import FailureClass
from railhead.driver.mailbox.heartbeat import Uploads
from railhead.driver.messages.attempt_errors import TrainingError, explain_exception
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank import steps, watched_uploads
from railhead.driver.ray import train_context
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.unfinished_uploads import ELSEWHERE, RECORDS, record_upload
from railhead.driver.train_controller.failures.classify_failure import classify_failure
from railhead.driver.train_controller.failures.ray_exceptions import translate_error
from railhead.driver.train_controller.worker_group import Group

NAME = "checkpoint_2026-11-22_23-44-51.000123"
COPY_FILES = ray_storage._pyarrow_fs_copy_files
SYNC, ASYNC, NO_UPLOAD = CheckpointUploadMode.SYNC, CheckpointUploadMode.ASYNC, CheckpointUploadMode.NO_UPLOAD


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (train_context.REPORT, train_context.UPLOAD):
        method = getattr(TrainContext, name)  # another test may have called run_rank(), which watches it
        monkeypatch.setattr(TrainContext, name, getattr(method, "__wrapped__", method))
    monkeypatch.setattr(TrainContext, train_context._WATCHED, True, raising=False)
    monkeypatch.delattr(TrainContext, train_context._WATCHED)
    persist = getattr(StorageContext, train_context.COPY)
    monkeypatch.setattr(StorageContext, train_context.COPY, getattr(persist, "__wrapped__", persist))
    monkeypatch.setattr(steps, "STEPS", steps.RankProgress())
    monkeypatch.setattr(train_context, "REPORTS", train_context.Reports())
    watched_uploads.watch_uploads()
    watched_uploads.watch_uploads()


class Rank:
    """Ray's context in one rank's process; `at_barrier` takes the name that the rank brings and returns rank 0's."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, rank: int = 0) -> None:
        storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.folder = RunFolder(storage.storage_filesystem, storage.experiment_fs_path)
        self.local = folder / "local"
        self.local.mkdir()
        (self.local / "weights").write_text("w")
        self.reports: queue.Queue[Any] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
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
    monkeypatch.setattr(watched_uploads, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
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
    assert getattr(done, train_context.TIMES) == times


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
    monkeypatch.setattr(watched_uploads, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(watched_uploads, "is_recorded", lambda *_: True)
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


@pytest.mark.parametrize("name", [train_context.REPORT, train_context.UPLOAD])
def test_leaves_a_ray_alone_whose_methods_take_something_else(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    other = lambda self, everything: None  # noqa: E731
    monkeypatch.setattr(TrainContext, name, other)
    monkeypatch.delattr(TrainContext, train_context._WATCHED)
    before = {each: getattr(TrainContext, each) for each in train_context.METHODS}
    watched_uploads.watch_uploads()
    assert {each: getattr(TrainContext, each) for each in train_context.METHODS} == before


def watch_copies(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]) -> None:
    """Calls the functions right before and after Arrow's copy of a folder."""

    def copy_between(*arguments: Any, **options: Any) -> None:
        before()
        COPY_FILES(*arguments, **options)
        after()

    monkeypatch.setattr(ray_storage, "_pyarrow_fs_copy_files", copy_between)


def find_error(rank: Rank, mode: CheckpointUploadMode) -> BaseException | None:
    """Reports the checkpoint; returns what Ray Train's controller learns, None for a report that arrives."""
    try:
        rank.context.report({"loss": 1.0}, rank.make(), None, mode)
    except Exception as error:
        return error
    rank.context.checkpoint_upload_threadpool.shutdown()
    assert rank.errors.empty() != rank.reports.empty()
    return None if rank.errors.empty() else getattr(rank.errors.get(), "_base_exc", None)


def do_nothing() -> None:
    pass


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda local: [file.unlink() for file in local.iterdir()], "2 of its 2 files .*: state .not uploaded., weig"),
        (lambda local: (local / "weights").unlink(), r"1 of its 2 files .*: weights \(not uploaded\); "),
        (lambda local: (local / "weights").write_text("w"), r"1 of its 2 files .*: weights \(written again\); "),
        (lambda local: (local / "weights").write_text(""), r"weights \(1 bytes when reported, 0 uploaded\); "),
        (lambda local: (local / "log").rename(local / "weights"), r": weights \(3 bytes|weights \(1 bytes when"),
    ],
)
def test_what_changes_before_it_is_copied_is_not_committed_and_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: CheckpointUploadMode,
    change: Callable[[Path], object],
    named: str,
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    (rank.local / "state").write_text("s")
    (tmp_path / "log").write_text("new")

    def change_later() -> None:
        before = (rank.local / "weights").stat().st_mtime_ns
        while (tmp_path / "log").stat().st_mtime_ns <= before:  # clocks of file systems tick every few milliseconds
            (tmp_path / "log").write_text("new")
        change(Here(rank.local, tmp_path))  # type: ignore[arg-type]

    watch_copies(monkeypatch, change_later, do_nothing)
    error = find_error(rank, mode)
    assert isinstance(error, RuntimeError) and explain_exception(error, 0).kind is RankErrorKind.RAISED
    assert re.search(named, str(error)), error
    assert str(error).startswith("ray.train.report: the checkpoint in ") and "ASYNC" in str(error)
    assert rank.reports.empty() and rank.records, "the clean-up removes what was uploaded"


class Here:
    """The rank's folder, and `log` beside it."""

    def __init__(self, local: Path, other: Path) -> None:
        self._local, self._other = local, other

    def __truediv__(self, name: str) -> Path:
        return (self._other if name == "log" else self._local) / name

    def iterdir(self) -> list[Path]:
        return list(self._local.iterdir())


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_what_the_storage_has_whole_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    """A file is added before the copy, and everything goes right after it."""
    rank = Rank(tmp_path, monkeypatch)
    watch_copies(monkeypatch, lambda: (rank.local / "new").write_text("n"), lambda: shutil.rmtree(rank.local))
    assert find_error(rank, mode) is None


@pytest.mark.parametrize(("mode", "is_committed"), [(SYNC, True), (ASYNC, False)])
def test_a_log_may_grow_while_the_training_thread_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode, is_committed: bool
) -> None:
    """In the background it may as well be the next step's weights, which are somewhat larger."""
    rank = Rank(tmp_path, monkeypatch)

    def grow() -> None:
        with open(rank.local / "weights", "a") as file:
            file.write("more")

    watch_copies(monkeypatch, grow, do_nothing)
    assert (find_error(rank, mode) is None) is is_committed


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_a_folder_that_stays_costs_no_request_to_the_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    monkeypatch.setattr(RunFolder, "_list", lambda *_, **__: pytest.fail("lists"))
    done = rank.report(checkpoint=rank.make(), mode=mode, delete_local_checkpoint_after_upload=True)
    assert getattr(pickle.loads(pickle.dumps(done)), train_context.FILES) == 1


def test_a_temporary_folder_is_compared_with_what_it_had_when_report_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another upload is still under way: Arrow finds a folder that is empty by then, and copies it without an error."""
    rank, may_upload = Rank(tmp_path, monkeypatch), threading.Event()
    rank.context.checkpoint_upload_threadpool.submit(may_upload.wait, 60)
    rank.context.report({}, rank.make(), None, ASYNC)
    (rank.local / "weights").unlink()
    may_upload.set()
    rank.context.checkpoint_upload_threadpool.shutdown()
    assert rank.reports.empty()
    assert "1 of its 1 files changed during the upload: weights (not uploaded)" in str(rank.errors.get()._base_exc)


def test_two_reports_of_one_checkpoint_are_compared_each_with_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank, may_upload = Rank(tmp_path, monkeypatch), threading.Event()
    rank.context.checkpoint_upload_threadpool.submit(may_upload.wait, 60)
    checkpoint = rank.make()
    rank.context.report({}, checkpoint, None, ASYNC)
    (rank.local / "weights").write_text("the next step's")
    rank.context.report({}, checkpoint, None, ASYNC)
    may_upload.set()
    assert "weights (1 bytes when reported, 15 uploaded)" in str(rank.errors.get(timeout=60)._base_exc)
    with rank.context.report_order_condition:  # Ray's thread would wait for the first one without end
        rank.context.current_report_index = 1
        rank.context.report_order_condition.notify_all()
    assert rank.reports.get(timeout=60).checkpoint is not None


def test_a_function_of_the_users_may_do_with_the_folder_what_it_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finishes the folder, uses Ray's own copy, and removes the folder before it returns."""
    rank = Rank(tmp_path, monkeypatch)

    def upload(checkpoint: Checkpoint, name: str) -> Checkpoint:
        (rank.local / "weights").rename(rank.local / "final")
        done: Checkpoint = rank.context.storage_context.persist_current_checkpoint(checkpoint, name)
        shutil.rmtree(rank.local)
        return done

    done = rank.report(checkpoint=rank.make(), mode=ASYNC, checkpoint_upload_fn=upload)
    assert os.listdir(done.path) == ["final"] and not hasattr(done, train_context.FILES)


def raise_error(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("ENOSPC", "Error writing bytes to file. Detail: [errno 28] No space left on device", RankErrorKind.STORAGE),
        ("EIO", "Cannot read '/local/weights'", RankErrorKind.STORAGE),
        ("EACCES", "Failed to open local file '/runs/r/c/weights'", RankErrorKind.STORAGE),
        ("EROFS", "Failed to open local file '/runs/r/c/weights'", RankErrorKind.STORAGE),
        (None, "When uploading part: AWS Error ACCESS_DENIED (HTTP status 403)", RankErrorKind.STORAGE),
        (None, "When uploading part: AWS Error NETWORK_CONNECTION", RankErrorKind.STORAGE),
        ("EACCES", "Failed to open local file '{local}/weights'", RankErrorKind.RAISED),
        ("ENOENT", "Failed to open local file '{local}/weights'", RankErrorKind.RAISED),
        *(
            (code, "no", RankErrorKind.RAISED)
            for code in ("EISDIR", "ENOTDIR", "ENAMETOOLONG", "EINVAL", "ELOOP", "EEXIST")
        ),
    ],
)
def test_an_error_of_a_copy_is_the_storages_if_waiting_or_an_administrator_helps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: CheckpointUploadMode,
    code: str | None,
    text: str,
    kind: RankErrorKind,
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    text = text.format(local=rank.local)
    error = OSError(getattr(errno, code), text) if code else OSError(text)
    watch_copies(monkeypatch, lambda: raise_error(error), do_nothing)
    found = find_error(rank, mode)
    assert found is not None
    facts = translate_error(WorkerGroupError("", {0: pickle.loads(pickle.dumps(found))}), Group())
    assert [each.kind for each in facts.errors] == [kind]
    assert explain_exception(found, 0).kind is kind, "as the training function raises it"


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
def test_a_missing_mount_on_a_worker_is_no_error_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode
) -> None:
    """Ray looks for its marker before each upload, and raises a RuntimeError."""
    rank = Rank(tmp_path, monkeypatch)
    Path(rank.folder.path).rename(tmp_path / "unmounted")
    found = find_error(rank, mode)
    assert isinstance(found, RuntimeError) and explain_exception(found, 3).kind is RankErrorKind.STORAGE


@pytest.mark.parametrize("mode", [SYNC, ASYNC])
@pytest.mark.parametrize("name", ["a file", "no folder", "a long name", "an error of the user's own upload"])
def test_the_users_own_error_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CheckpointUploadMode, name: str
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    options: dict[str, Any] = {}
    if name == "an error of the user's own upload":
        error = requests.HTTPError("401 Client Error: Unauthorized for url: https://hub.example/x")
        options["checkpoint_upload_fn"] = lambda *_: raise_error(error)
    long = "n" * 300 if name == "a long name" else None
    path = rank.local / {"a file": "weights", "no folder": "gone"}.get(name, "")
    try:
        rank.context.report({}, Checkpoint(str(path)), long, mode, **options)
        rank.context.checkpoint_upload_threadpool.shutdown()
        found = rank.errors.get_nowait()._base_exc
    except OSError as raised:
        found = raised
    facts = translate_error(WorkerGroupError("", {0: pickle.loads(pickle.dumps(found))}), Group())
    failure = classify_failure(facts)
    assert (failure.class_, failure.reason) == (FailureClass.APPLICATION, "TrainFunctionRaised")
    assert explain_exception(found, 0).kind is RankErrorKind.RAISED
    assert name != "a file" or f"the checkpoint {path} is a file; put it into a folder" in failure.message
    assert name != "no folder" or f"the checkpoint's folder {path} does not exist" in failure.message


def test_a_report_after_one_that_failed_raises_at_once_whatever_the_function_catches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    rank.context.report({}, rank.make(), None, SYNC)
    rank.reports.get_nowait()
    with pytest.raises(FileNotFoundError):
        rank.context.report({}, Checkpoint(str(tmp_path / "gone")), None, SYNC)
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"an earlier report of this rank failed.*gone") as caught:
            rank.context.report({}, rank.make(), None, SYNC)
        assert train_context.REPORTS.refused is caught.value
    assert caught.value.kind is RankErrorKind.RAISED and rank.reports.empty()


def test_a_storage_that_failed_stays_to_blame_although_the_function_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = Rank(tmp_path, monkeypatch)
    watch_copies(monkeypatch, lambda: raise_error(OSError(errno.ENOSPC, "full")), do_nothing)
    with pytest.raises(OSError, match="full"):
        rank.context.report({}, rank.make(), None, SYNC)
    with pytest.raises(TrainingError, match="full") as caught:
        rank.context.report({}, None, None, SYNC)
    assert caught.value.kind is RankErrorKind.STORAGE


def test_a_report_that_ray_has_not_counted_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks still wait for it."""
    rank = Rank(tmp_path, monkeypatch)
    with pytest.raises(TypeError, match=r"ray\.train\.report: metric 'net' cannot be written with a checkpoint: a "):
        rank.context.report({"net": object()}, rank.make(), None, SYNC)
    with pytest.raises(ValueError, match="validation_config"):
        rank.context.report({}, rank.make(), None, SYNC, validation=True)
    assert rank.report(checkpoint=rank.make()) is not None


def test_metrics_reach_the_controller_as_pythons_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(tmp_path, monkeypatch)
    rank.context.report({"loss": np.float32(0.5), "hist": np.arange(2)}, rank.make(), None, SYNC)
    assert rank.reports.get_nowait().metrics == {"loss": 0.5, "hist": [0, 1]}


@pytest.mark.parametrize(("number", "has_checkpoint"), [(0, False), (1, True)])
def test_metrics_that_are_not_written_may_be_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, has_checkpoint: bool
) -> None:
    """With a checkpoint, Ray writes those of rank 0 alone; the user's callbacks read all of them."""
    rank, mine, array = Rank(tmp_path, monkeypatch, rank=number), object(), np.arange(2)
    rank.context.report({"mine": mine, "array": array}, rank.make() if has_checkpoint else None, None, SYNC)
    assert rank.reports.get_nowait().metrics == {"mine": mine, "array": array}
