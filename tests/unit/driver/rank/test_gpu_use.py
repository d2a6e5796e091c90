"""What NVML says of a rank's GPUs, by a stand-in for the library; `tests/gpu` has the real one."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment
from railhead.contract.job_input import FILE, JobInput, ScalingInput
from railhead.driver.mailbox.heartbeat import GpuUse
from railhead.driver.rank import gpu_use, steps
from railhead.driver.rank.gpu_use import read_gpus, watch_gpus
from tests.waiting import wait_until

NOT_SUPPORTED, LOST = 3, 15  # of nvml.h; 0 for success
TOTAL = 80 * 2**30


class Nvml:
    """GPU n uses n GiB and is busy for n percent; `errors`: what a function returns for some of them."""

    def __init__(self, **errors: dict[int, int]) -> None:
        self._errors = errors

    def nvmlInit_v2(self) -> int:
        return self._errors.get("init", {}).get(0, 0)

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:
        device._obj.value = index.value + 1  # a null pointer has no value
        return self._errors.get("handle", {}).get(index.value, 0)

    def nvmlDeviceGetHandleByUUID(self, name: bytes, device: Any) -> int:
        device._obj.value = int(name[-1:]) + 1
        return 0 if name.startswith(b"GPU-") else LOST

    def nvmlDeviceGetMemoryInfo(self, device: Any, memory: Any) -> int:
        number = device.value - 1
        memory._obj.total, memory._obj.used = TOTAL, number * 2**30
        return self._errors.get("memory", {}).get(number, 0)

    def nvmlDeviceGetUtilizationRates(self, device: Any, utilization: Any) -> int:
        number = device.value - 1
        utilization._obj.gpu, utilization._obj.memory = number, 99
        return self._errors.get("utilization", {}).get(number, 0)


def use(number: int, gpu: int) -> GpuUse:
    return GpuUse(number, gpu * 2**30, TOTAL, gpu)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["0"], [use(0, 0)]),
        (["3", "1"], [use(0, 3), use(1, 1)]),
        (["GPU-0a-4", "5"], [use(0, 4), use(1, 5)]),
        (["MIG-0a-4", "5"], [use(1, 5)]),
    ],
)
def test_each_of_the_ranks_gpus_is_read_by_its_name(names: list[str], found: list[GpuUse]) -> None:
    assert list(read_gpus(Nvml(), names)) == found


@pytest.mark.parametrize("function", ["handle", "memory", "utilization"])
def test_a_gpu_that_nvml_cannot_read_is_left_out(function: str) -> None:
    assert list(read_gpus(Nvml(**{function: {1: LOST, 2: NOT_SUPPORTED}}), ["0", "1", "2", "3"])) == [
        use(0, 0),
        use(3, 3),
    ]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the libraries that were opened, each of which is a stand-in."""
    opened: list[str] = []

    def open_library(name: str) -> Nvml:
        opened.append(name)
        return Nvml()

    monkeypatch.setattr(ctypes, "CDLL", open_library)
    monkeypatch.setattr(steps, "STEPS", steps.RankProgress())
    monkeypatch.setattr(gpu_use, "PERIOD_SECONDS", 3600.0)
    return opened


def write_input(folder: Path, *, metrics_port: int | None) -> dict[str, str]:
    """Writes a job's input, and returns the environment of a rank that has it and GPU 2."""
    job = JobInput("team", "digits", "uid", "digits-uid", ScalingInput(1), worker_pods=1, metrics_port=metrics_port)
    (folder / FILE).write_text(job.to_json())
    return {environment.INPUT: str(folder), "CUDA_VISIBLE_DEVICES": "2"}


def test_a_rank_of_a_job_with_metrics_answers_with_its_gpus(library: list[str], tmp_path: Path) -> None:
    watch_gpus(write_input(tmp_path, metrics_port=9400))
    wait_until("the thread has read", lambda: steps.read_beat().gpus)
    beat = steps.read_beat()
    assert (library, beat.gpus) == (["libnvidia-ml.so.1"], (use(0, 2),))
    assert 0 <= beat.clock - beat.gpus_clock < 60


@pytest.mark.parametrize(
    ("metrics_port", "changes"),
    [
        (None, {}),
        (9400, {"CUDA_VISIBLE_DEVICES": ""}),
        (9400, {environment.INPUT: ""}),
        (9400, {environment.INPUT: "/absent"}),
    ],
)
def test_without_metrics_gpus_or_an_input_nothing_is_opened(
    library: list[str], tmp_path: Path, metrics_port: int | None, changes: dict[str, str]
) -> None:
    before = threading.active_count()
    watch_gpus({**write_input(tmp_path, metrics_port=metrics_port), **changes})
    assert not library and threading.active_count() == before


def test_a_rank_without_the_library_trains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", fail)
    watch_gpus(write_input(tmp_path, metrics_port=9400))
