"""Ray's snapshot in each form that it has had, and a run's folder after each kind of damage."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow.fs import LocalFileSystem
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint import checkpoint_manager
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2.api.reported_checkpoint import ReportedCheckpointStatus

from railhead.contract import environment as e
from railhead.contract.report import RunWarning
from railhead.contract.run_folder import EMPTY
from railhead.contract.snapshot import COPY, SNAPSHOT, SnapshotUnreadable, parse_snapshot, write_snapshot
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.acquire_run import restore_run
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.ray.checkpoint_manager import list_fields
from railhead.driver.ray.train_context import FILES
from railhead.driver.storage.claims import Claimant, check_claim, take_run
from railhead.driver.storage.empty_checkpoints import read_empty
from railhead.driver.storage.resumable import UNREADABLE, read_copy
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.unfinished_uploads import finish_commit
from railhead.driver.train_controller.fence_step import FenceStep
from railhead.driver.train_controller.worker_group import Group
from tests.unit.driver.storage.test_claims import fake_group, wait_for_clean_up

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")


def result(name: str, **metrics: Any) -> dict[str, Any]:
    return {"version": 0, "checkpoint_dir_name": name, "metrics": metrics}


RESULTS = {
    "checkpoint_results": [result("c1", loss=2.0), result("c0", loss=1.0)],
    "latest_checkpoint_result": result("c1", loss=2.0),
}
FORM_2_52: dict[str, Any] = {"version": 0, **RESULTS}
FORM_2_55: dict[str, Any] = {
    "ray_version": "2.55.1",
    **RESULTS,
    "checkpoint_report_indices": [3, 2],
    "pending_training_results": [result("c1", loss=2.0)],
    "pending_validation_specs": [True],
    "current_report_index": 5,
    "validated_checkpoint_dir_names": ["c0", "long-gone"],
}
FORM_2_60: dict[str, Any] = {
    **FORM_2_55,
    "ray_version": "2.60.0",
    "timed_out_validation_checkpoint_dir_names": ["c1"],
    "failed_validation_checkpoint_dir_names": [],
}
FORMS = {"2.52": FORM_2_52, "2.55": FORM_2_55, "2.60": FORM_2_60}


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_is_written_as_it_was_read(form: str) -> None:
    values = FORMS[form]
    snapshot = parse_snapshot(json.dumps(values))
    written = json.loads(write_snapshot(snapshot, fields=values, ray_version=values.get("ray_version", "")))
    if "validated_checkpoint_dir_names" in values:
        assert written.pop("validated_checkpoint_dir_names") == ["c0"]
        values = {key: value for key, value in values.items() if key != "validated_checkpoint_dir_names"}
    assert written == values


@pytest.mark.parametrize("form", FORMS)
def test_the_installed_ray_resumes_from_a_snapshot_of_another_version(form: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    for name in ("c0", "c1"):
        run.commit(name)
    (tmp_path / "r" / SNAPSHOT).write_text(json.dumps(FORMS[form]))
    (tmp_path / "r" / COPY).unlink(missing_ok=True)
    assert run.restore() == ("c1", None)
    manager = Run(tmp_path).manager
    assert manager.latest_checkpoint_result is not None
    assert Path(manager.latest_checkpoint_result.checkpoint.path).name == "c1"
    assert [r.metrics["loss"] for r in manager._checkpoint_results] == [2.0, 1.0]


@pytest.mark.parametrize("after", FORMS)
@pytest.mark.parametrize("before", FORMS)
def test_a_suspended_run_resumes_with_an_older_and_with_a_newer_ray(tmp_path: Path, before: str, after: str) -> None:
    """spec.image changes while a job is suspended, and later back: each Ray finds all that its format has."""
    folder = RunFolder(LocalFileSystem(), str(tmp_path / "r"))
    for name in ("c0", "c1"):
        folder.write(f"{name}/weights", b"w")
    folder.write(SNAPSHOT, json.dumps(FORMS[before]).encode())
    for form in (after, before):
        assert restore_run(folder, fields=frozenset(FORMS[form]), known={}, commits=2) == ("c1", None)
        text = (folder.read(SNAPSHOT) or b"").decode()
        values, snapshot = json.loads(text), parse_snapshot(text)
        assert set(FORMS[form]) <= set(values) and values.items() >= RESULTS.items()
        assert (snapshot.latest, snapshot.names) == ("c1", ["c1", "c0"])
        indices = [entry.report for entry in snapshot.entries]
        assert indices == sorted(indices, reverse="2.52" not in (before, after)), "2.52 counts in Ray's order"


@pytest.mark.parametrize(
    "text",
    [
        "", " \n", "null", "[]", "{}", "\x00" * 40, json.dumps(FORM_2_60)[:-7], '{"checkpoint_results": [7]}',
        json.dumps({**FORM_2_60, "checkpoint_report_indices": [1]}),
        json.dumps({**FORM_2_60, "latest_checkpoint_result": result("other")}),
        json.dumps({**FORM_2_52, "checkpoint_results": [{"checkpoint_dir_name": "", "metrics": {}}]}),
    ],
)  # fmt: skip
def test_rejects_invalid_snapshots(text: str) -> None:
    with pytest.raises(SnapshotUnreadable):
        parse_snapshot(text)


@pytest.fixture(autouse=True)
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller has its own process; here, patches of Ray's module must be undone."""
    monkeypatch.setattr(checkpoint_manager, "delete_fs_path", checkpoint_manager.delete_fs_path)


