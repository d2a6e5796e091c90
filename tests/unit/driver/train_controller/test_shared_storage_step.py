"""Before a group trains: all pods share the storage, and no process of the previous one survives.

With real processes, and one that stays.
"""

from __future__ import annotations

import errno
import inspect
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RayTaskError
from ray.train.v2._internal.execution.callback import WorkerGroupCallback
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.worker_group.worker_group import WorkerGroup

from railhead.contract import environment as e
from railhead.contract.failure import FailureClass
from railhead.driver.container.pod_processes import read_process_table
from railhead.driver.messages.attempt_errors import AttemptFailed, JobRefused, Unreachable
from railhead.driver.rank import pod_checks
from railhead.driver.rank.pod_checks import end_processes, list_remaining, read_marker
from railhead.driver.ray.steps_callback import StepsCallback
from railhead.driver.train_controller import old_processes_step
from railhead.driver.train_controller.old_processes_step import OldProcessesStep, list_processes
from railhead.driver.train_controller.shared_storage_step import SharedStorageStep, explain_answers, find_run_folder
from railhead.driver.train_controller.worker_group import RankAnswer

POD = "digits-1-w0-0"


@pytest.fixture(autouse=True)
def pod_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(e.POD_NAME, POD)


def test_a_marker_is_seen(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("m")
    assert read_marker(str(tmp_path / "m")) == (POD, "")


@pytest.mark.parametrize("content", [None, "", "another"])
def test_a_missing_or_different_marker_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.setattr(pod_checks, "MARKER_PATIENCE_SECONDS", 0.0)
    if content is not None:
        (tmp_path / "m").write_text(content)
    assert read_marker(str(tmp_path / "m")) == (POD, "does not see")


def test_a_late_marker_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system that caches directories."""
    has_run = threading.Event()
    find = pod_checks._explain_problem

    def find_late(path: str) -> tuple[str, OSError | None]:
        problem = find(path)
        if not has_run.is_set():
            has_run.set()
            Path(path).write_text(Path(path).name)
        return problem

    monkeypatch.setattr(pod_checks, "_explain_problem", find_late)
    monkeypatch.setattr(pod_checks, "MARKER_PAUSE_SECONDS", 0.0)
    assert read_marker(str(tmp_path / "m")) == (POD, "")


def test_recognizes_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m").write_text("m")
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == str(tmp_path) and mode == os.W_OK))
    monkeypatch.setattr(pod_checks, "MARKER_PATIENCE_SECONDS", 0.0)
    assert read_marker(str(tmp_path / "m")) == (POD, "can read but not write")


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


def answer_at_once(monkeypatch: pytest.MonkeyPatch, read: Callable[[Any], Any] = lambda reference: reference) -> None:
    monkeypatch.setattr("ray.wait", lambda references, *, num_returns, timeout: (references, []))
    monkeypatch.setattr("ray.get", read)


def test_one_worker_per_node_checks_and_no_files_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_at_once(monkeypatch)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    before = sorted((tmp_path / "r").iterdir())
    group = make_group(storage, read_marker, nodes="aabbc")
    SharedStorageStep().started(group, group)
    assert len(group.called) == 3
    group = make_group(storage, lambda path: ("w1", "does not see"), nodes="ab")
    with pytest.raises(JobRefused, match=f"run.storagePath {tmp_path}: .* worker pod w1 does not see") as caught:
        SharedStorageStep().started(group, group)
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
    group = make_group(storage, read_marker, nodes="ab")
    SharedStorageStep().started(group, group)
    assert "No space left on device" in capsys.readouterr().out
    assert not group.called and sorted((tmp_path / "r").iterdir()) == before


def test_removes_only_the_check_files_of_killed_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_at_once(monkeypatch)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    run = tmp_path / "r"
    before = {path.name for path in run.iterdir()} | {"railhead-shared-check-mine", ".railhead-notes"}
    for name in (*before, ".railhead-shared-check-0123", ".railhead-write-check-77"):
        (run / name).touch()
    group = make_group(storage, read_marker, nodes="ab")
    SharedStorageStep().started(group, group)
    assert {path.name for path in run.iterdir()} == before


def test_storage_that_was_shared_before_is_retried_not_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that is missing on one node after a restart, in a run that has trained."""
    answer_at_once(monkeypatch)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    callback, good = SharedStorageStep(), make_group(storage, read_marker, nodes="ab")
    callback.started(good, good)
    bad = make_group(storage, lambda path: ("w1", "does not see"), nodes="ab")
    with pytest.raises(Unreachable, match="worker pod w1 does not see") as caught:
        callback.started(bad, bad)
    assert (caught.value.failure.class_, caught.value.failure.reason) == ("Infrastructure", "StorageNotShared")
    monkeypatch.setenv(e.CHECKPOINT_INDEX, "4")
    with pytest.raises(Unreachable):
        SharedStorageStep().started(bad, bad)


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ESTALE, errno.EIO])
def test_a_broken_mount_on_a_worker_is_no_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(pod_checks, "MARKER_PATIENCE_SECONDS", 0.0)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    group = make_group(storage, lambda path: path, nodes="a")

    def get(reference: str) -> None:
        read = Path.read_text
        try:
            monkeypatch.setattr(Path, "read_text", fail)
            read_marker(reference)
        except OSError as error:
            raise RayTaskError("read_marker", "Traceback ...", error).as_instanceof_cause() from None
        finally:
            monkeypatch.setattr(Path, "read_text", read)

    def fail(path: Path) -> str:
        raise OSError(code, os.strerror(code), str(path))

    answer_at_once(monkeypatch, get)
    with pytest.raises(Unreachable, match=f"run.storagePath {tmp_path}/r: .*worker pod {POD}: .*{os.strerror(code)}"):
        SharedStorageStep().started(group, group)
    assert not list((tmp_path / "r").glob(".railhead-*"))


