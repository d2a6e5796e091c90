"""Random lives of a run: its newest committed checkpoint exists at all times, and a next attempt can start from it.

The head is our callback with Ray's own checkpoint manager, on a local folder. The ranks are modelled: an upload writes
one file when it begins and one when it ends, and commits follow in the order in which the uploads began, as in Ray.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint import checkpoint_manager
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport

from railhead.contract import environment as e
from railhead.contract.report import RunWarning
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.acquire_run import restore_run
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import Fenced, JobRefused
from railhead.driver.ray import checkpoint_manager as checkpoint_manager_module
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.storage import claims
from railhead.driver.storage.claims import Claimant, take_run
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.storage_call import Patience
from railhead.driver.storage.unfinished_uploads import finish_commit, record_upload
from railhead.driver.train_controller.fence_step import FenceStep
from railhead.driver.train_controller.progress_step import find_score
from railhead.driver.train_controller.worker_group import Group
from tests.unit.driver.storage.test_claims import fake_group, wait_for_clean_up

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own use of pydantic
RAYS, UNIQUE, ONE, EPOCHS = "named by Ray", "unique", "one name", "by epoch, resumed at the newest one"
POINTS = ("before snapshot", "in snapshot", "before copy", "before deletion", "in deletion")


class Crashed(BaseException):
    """The head's process is killed."""


@dataclass(frozen=True)
class Upload:
    name: str
    content: str


@dataclass
class World:
    """What is true of the run's storage, beside what is on it.

    Attributes:
        contents: of each checkpoint that was committed, by its name.
        torn: names of folders that an upload has changed since their last commit; only a repeated name is among them.
        newest: the name of the newest committed checkpoint.
        known: as in the status: names and indices of commits that were reported.
        crash_at: the point of the next commit at which the head is killed.
        is_flaky: the storage fails between the next commit and its deletion.
    """

    path: Path
    scheme: str
    config: dict[str, Any]
    contents: dict[str, str] = field(default_factory=dict)
    torn: set[str] = field(default_factory=set)
    newest: str | None = None
    known: dict[str, int] = field(default_factory=dict)
    count: int = 0
    attempts: int = 0
    crash_at: str = ""
    is_flaky: bool = False
    errors: list[OSError] = field(default_factory=list)

    @property
    def folder(self) -> RunFolder:
        return find_folder(self.path)

    def crash(self, point: str) -> None:
        if self.crash_at == point:
            self.crash_at = ""
            raise Crashed

    def restore(self, path: Path) -> tuple[str | None, RunWarning | None]:
        commits = max(self.known.values(), default=-1) + 1
        return restore_run(find_folder(path), fields=list_fields(), known=self.known, commits=commits)


def open_storage(path: Path) -> StorageContext:
    return StorageContext(storage_path=str(path), experiment_dir_name="r")


def find_folder(path: Path) -> RunFolder:
    return RunFolder(LocalFileSystem(), str(path / "r"))