class Run:
    """A real checkpoint manager behind the fence, as in Ray Train's controller."""

    def __init__(self, folder: Path) -> None:
        self.storage = StorageContext(storage_path=str(folder), experiment_dir_name="r")
        self.folder = RunFolder(self.storage.storage_filesystem, self.storage.experiment_fs_path)
        self.manager = CheckpointManager(CheckpointConfig(num_to_keep=2), self.storage)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAILHEAD_RUN", "")
            RunContext("/runs/r", claim=str(take_run(self.folder, Claimant("mine"), attempt=1))).write()
            patch.setenv(e.TEMP, str(folder))
            FenceStep(Group(), Mailbox(folder), RunContext.read()).after_group_start(fake_group(self.manager))
            wait_for_clean_up()

    def commit(self, name: str, *, is_empty: bool = False, is_validated: bool = False, **metrics: Any) -> None:
        folder = Path(self.folder.find(name))
        folder.mkdir(exist_ok=True)
        if not is_empty:
            (folder / "weights").write_text(f"the weights of {name}")
            (folder / "epoch").write_text(name)
        checkpoint = Checkpoint(path=str(folder), filesystem=self.storage.storage_filesystem)
        setattr(checkpoint, FILES, 0 if is_empty else 2)  # as a rank does
        report = _TrainingReport(checkpoint, metrics, is_validated)

        async def register() -> None:
            self.manager.after_report(report, [metrics])

        asyncio.run(register())

    def end_validation(self, **metrics: Any) -> None:
        update = getattr(self.manager, "update_checkpoints_with_validation_result", None)
        (checkpoint,) = self.manager._pending_training_results
        results = {checkpoint: (metrics, ReportedCheckpointStatus.VALIDATED)} if update else {checkpoint: metrics}

        async def end() -> None:
            (update or self.manager.update_checkpoints_with_metrics)(results)

        asyncio.run(end())

    def restore(self, *, commits: int = 3, known: dict[str, int] | None = None) -> tuple[str | None, RunWarning | None]:
        return restore_run(self.folder, fields=list_fields(), known=known or {}, commits=commits)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Three commits, of which Ray keeps two."""
    run = Run(tmp_path)
    for number in range(3):
        run.commit(f"c{number}", loss=float(number))
    return run


def remove(run: Path, name: str) -> None:
    for file in (run / name).iterdir():
        file.unlink()
    (run / name).rmdir()


def remove_both(run: Path) -> None:
    for name in ("c1", "c2"):
        remove(run, name)


def empty(run: Path, name: str) -> None:
    for file in (run / name).iterdir():
        file.unlink()


def test_a_checkpoint_that_was_empty_when_it_was_committed_is_not_lost(tmp_path: Path) -> None:
    """Ray keeps metrics only with a checkpoint, so many functions report a folder without files."""
    run = Run(tmp_path)
    for number in range(3):
        run.commit(f"c{number}", is_empty=True, loss=1.0)
        assert run.restore(commits=number + 1) == (f"c{number}", None)
    assert read_empty(run.folder) == {"c1", "c2"}, "no more than Ray keeps"
    (tmp_path / "r" / SNAPSHOT).write_text("")
    latest, warning = run.restore()
    assert latest == "c2" and warning is not None, "also with the copy"
    manager = Run(tmp_path).manager
    assert manager.latest_checkpoint_result is not None
    assert Path(manager.latest_checkpoint_result.checkpoint.path).name == "c2"


def test_the_newest_commit_wins_over_an_older_one_with_files(tmp_path: Path) -> None:
    """As after a restart in place: what `ray.train.get_checkpoint()` returns must not depend on who was lost."""
    run = Run(tmp_path)
    run.commit("c0")
    run.commit("c1", is_empty=True)
    assert run.restore(commits=2) == ("c1", None)
    run.commit("c2")
    empty(tmp_path / "r", "c2")
    latest, warning = run.restore()
    assert latest == "c1" and warning is not None and "c2 is gone or has lost its files" in warning.message


def test_an_empty_checkpoint_whose_folder_is_gone_is_lost(tmp_path: Path) -> None:
    """Ray would raise on it."""
    run = Run(tmp_path)
    run.commit("c0")
    run.commit("c1", is_empty=True)
    remove(tmp_path / "r", "c1")
    assert run.restore(commits=2)[0] == "c0"


def test_files_that_only_another_rank_has_uploaded_are_found(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "r" / "c0").mkdir()
    (tmp_path / "r" / "c0" / "of-rank-1").write_text("x")
    run.commit("c0", is_empty=True)
    assert read_empty(run.folder) == frozenset()


def test_a_commit_with_files_costs_no_request_for_that(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def list_names(self: RunFolder, name: str) -> list[str]:
        listed.append(name)
        return []

    monkeypatch.setattr(RunFolder, "list_names", list_names)
    run.commit("c9")
    assert "c9" not in listed and run.folder.read(EMPTY) is None


@pytest.mark.parametrize("text", ["", "{", "7", "null"])
def test_a_damaged_note_of_empty_checkpoints_counts_as_none(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "r" / EMPTY).write_text(text)
    assert read_empty(run.folder) == frozenset() and run.restore() == ("c2", None)


def test_metrics_that_cannot_be_written_do_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of a validation function, which each later attempt would try to write again."""
    run = Run(tmp_path)
    run.commit("c0", is_validated=True, loss=1.0)
    run.end_validation(accuracy=np.float32(0.5), model=object())
    values = json.loads((tmp_path / "r" / SNAPSHOT).read_text())
    assert values["checkpoint_results"][0]["metrics"] == {"loss": 1.0, "accuracy": 0.5}
    assert not values["pending_training_results"] and read_copy(run.folder) is not None
    assert "without metrics that cannot be written: metric 'model' cannot" in capsys.readouterr().out
    run.commit("c1", loss=np.float32(2.0))
    assert run.manager.latest_checkpoint_result is not None
    assert run.manager.latest_checkpoint_result.metrics == {"loss": 2.0}


