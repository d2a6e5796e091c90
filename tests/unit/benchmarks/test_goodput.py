"""The goodput of the benchmark: each step counts once, and the schedule is always the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from benchmarks.goodput import ERROR, EVICTION, GAPS_SECONDS, HEAD, WORKER, count_productive, plan_losses


def note(step: int, time: float, *, began: float = 0.0) -> dict[str, Any]:
    return {"step": step, "time": time, "began": began}


def test_each_loss_comes_once_and_after_the_job_has_recovered() -> None:
    losses = plan_losses()
    assert {kind for _, kind in losses} == {WORKER, ERROR, HEAD, EVICTION}
    times = [0.0, *(at for at, _ in losses)]
    assert all(GAPS_SECONDS[0] <= b - a <= GAPS_SECONDS[1] for a, b in pairwise(times))
    assert losses == plan_losses()


def test_a_step_that_is_made_again_counts_once() -> None:
    """At the pace of undisturbed steps: the gap between two groups is none."""
    before = [note(step, 10 + 0.5 * step) for step in range(10)]
    after = [note(step, 40 + 0.5 * step, began=39.0) for step in range(8, 12)]
    assert count_productive([*before, *after]) == pytest.approx(12 * 0.5)
