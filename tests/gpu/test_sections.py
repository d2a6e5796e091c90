"""Sections of computing on a real GPU: its own time, although the host continues at once."""

from __future__ import annotations

import time
from typing import Any

import torch

from railhead.driver.rank.sections import Sections
from railhead.driver.rank.steps import RankProgress
from tests.gpu.devices import needs_gpus

CYCLES = 100_000_000  # about 50 ms
spin: Any = torch.cuda._sleep


@needs_gpus(1)
def test_events_measure_what_the_gpu_does_and_the_host_does_not_wait() -> None:
    sums = RankProgress()
    sections = Sections(sums)
    torch.zeros(1, device="cuda")
    spin(CYCLES)
    torch.cuda.synchronize()
    began = time.perf_counter()
    spin(CYCLES)
    torch.cuda.synchronize()
    expected = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(10):
        with sections:
            spin(CYCLES)
    assert time.perf_counter() - began < expected, "the host has queued ten sections in less than the time of one"
    torch.cuda.synchronize()
    with sections:
        pass
    assert sums.sections == 10
    assert 0.8 * expected < sums.section_seconds / 10 < 1.2 * expected


@needs_gpus(1)
def test_a_section_costs_the_host_microseconds_and_a_captured_one_does_no_harm() -> None:
    sums = RankProgress()
    sections = Sections(sums)
    value = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), sections:
        value += 1
    graph.replay()
    torch.cuda.synchronize()
    assert value.item() == 1 and sums.sections == 0
    began = time.perf_counter()
    for _ in range(1000):
        with sections:
            pass
    assert (time.perf_counter() - began) / 1000 < 100e-6