def test_another_error_of_rays_snapshot_still_ends_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("of Ray's own")

    monkeypatch.setattr(run.manager, "_save_state", fail)
    with pytest.raises(KeyError):
        run.commit("c9")


Damage = Callable[[Path], object]
DAMAGES: dict[str, tuple[Damage, str, str, str]] = {
    "empty": (lambda r: (r / SNAPSHOT).write_text(""), "SnapshotUnreadable", "cannot be read (it is empty)", "c2"),
    "cut-off": (
        lambda r: (r / SNAPSHOT).write_text((r / SNAPSHOT).read_text()[:-9]),
        "SnapshotUnreadable",
        "cannot be read",
        "c2",
    ),
    "binary": (lambda r: (r / SNAPSHOT).write_bytes(b"\xff\xfe\x00" * 9), "SnapshotUnreadable", "cannot be read", "c2"),
    "gone": (lambda r: (r / SNAPSHOT).unlink(), "SnapshotUnreadable", "is gone", "c2"),
    "no-folder": (lambda r: remove(r, "c2"), "CheckpointMissing", "c2 is gone or has lost its files", "c1"),
    "empty-folder": (lambda r: empty(r, "c2"), "CheckpointMissing", "c2 is gone or has lost its files", "c1"),
    "older-one": (lambda r: remove(r, "c1"), "CheckpointMissing", "c1 is gone or has lost its files", "c2"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_run_resumes_from_the_newest_intact_checkpoint(run: Run, tmp_path: Path, damage: str) -> None:
    damage_run, reason, expected, latest = DAMAGES[damage]
    damage_run(tmp_path / "r")
    restored, warning = run.restore()
    assert restored == latest and warning is not None
    assert (warning.reason, expected in warning.message) == (reason, True), warning
    assert warning.message.endswith(f"; the run resumes from {latest}")
    again = Run(tmp_path)
    found = again.manager.latest_checkpoint_result
    assert found is not None and (Path(found.checkpoint.path).name, found.metrics) == (
        latest,
        {"loss": float(latest[1])},
    )
    assert again.restore() == (latest, None), "the repaired run is intact"
    again.commit("c9", loss=9.0)
    assert again.restore() == ("c9", None)


def test_touches_nothing_in_an_intact_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r" / "c2" / "added-later").write_text("by the user")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*")}
    assert run.restore() == ("c2", None)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "r").rglob("*")} == before


