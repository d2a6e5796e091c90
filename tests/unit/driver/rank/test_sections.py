"""Sections of computing: by the host's clock, and by events of a GPU whose queue the test lets run."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest
import torch

from railhead.driver.rank.sections import MOST_PENDING, SECTIONS, CudaEvent, Sections
from railhead.driver.rank.steps import STEPS, RankProgress
from railhead.training import compute


class Gpu:
    """Has one queue, which the test lets run; stands for `torch.cuda` with its events.

    Attributes:
        now: milliseconds of the queue's own clock, when the next piece of work begins.
        passed: what it has done up to this time.
    """

    def __init__(self) -> None:
        self.now = self.passed = 0.0
        self.made = 0
        self.is_capturing = self.is_broken = False

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.is_capturing

    def Event(self, enables_timing: bool, /) -> CudaEvent:
        assert enables_timing
        self.made += 1
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.at = 0.0

    def record(self) -> None:
        self.at = self._gpu.now

    def query(self) -> bool:
        if self._gpu.is_broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return self.at <= self._gpu.passed

    def elapsed_time(self, end: CudaEvent) -> float:
        assert self.query() and end.query() and isinstance(end, FakeEvent)
        return end.at - self.at


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    return found


def compute_on(gpu: Gpu, sections: Sections, milliseconds: float) -> None:
    with sections:
        gpu.now += milliseconds


def test_training_code_marks_the_sections_that_the_controller_reads() -> None:
    assert compute() is SECTIONS and SECTIONS._sums is STEPS


@pytest.mark.parametrize("module", [None, torch], ids=["without torch", "without a GPU"])
def test_the_hosts_clock_measures_where_there_is_no_gpu(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", module)
    sums, clock = RankProgress(), iter([10.0, 10.5, 20.0, 20.25])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    sections = Sections(sums)
    for _ in range(2):
        with sections:
            pass
    assert (sums.sections, sums.section_seconds) == (2, 0.75)


def test_a_section_that_raises_does_not_count_and_neither_does_an_end_without_a_beginning(gpu: Gpu) -> None:
    sums = RankProgress()
    sections = Sections(sums)
    with pytest.raises(ValueError, match="no"), sections:
        raise ValueError("no")
    gpu.passed = 1.0
    sections.begin()
    gpu.now += 3
    sections.begin()
    gpu.now += 2
    sections.end()
    sections.end()
    gpu.passed = gpu.now
    sections.begin()
    assert (sums.sections, sums.section_seconds) == (1, 0.002), "the one that began last"
    assert gpu.made == 2, "events are used again"


def test_a_gpus_own_time_counts_once_it_has_passed_the_end(gpu: Gpu) -> None:
    sums = RankProgress()
    sections = Sections(sums)
    for milliseconds in (20, 26, 20):
        compute_on(gpu, sections, milliseconds)
    assert sums.sections == 0, "it has only queued them"
    gpu.passed = 46.0
    compute_on(gpu, sections, 1)
    assert sums.sections == 2 and sums.section_seconds == pytest.approx(0.046)


def test_sections_are_left_out_while_the_gpu_is_far_behind(gpu: Gpu) -> None:
    sums = RankProgress()
    sections = Sections(sums)
    for _ in range(3 * MOST_PENDING):
        compute_on(gpu, sections, 1)
    assert gpu.made == 2 * MOST_PENDING
    gpu.passed = gpu.now
    compute_on(gpu, sections, 1)
    assert (sums.sections, gpu.made) == (MOST_PENDING, 2 * MOST_PENDING)


@pytest.mark.parametrize("captured_at", ["begin", "end"])
def test_a_section_in_a_graph_that_is_captured_has_no_time(gpu: Gpu, captured_at: str) -> None:
    sums = RankProgress()
    sections = Sections(sums)
    gpu.is_capturing = captured_at == "begin"
    sections.begin()
    gpu.is_capturing = True
    sections.end()
    gpu.is_capturing, gpu.passed = False, 99.0
    compute_on(gpu, sections, 1)
    compute_on(gpu, sections, 1)
    assert sums.sections == 1


def test_a_gpu_that_has_failed_is_the_users_to_see(gpu: Gpu) -> None:
    sums = RankProgress()
    sections = Sections(sums)
    compute_on(gpu, sections, 1)
    gpu.is_broken = True
    for _ in range(3):
        compute_on(gpu, sections, 1)
    assert sums.sections == 0