class Head:
    """One attempt's controller and ranks."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch, *, step: int) -> None:
        self.world, self.step = world, step
        self.uploads: list[Upload] = []
        self.folder = world.folder
        world.attempts += 1
        claim = take_run(self.folder, Claimant("mine"), attempt=world.attempts)
        patch.setenv("RAILHEAD_RUN", "")
        RunContext("/runs/r", claim=str(claim)).write()
        self.restored, _ = world.restore(world.path)
        self.manager = CheckpointManager(CheckpointConfig(**world.config), open_storage(world.path))
        checkpoint_manager_module.repair_scores(self.manager, find_score)
        save = self.manager._save_state
        self.manager._save_state = lambda: self._save(save())
        self.callback = FenceStep(Group(), Mailbox(Path(os.environ[e.TEMP])), RunContext.read())
        self.delete = checkpoint_manager.delete_fs_path
        self.start_group()
        if self.restored:
            self.step = int(self.restored.partition("_")[2]) if world.scheme == EPOCHS else step
            self._report(self.restored)  # as the driver does with a commit that it does not know

    @property
    def kept(self) -> list[str]:
        return checkpoint_manager_module.list_names(self.manager)

    def start_group(self) -> None:
        """The first one, or a restart in place: what the last one was uploading is lost."""
        self.uploads.clear()
        checkpoint_manager.delete_fs_path = self.delete  # the other head has its own process
        self.callback.after_group_start(fake_group(self.manager))
        wait_for_clean_up()
        self.delete = checkpoint_manager.delete_fs_path

    def begin(self) -> None:
        world = self.world
        world.count += 1
        names = {
            RAYS: f"checkpoint_2026-11-22_23-44-51.{world.count:06d}",
            UNIQUE: f"deep/unique_{world.count}",
            ONE: "last",
            EPOCHS: f"epoch_{self.step}",
        }
        self.step += 1
        upload = Upload(names[world.scheme], f"{world.count}")
        record_upload(self.folder, upload.name)
        self._write(upload, "first", upload.content)
        self.uploads.append(upload)

    def finish(self, metrics: dict[str, Any]) -> None:
        """The oldest upload ends, and is committed."""
        if not self.uploads:
            self.begin()
        upload = self.uploads.pop(0)
        self._write(upload, "second", upload.content * (1 + world_size(upload)))
        checkpoint = Checkpoint(self.folder.find(upload.name), self.folder.filesystem)
        report = _TrainingReport(checkpoint, metrics, False)
        self.saved = upload
        checkpoint_manager.delete_fs_path = self.delete

        async def run() -> None:
            self.manager.after_report(report, [metrics])

        asyncio.run(run())
        self._report(upload.name)

    def _write(self, upload: Upload, file: str, text: str) -> None:
        self.world.torn.add(upload.name)
        self.folder.write(f"{upload.name}/{file}", text.encode())

    def _save(self, text: str) -> str:
        """Ray's snapshot, right before it is written."""
        self.world.crash("before snapshot")
        if self.world.crash_at == "in snapshot":
            self.world.crash_at = "before copy"
            return text[: len(text) // 2]
        self.world.newest = self.saved.name
        self.world.contents[self.saved.name] = read(self.world.path, self.saved.name)
        self.world.torn.discard(self.saved.name)
        return text

    def _report(self, name: str) -> None:
        self.world.known = {name: max(self.world.known.values(), default=-1) + 1}


def world_size(upload: Upload) -> int:
    """Checkpoints of one name have different sizes."""
    return int(upload.content) * 7 % 5


@contextlib.contextmanager
def play(scheme: str, config: dict[str, Any]) -> Iterator[tuple[World, pytest.MonkeyPatch]]:
    """One run on a folder of its own, in a process of its own as far as Ray's module is concerned."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder, "runs"), scheme, config)
        delete, read = checkpoint_manager.delete_fs_path, RunFolder.read

        def delete_fs_path(fs: Any, fs_path: str) -> None:
            if world.crash_at == "in deletion":
                next(Path(fs_path).iterdir()).unlink()
            world.crash("in deletion")
            delete(fs=fs, fs_path=fs_path)

        def finish(folder: RunFolder, check: Callable[[], None]) -> None:
            world.crash("before copy")
            finish_commit(folder, check)
            world.crash("before deletion")
            world.errors = [OSError("AWS Error SLOW_DOWN")] if world.is_flaky else []
            world.is_flaky = False

        def read_flaky(self: RunFolder, name: str) -> Any:
            if name == claims.FENCE and world.errors:
                raise world.errors.pop()
            return read(self, name)

        def make_patience(tell: Callable[[Exception], None]) -> Patience:
            return Patience(tell, sleep=lambda seconds: None)

        patch.setattr(checkpoint_manager.logger, "disabled", True)
        patch.setattr(checkpoint_manager, "delete_fs_path", delete_fs_path)
        patch.setattr("railhead.driver.train_controller.fence_step.finish_commit", finish)
        patch.setattr(RunFolder, "read", read_flaky)
        patch.setattr("railhead.driver.train_controller.fence_step.Patience", make_patience)
        patch.setenv(e.TEMP, str(Path(folder, "temp")))
        yield world, patch


def check(world: World, head: Head) -> None:
    """On a copy of the storage as it is now: a next attempt starts from the newest commit, and all kept ones exist."""
    kept = {name for name in head.kept if name not in world.torn}
    for name in kept:
        assert read(world.path, name) == world.contents[name], f"{name} is kept"
    if world.newest in world.torn and not kept:
        return  # one name for all, and an upload overwrites it: the user's choice
    with tempfile.TemporaryDirectory() as copy:
        path = Path(copy, "runs")
        if world.path.exists():
            shutil.copytree(world.path, path)
        restored = world.restore(path)
        if world.newest is None or world.newest not in world.torn:
            assert restored == (world.newest, None)


def check_kept(world: World, head: Head) -> None:
    """After a commit: neither too many nor too few."""
    limit = world.config["num_to_keep"] or math.inf
    assert len(set(head.kept)) == len(head.kept) <= limit + 1
    assert len(head.kept) >= min(limit, len({name for name in world.contents if name in head.kept}))


def read(path: Path, name: str) -> str:
    """A checkpoint's two files."""
    folder = find_folder(path)
    return "|".join((folder.read(f"{name}/{file}") or b"").decode() for file in ("first", "second"))


METRICS = st.sampled_from([{"loss": 1.0}, {"loss": 2.0}, {"loss": 3.0}, {"loss": math.nan}, {}])
CONFIGS = st.builds(
    lambda keep, order: {
        "num_to_keep": keep,
        **({"checkpoint_score_attribute": "loss", "checkpoint_score_order": order} if order else {}),
    },
    st.sampled_from([2, 3, None]),
    st.sampled_from(["", "min", "max"]),
)
COMMITS = st.one_of(
    st.tuples(st.just("finish"), METRICS),
    st.tuples(st.just("put_off"), METRICS),
    st.tuples(st.just("crash_in_commit"), METRICS, st.sampled_from(POINTS)),
)
OTHERS = st.tuples(st.sampled_from(["begin", "restart", "crash", "lose_newest", "twin", "zombie_commits"]))
STEPS = st.one_of(COMMITS, COMMITS, OTHERS)


METRIC = {"loss": 1.0}
EVERY: list[tuple[Any, ...]] = [
    *[("finish", METRIC)] * 3,
    *(("crash_in_commit", METRIC, point) for point in POINTS * 2),
    *[("put_off", METRIC), ("finish", METRIC), ("begin",), ("begin",), ("finish", METRIC), ("restart",)],
    *[("finish", METRIC), ("twin",), ("finish", METRIC), ("zombie_commits",), ("finish", METRIC), ("lose_newest",)],
    *[("finish", METRIC), ("finish", METRIC), ("begin",), ("crash",), ("finish", METRIC)],
]


class Life:
    """The steps of a run's life, by name."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self._world, self._patch = world, patch
        self.head = Head(world, patch, step=0)
        self._zombie: Head | None = None

    def begin(self) -> None:
        self.head.begin()

    def finish(self, metrics: dict[str, Any]) -> None:
        self.head.finish(metrics)
        check_kept(self._world, self.head)

    def put_off(self, metrics: dict[str, Any]) -> None:
        """The storage fails for a moment before the deletion."""
        self._world.is_flaky = True
        self.head.finish(metrics)

    def restart(self) -> None:
        """Of the worker group, in place."""
        self.head.start_group()

    def crash(self) -> None:
        """Another attempt begins."""
        self._world.errors.clear()
        self.head = Head(self._world, self._patch, step=self.head.step)
        self._world.newest = self.head.restored

    def crash_in_commit(self, metrics: dict[str, Any], point: str) -> None:
        self._world.crash_at = point
        with contextlib.suppress(Crashed):
            self.head.finish(metrics)
        self._world.crash_at = ""
        self.crash()

    def lose_newest(self) -> None:
        """Somebody deletes a checkpoint that Ray keeps."""
        world, before = self._world, self._world.newest
        others = {name for name in self.head.kept if name not in world.torn} - {before}
        if before is None or not others:
            return
        shutil.rmtree(self.head.folder.find(before))
        world.torn.discard(before)
        self.crash()
        assert world.newest in others | world.torn

    def twin(self) -> None:
        """Another attempt begins while the head of this one still runs."""
        self._zombie = self.head
        self.crash()

    def zombie_commits(self) -> None:
        if self._zombie is not None:
            with pytest.raises(Fenced):
                self._zombie.finish({})
            self._zombie.callback.after_finish()
            self._zombie = None


@pytest.mark.parametrize("scheme", [RAYS, UNIQUE, ONE, EPOCHS])
@settings(max_examples=8)
@given(config=CONFIGS, steps=st.lists(STEPS, min_size=5, max_size=12))
@example(config={"num_to_keep": 2}, steps=EVERY)
def test_the_newest_commit_exists_and_a_next_attempt_starts_from_it(
    scheme: str, config: dict[str, Any], steps: list[tuple[Any, ...]]
) -> None:
    with play(scheme, config) as (world, patch):
        life = Life(world, patch)
        for name, *arguments in steps:
            try:
                getattr(life, name)(*arguments)
            except JobRefused as error:  # CheckpointsLost
                assert world.newest in world.torn and error.failure.reason == "CheckpointsLost"
                return
            check(world, life.head)