def test_does_not_check_a_uri() -> None:
    assert find_run_folder(make_group(StorageContext("mock:///runs", "r"), None, nodes="ab")) is None


def test_contract_the_places_in_ray() -> None:
    assert list(inspect.signature(WorkerGroupCallback.after_worker_group_start).parameters)[1:] == ["worker_group"]
    assert "self._storage_context = run_config.storage_context" in inspect.getsource(WorkerGroup.__init__)
    assert list(inspect.signature(WorkerGroup.execute_single_async).parameters)[1:3] == ["rank", "fn"]


# A rank with a child process, like a DataLoader's, that outlives it.
RANK = "import subprocess, sys; subprocess.Popen(['sleep', '600']); print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    yield child
    end_processes((child.pid,))
    child.communicate()


def test_kills_the_children_of_a_rank(rank: subprocess.Popen[bytes]) -> None:
    rank.kill()
    rank.wait()
    [left] = list_remaining((rank.pid,))
    assert left != rank.pid, "its child, which holds the GPU"
    assert end_processes((rank.pid,)) == ""
    assert list_remaining((rank.pid,)) == []


def test_a_process_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_POD_NAME", "digits-w1-0")
    for pid, state, group in ((71, "D", 71), (72, "Z", 71), (73, "S", 9)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {state} 1 {group} 5 0")
    (tmp_path / "meminfo").mkdir()
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, signal: killed.append(pid))
    monkeypatch.setattr(pod_checks, "END_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(pod_checks, "read_process_table", lambda: read_process_table(tmp_path))
    text = end_processes((71,))
    assert text.startswith("pod digits-w1-0: process 71 of the previous worker group has not ended")
    assert set(killed) == {71}


class Workers:
    def __init__(self, *places: tuple[str, int]) -> None:
        self._worker_group_state: object | None = object()
        self.found = [
            types.SimpleNamespace(metadata=types.SimpleNamespace(node_id=node, pid=pid, hostname=f"w-{node}"))
            for node, pid in places
        ]

    def get_workers(self) -> list[types.SimpleNamespace]:
        return self.found


def make_workers(*places: tuple[str, int]) -> Any:
    return Workers(*places)


def test_checks_on_one_worker_per_node_of_the_previous_group(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[int, tuple[int, ...]]] = []
    answers: dict[int, RankAnswer[Any]] = {}

    def collect(
        group: Any, ranks: Any, function: Any, *, each: dict[int, tuple[tuple[int, ...]]], timeout: float
    ) -> Any:
        assert set(ranks) == set(each)
        calls.append({rank: pids for rank, (pids,) in each.items()})
        return {rank: answers.get(rank, RankAnswer("")) for rank in ranks}

    monkeypatch.setattr(old_processes_step, "call_ranks", collect)
    callback = StepsCallback([OldProcessesStep()])
    callback.after_worker_group_start(make_workers(("a", 1), ("a", 2), ("b", 3), ("d", 8)))
    assert calls == [], "the first group has no previous one"
    callback.after_worker_group_start(make_workers(("a", 4), ("a", 5), ("c", 6), ("d", 9)))
    assert calls == [{1: (1, 2), 3: (8,)}], "c is new, b is gone; each node receives its own part"
    calls.clear()
    callback.after_worker_group_start(make_workers(("b", 10), ("c", 11)))
    assert calls == [{0: (3,), 1: (6,)}], "an elastic group had left b out"
    answers[0] = RankAnswer("pod w1-0: process 4 of the previous worker group has not ended")
    group = make_workers(("a", 7))
    with pytest.raises(AttemptFailed) as caught:
        callback.after_worker_group_start(group)
    assert group._worker_group_state is None, "else Ray keeps its resources, and there are none for the next group"
    found = caught.value.failure
    assert (found.class_, found.reason, found.suspect_pod) == (FailureClass.HARDWARE, "ProcessNotEnding", "w-a")
    assert list_processes(make_workers(("a", 7))) == {"a": (7,)}


def test_contract_ray_frees_a_group_without_a_state_whose_start_fails() -> None:
    start, state = inspect.getsource(WorkerGroup._start), inspect.getsource(WorkerGroup.has_started)
    assert "if not self.has_started():" in start and "worker_group_state_builder.shutdown()" in start
    assert "return self._worker_group_state is not None" in state


def test_a_replaced_rank_waits_for_the_process_before_it_and_spares_those_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[dict[int, tuple[tuple[int, ...]]]] = []

    def collect(group: Any, ranks: Any, function: Any, *, each: Any, timeout: float) -> dict[int, RankAnswer[Any]]:
        calls.append(each)
        return {rank: RankAnswer("") for rank in ranks}

    monkeypatch.setattr(old_processes_step, "call_ranks", collect)
    whole = make_workers(("a", 1), ("a", 2), ("b", 3))
    step = OldProcessesStep()
    step.started(whole, whole)
    whole.found = make_workers(("a", 1), ("a", 4), ("b", 3)).found  # Ray has replaced rank 1
    step.started(make_workers(("a", 4)), whole)
    assert calls == [{0: ((2,),)}]


def test_a_replaced_rank_must_see_the_storage_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_at_once(monkeypatch)
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="r")
    whole = make_group(storage, read_marker, nodes="ab")
    part = make_group(storage, lambda path: ("w1", "does not see"), nodes="c")
    with pytest.raises(JobRefused, match="worker pod w1 does not see"):
        SharedStorageStep().started(part, whole)
