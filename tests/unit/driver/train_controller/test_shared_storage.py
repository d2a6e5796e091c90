"""The check that all pods share the storage: results, messages, and the places in Ray that it needs."""

from __future__ import annotations

import errno
import inspect
import os
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayTaskError
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.worker_group.worker_group import WorkerGroup

from railhead.contract import environment as e
from railhead.driver.errors import JobRefused, Unreachable
from railhead.driver.train_controller import shared_storage
from railhead.driver.train_controller.shared_storage import (
    SharedStorageCallback,
    explain_answers,
    find_marker,
    find_run_folder,
)

POD = "digits-1-w0-0"


@pytest.fixture(autouse=True)
def pod_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(e.POD_NAME, POD)


def test_a_marker_is_seen(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("m")
    assert find_marker(str(tmp_path / "m")) == (POD, "")


@pytest.mark.parametrize("content", [None, "", "another"])
def test_a_missing_or_different_marker_is_not_seen(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "m").write_text(content)
    assert find_marker(str(tmp_path / "m"), patience=0.0) == (POD, "does not see")


def test_a_late_marker_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system that caches directories."""
    has_run = threading.Event()
    find = shared_storage._find_problem

    def find_late(path: str) -> tuple[str, OSError | None]:
        problem = find(path)
        if not has_run.is_set():
            has_run.set()
            Path(path).write_text(Path(path).name)
        return problem

    monkeypatch.setattr(shared_storage, "_find_problem", find_late)
    monkeypatch.setattr(shared_storage, "PAUSE", 0.0)
    assert find_marker(str(tmp_path / "m")) == (POD, "")


def test_recognizes_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").write_text("m")
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == str(tmp_path) and mode == os.W_OK))
    assert find_marker(str(tmp_path / "m"), patience=0.0) == (POD, "can read but not write")


def test_the_message_names_the_field_a_pod_and_the_fix() -> None:
    assert explain_answers("/runs", [("a", ""), ("b", "")]) == ""
    one = explain_answers("/runs", [("a", ""), ("b", "does not see")])
    assert one.startswith("run.storagePath /runs: the head pod wrote a file there that worker pod b does not see; use ")
    assert "run.storageVolume" in one and "s3://" in one
    assert "worker pod a (and 2 more) does not see;" in explain_answers("/r", [(c, "does not see") for c in "abca"])


def make_group(storage: StorageContext, answer: Any, *, nodes: str) -> Any:
    called: list[int] = []

    def execute_single_async(rank: int, function: Any, *arguments: Any) -> Any:
        called.append(rank)
        return answer(*arguments)

    workers = [types.SimpleNamespace(metadata=types.SimpleNamespace(node_id=node)) for node in nodes]
    return types.SimpleNamespace(
        _storage_context=storage, get_workers=lambda: workers, execute_single_async=execute_single_async, called=called
    )


def test_one_worker_per_node_checks_and_no_files_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.get", lambda references, timeout: references)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    before = sorted((tmp_path / "r").iterdir())
    group = make_group(storage, find_marker, nodes="aabbc")
    SharedStorageCallback().after_worker_group_start(group)
    assert len(group.called) == 3
    group = make_group(storage, lambda path: ("w1", "does not see"), nodes="ab")
    with pytest.raises(JobRefused, match=f"run.storagePath {tmp_path}: .* worker pod w1 does not see") as caught:
        SharedStorageCallback().after_worker_group_start(group)
    assert caught.value.failure.reason == "StorageNotShared"
    assert sorted((tmp_path / "r").iterdir()) == before


def test_a_full_disk_skips_the_check_and_leaves_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    before = sorted((tmp_path / "r").iterdir())

    def write_to_full_disk(path: Path, text: str) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_to_full_disk)
    group = make_group(storage, find_marker, nodes="ab")
    SharedStorageCallback().after_worker_group_start(group)
    assert "No space left on device" in capsys.readouterr().err
    assert not group.called and sorted((tmp_path / "r").iterdir()) == before


def test_removes_only_the_check_files_of_killed_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.get", lambda references, timeout: references)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    run = tmp_path / "r"
    before = {path.name for path in run.iterdir()} | {"railhead-shared-check-mine", ".railhead-notes"}
    for name in (*before, ".railhead-shared-check-0123", ".railhead-write-check-77"):
        (run / name).touch()
    SharedStorageCallback().after_worker_group_start(make_group(storage, find_marker, nodes="ab"))
    assert {path.name for path in run.iterdir()} == before


def test_storage_that_was_shared_before_is_retried_not_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that is missing on one node after a restart, in a run that has trained."""
    monkeypatch.setattr("ray.get", lambda references, timeout: references)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    callback = SharedStorageCallback()
    callback.after_worker_group_start(make_group(storage, find_marker, nodes="ab"))
    bad = make_group(storage, lambda path: ("w1", "does not see"), nodes="ab")
    with pytest.raises(Unreachable, match="worker pod w1 does not see") as caught:
        callback.after_worker_group_start(bad)
    assert (caught.value.failure.class_, caught.value.failure.reason) == ("Infrastructure", "StorageNotShared")
    monkeypatch.setenv(e.CHECKPOINT_INDEX, "4")
    with pytest.raises(Unreachable):
        SharedStorageCallback().after_worker_group_start(bad)


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ESTALE, errno.EIO])
def test_a_broken_mount_on_a_worker_is_no_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    group = make_group(storage, lambda path: path, nodes="a")

    def get(references: list[str], timeout: float) -> None:
        read = Path.read_text
        try:
            monkeypatch.setattr(Path, "read_text", fail)
            find_marker(references[0], patience=0.0)
        except OSError as error:
            raise RayTaskError("find_marker", "Traceback ...", error).as_instanceof_cause() from None
        finally:
            monkeypatch.setattr(Path, "read_text", read)

    def fail(path: Path) -> str:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr("ray.get", get)
    with pytest.raises(Unreachable, match=f"run.storagePath {tmp_path}/r: .*worker pod {POD}: .*{os.strerror(code)}"):
        SharedStorageCallback().after_worker_group_start(group)
    assert not list((tmp_path / "r").glob(".railhead-*"))


def test_does_not_check_a_uri() -> None:
    assert find_run_folder(make_group(StorageContext("mock:///runs", "r"), None, nodes="ab")) is None


def test_contract_the_places_in_ray() -> None:
    assert list(inspect.signature(WorkerGroupCallback.after_worker_group_start).parameters)[1:] == ["worker_group"]
    assert "self._storage_context = run_config.storage_context" in inspect.getsource(WorkerGroup.__init__)
    assert list(inspect.signature(WorkerGroup.execute_single_async).parameters)[1:3] == ["rank", "fn"]
