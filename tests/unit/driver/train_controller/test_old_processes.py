"""No process of the previous worker group survives into the next one: real processes, and one that stays."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train.v2._internal.execution.worker_group.worker_group import WorkerGroup

from railhead.contract.failure import FailureClass
from railhead.driver.errors import AttemptFailed
from railhead.driver.train_controller import old_processes
from railhead.driver.train_controller.old_processes import (
    OldProcessesCallback,
    end_processes,
    find_left,
    list_processes,
)
from railhead.driver.train_controller.workers import Answer

PROC = Path("/proc")
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
    [left] = find_left((rank.pid,), PROC)
    assert left != rank.pid, "its child, which holds the GPU"
    assert end_processes((rank.pid,)) == ""
    assert find_left((rank.pid,), PROC) == []


def test_a_process_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_POD_NAME", "digits-w1-0")
    for pid, state, group in ((71, "D", 71), (72, "Z", 71), (73, "S", 9)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) {state} 1 {group} 5 0")
    (tmp_path / "meminfo").mkdir()
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda pid, signal: killed.append(pid))
    text = end_processes((71,), patience=0.01, sleep=lambda seconds: None, proc=tmp_path)
    assert text.startswith("pod digits-w1-0: process 71 of the previous worker group has not ended")
    assert set(killed) == {71}


class Workers:
    def __init__(self, *places: tuple[str, int]) -> None:
        self._worker_group_state: object | None = object()
        self.found = [
            SimpleNamespace(metadata=SimpleNamespace(node_id=node, pid=pid, hostname=f"w-{node}"))
            for node, pid in places
        ]

    def get_workers(self) -> list[SimpleNamespace]:
        return self.found


def test_checks_on_one_worker_per_node_of_the_previous_group(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[int, tuple[int, ...]]] = []
    answers: dict[int, Answer] = {}

    def collect(
        group: Any, ranks: Any, function: Any, *, each: dict[int, tuple[tuple[int, ...]]], timeout: float
    ) -> Any:
        assert set(ranks) == set(each)
        calls.append({rank: pids for rank, (pids,) in each.items()})
        return {rank: answers.get(rank, Answer("")) for rank in ranks}

    monkeypatch.setattr(old_processes, "call_ranks", collect)
    callback = OldProcessesCallback()
    callback.after_worker_group_start(Workers(("a", 1), ("a", 2), ("b", 3), ("d", 8)))
    assert calls == [], "the first group has no previous one"
    callback.after_worker_group_start(Workers(("a", 4), ("a", 5), ("c", 6), ("d", 9)))
    assert calls == [{1: (1, 2), 3: (8,)}], "c is new, b is gone; each node receives its own part"
    calls.clear()
    callback.after_worker_group_start(Workers(("b", 10), ("c", 11)))
    assert calls == [{0: (3,), 1: (6,)}], "an elastic group had left b out"
    answers[0] = Answer("pod w1-0: process 4 of the previous worker group has not ended")
    group = Workers(("a", 7))
    with pytest.raises(AttemptFailed) as caught:
        callback.after_worker_group_start(group)
    assert group._worker_group_state is None, "else Ray keeps its resources, and there are none for the next group"
    found = caught.value.failure
    assert (found.class_, found.reason, found.suspect_pod) == (FailureClass.HARDWARE, "ProcessNotEnding", "w-a")
    assert list_processes(Workers(("a", 7))) == {"a": (7,)}


def test_contract_ray_frees_a_group_without_a_state_whose_start_fails() -> None:
    start, state = inspect.getsource(WorkerGroup._start), inspect.getsource(WorkerGroup.has_started)
    assert "if not self.has_started():" in start and "worker_group_state_builder.shutdown()" in start
    assert "return self._worker_group_state is not None" in state