class Counting:
    """A file system that records its calls; recursive listings cost the most."""

    type_name = "local"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(LocalFileSystem(), name)

        def call(*arguments: Any, **options: Any) -> Any:
            is_deep = bool(getattr(arguments[0], "recursive", False))
            self.calls.append(f"{name} {arguments[0].base_dir}" if is_deep else name)
            return method(*arguments, **options)

        return call


MANY = 1000


def make_many(tmp_path: Path) -> RunFolder:
    """A run that keeps all its checkpoints, with a copy of its snapshot."""
    for number in range(MANY):
        path = tmp_path / "r" / f"c{number}"
        path.mkdir(parents=True)
        for rank in range(2):
            (path / f"shard-{rank}").write_text("x" * 9)
    results = [result(f"c{number}") for number in range(MANY)]
    values = {**FORM_2_60, "checkpoint_results": results, "checkpoint_report_indices": list(range(MANY))}
    text = json.dumps({**values, "latest_checkpoint_result": results[-1], "pending_training_results": []})
    folder = RunFolder(Counting(), str(tmp_path / "r"))
    folder.write(SNAPSHOT, text.encode())
    folder.write(COPY, text.encode())
    folder.filesystem.calls.clear()
    return folder


def restore(folder: RunFolder) -> tuple[str | None, RunWarning | None]:
    return restore_run(folder, fields=list_fields(), known={}, commits=MANY)


def test_the_cost_does_not_depend_on_the_number_of_old_checkpoints(tmp_path: Path) -> None:
    """1,000 checkpoints of 200 files at 5 ms each, listed in full, would take a quarter of an hour."""
    folder = make_many(tmp_path)
    assert restore(folder) == ("c999", None)
    calls = folder.filesystem.calls
    assert not [call for call in calls if " " in call], "none is listed in full"
    assert len(calls) <= 6, calls
    calls.clear()
    finish_commit(folder, check=lambda: None)
    assert not [call for call in calls if " " in call] and len(calls) <= 4, calls


def test_writes_no_copy_once_a_successor_has_the_run(run: Run) -> None:
    before = run.folder.read(COPY)
    claim = take_run(run.folder, Claimant("mine"), attempt=1)
    take_run(run.folder, Claimant("mine"), attempt=2)
    run.folder.write(SNAPSHOT, json.dumps(FORM_2_60).encode())
    finish_commit(run.folder, lambda: check_claim(run.folder, claim))
    assert run.folder.read(COPY) == before != run.folder.read(SNAPSHOT)


