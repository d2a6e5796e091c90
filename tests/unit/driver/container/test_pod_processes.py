"""Which processes die with a child; the number of GPUs that answer, by a stand-in for NVIDIA's library."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.driver.container.gpu_count import begin_count_of_gpus
from railhead.driver.container.pod_processes import (
    kill_child,
    kill_workers,
    list_descendants,
    read_process_table,
    wait_until_stopped,
)
from tests.waiting import wait_until

# Like `ray start` with its raylet, the raylet's agents, and a worker with its own child process.
NODE = """
exec -a raystart bash -c '
  (exec -a raylet bash -c "
     (exec -a ray::RuntimeEnvAgent sleep 60) &
     (exec -a /session/node-idle-agent.py sleep 60) &
     (exec -a ray::TrainController bash -c \\"(exec -a users-process sleep 60) & wait\\") &
     wait") &
  wait'
"""


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["bash", "-c", NODE]) as process:
        wait_until("all processes run", lambda: "users-process" in list_titles(process))
        yield process
        kill_child(process)


def list_titles(process: subprocess.Popen[bytes]) -> set[str]:
    titles = set()
    for pid in list_descendants(process.pid, read_process_table()):
        with contextlib.suppress(OSError):  # it may end at any moment
            titles.add(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])
    return titles - {"", "bash"}


def test_kill_workers_keeps_rays_daemons(node: subprocess.Popen[bytes]) -> None:
    kill_workers(node)
    daemons = {"raylet", "ray::RuntimeEnvAgent", "/session/node-idle-agent.py"}
    wait_until("the workers are gone", lambda: list_titles(node) == daemons)
    assert node.poll() is None


@pytest.mark.parametrize(("script", "code"), [("kill -STOP $$", None), ("exit 3", 3), ("kill -KILL $$", -9)])
def test_a_child_that_stops_itself_is_told_from_one_that_exits(script: str, code: int | None) -> None:
    with subprocess.Popen(["bash", "-c", script]) as process:
        assert wait_until_stopped(process) == code
        process.kill()


def test_kill_child_kills_all_its_descendants(node: subprocess.Popen[bytes]) -> None:
    pids = list_descendants(node.pid, read_process_table())
    kill_child(node)
    node.wait()
    wait_until("all are gone", lambda: not set(pids) & read_process_table().keys())


LOST = 15  # NVML_ERROR_GPU_IS_LOST


class Nvml:
    """`answers`: what the handle of each GPU returns; the numbers of nvml.h, 0 for success."""

    def __init__(self, answers: list[int], *, init: int = 0) -> None:
        self.nvmlInit_v2 = lambda: init
        self.nvmlDeviceGetHandleByIndex_v2 = lambda index, device: answers[index]
        self._number = len(answers)

    def nvmlDeviceGetCount_v2(self, number: Any) -> int:
        number._obj.value = self._number
        return 0


def use_library(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)


@pytest.mark.parametrize(("answers", "number"), [([0, 0, 0], 3), ([0, LOST, 0], 2), ([LOST], 0), ([], 0)])
def test_a_gpu_that_is_lost_does_not_count(monkeypatch: pytest.MonkeyPatch, answers: list[int], number: int) -> None:
    use_library(monkeypatch, Nvml(answers))
    assert begin_count_of_gpus()() == number


def test_a_library_that_is_missing_or_fails_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    use_library(monkeypatch, Nvml([0], init=999))
    assert begin_count_of_gpus()() is None
    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert begin_count_of_gpus()() is None


def fail(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def test_a_library_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    nvml = Nvml([0])
    nvml.nvmlInit_v2 = lambda: 0 if gate.wait(30) else 1
    use_library(monkeypatch, nvml)
    assert begin_count_of_gpus(timeout=0.01)() is None
    gate.set()
