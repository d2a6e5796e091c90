"""The number of GPUs that answer, by a stand-in for NVIDIA's library."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from railhead.driver.node.hardware import begin_count

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


def use(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)


@pytest.mark.parametrize(("answers", "number"), [([0, 0, 0], 3), ([0, LOST, 0], 2), ([LOST], 0), ([], 0)])
def test_a_gpu_that_is_lost_does_not_count(monkeypatch: pytest.MonkeyPatch, answers: list[int], number: int) -> None:
    use(monkeypatch, Nvml(answers))
    assert begin_count()() == number


def test_a_library_that_is_missing_or_fails_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Nvml([0], init=999))
    assert begin_count()() is None
    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert begin_count()() is None


def fail(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def test_a_library_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    nvml = Nvml([0])
    nvml.nvmlInit_v2 = lambda: 0 if gate.wait(30) else 1
    use(monkeypatch, nvml)
    assert begin_count(timeout=0.01)() is None
    gate.set()