def test_keeps_old_checkpoints_without_files_in_the_snapshot(tmp_path: Path) -> None:
    folder = make_many(tmp_path)
    for number in range(MANY - 1):
        empty(tmp_path / "r", f"c{number}")
    assert restore(folder) == ("c999", None)
    snapshot = parse_snapshot((folder.read(SNAPSHOT) or b"").decode())
    assert len(snapshot.names) == MANY, "Ray can still remove them"


def test_skips_damaged_checkpoints_from_the_newest_on(tmp_path: Path) -> None:
    folder = make_many(tmp_path)
    for number in (997, 998, 999):
        empty(tmp_path / "r", f"c{number}")
    latest, warning = restore(folder)
    assert latest == "c996" and warning is not None
    assert warning.message.startswith("checkpoint c999 is gone or has lost its files (and 2 more)")


def test_ignores_a_truncated_copy(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r" / COPY).write_text("{")
    assert run.restore() == ("c2", None)
    (tmp_path / "r" / SNAPSHOT).write_text("{")
    latest, warning = run.restore()
    assert latest == "c2" and warning is not None


def test_restores_from_the_status_when_both_files_are_lost(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r" / SNAPSHOT).unlink()
    (tmp_path / "r" / COPY).unlink()
    latest, _ = run.restore(known={"c2": 2, "c0": 0})
    assert latest == "c2"
    manager = Run(tmp_path).manager
    assert manager.latest_checkpoint_result is not None and manager._current_report_index == 3


@pytest.mark.parametrize("damage_run", [remove_both, lambda r: (r / SNAPSHOT).write_text("")])
def test_fails_instead_of_training_from_scratch_if_no_checkpoint_is_left(
    run: Run, tmp_path: Path, damage_run: Damage
) -> None:
    damage_run(tmp_path / "r")
    if (tmp_path / "r" / "c2").exists():
        (tmp_path / "r" / COPY).unlink()
    with pytest.raises(JobRefused, match=r"run\.storagePath: .*none of the 3 committed checkpoints is intact"):
        run.restore()
    latest, warning = run.restore(commits=0)  # like the first attempt of another job with this run.name
    assert latest is None and warning is not None
    assert warning.message.endswith("no checkpoint is known, so training starts from scratch")
    assert Run(tmp_path).manager.latest_checkpoint_result is None
    assert (tmp_path / "r" / UNREADABLE).exists()


def test_starts_a_run_without_commits(tmp_path: Path) -> None:
    folder = RunFolder(LocalFileSystem(), str(tmp_path / "r"))
    assert restore_run(folder, fields=list_fields(), known={}, commits=0) == (None, None)
    with pytest.raises(JobRefused, match=f"{SNAPSHOT} is gone"):
        restore_run(folder, fields=list_fields(), known={}, commits=1)


class NoRename(Counting):
    """Like Mountpoint for S3 and some FUSE file systems."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def move(self, source: str, target: str) -> None:
        raise self.error


CANNOT_RENAME = [
    OSError(errno.ENOSYS, "Function not implemented"), PermissionError(errno.EPERM, "Operation not permitted"),
    OSError(errno.ENOTSUP, "Operation not supported"), NotImplementedError("move"),
]  # fmt: skip


@pytest.mark.parametrize("error", CANNOT_RENAME, ids=repr)
@pytest.mark.parametrize("damage", ["older-one", "cut-off", "no-folder", "without-copy"])
def test_resumes_on_a_storage_that_cannot_rename(run: Run, tmp_path: Path, error: Exception, damage: str) -> None:
    if damage == "without-copy":
        (tmp_path / "r" / COPY).unlink()
        latest = "c2"
    else:
        DAMAGES[damage][0](tmp_path / "r")
        latest = DAMAGES[damage][3]
    run.folder = RunFolder(NoRename(error), run.folder.path)
    assert run.restore()[0] == latest
    assert run.restore() == (latest, None)
    finish_commit(run.folder, check=lambda: None)
    assert read_copy(run.folder) is not None
    assert not list((tmp_path / "r" / ".railhead").glob("*.new"))


def test_a_failed_write_of_the_copy_fails_no_run(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r" / COPY).unlink()
    run.folder = RunFolder(NoRename(OSError(errno.EIO, "Input/output error")), run.folder.path)
    assert run.restore() == ("c2", None)
