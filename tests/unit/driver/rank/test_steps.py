"""What a rank counts while it trains, with the real torch."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from railhead.contract.loss_rate import NO_LOSSES, LossHistory
from railhead.driver.rank import steps
from railhead.driver.rank.steps import (
    RankProgress,
    exchange_beat,
    read_beat,
    read_losses,
    read_times,
    reporting,
    saving,
    watch_optimizers,
)
from railhead.training import progress


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> RankProgress:
    found = RankProgress()
    monkeypatch.setattr(steps, "STEPS", found)
    monkeypatch.setattr(steps, "_losses", NO_LOSSES)
    return found


def test_progress_is_read_as_training_code_says_it() -> None:
    assert read_beat().step is None
    progress(3, total=100, tokens=4096)
    numbers: Any = (torch.tensor(4), None, torch.tensor(8192))
    progress(*numbers)
    beat = read_beat()
    assert (beat.step, beat.total, beat.tokens, beat.calls) == (4, None, 8192, 2)


def test_a_save_before_the_report_is_time_of_the_checkpoint_and_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(steps, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with saving():
        now[0] += 1.5
        assert read_beat().open_reports == 0
    now[0] += 10.0
    assert read_times() == (1.5, 110.0) and read_beat().reports == 0


def test_a_rank_learns_of_the_runs_losses_when_it_tells_how_far_it_is() -> None:
    assert read_losses() == NO_LOSSES
    progress(3)
    told = LossHistory(4, 7200.0)
    assert exchange_beat(told).step == 3
    assert read_losses() == told


@pytest.mark.parametrize(
    ("arguments", "name"), [(("3",), "step"), ((3, 1.5), "total"), ((3, None, "many"), "tokens"), ((None,), "step")]
)
def test_anything_but_an_integer_is_named(arguments: Any, name: str, fresh: RankProgress) -> None:
    with pytest.raises(TypeError, match=rf"railhead.training.progress: {name} must be an integer"):
        progress(*arguments)
    assert fresh.calls == 0


def test_steps_of_any_optimizer_of_torch_are_counted_once() -> None:
    watch_optimizers()
    watch_optimizers()
    model = torch.nn.Linear(2, 1)
    first, second = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.AdamW(model.parameters())
    for optimizer in (first, first, second):
        model(torch.ones(2)).sum().backward()
        optimizer.step()
    assert read_beat().optimizer == 3


def test_a_rank_without_torch_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_is_counting", False)
    monkeypatch.delitem(sys.modules, steps.MODULE)
    watch_optimizers()
    assert not steps._is_counting


def test_a_rank_says_while_it_is_in_a_report_also_one_that_fails() -> None:
    with pytest.raises(ValueError, match="no space"), reporting():
        assert read_beat().open_reports == 1
        raise ValueError("no space")
    assert read_beat().open_reports == 0


def test_a_rank_counts_its_seconds_in_reports_also_in_one_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(steps, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with reporting():
        clock.now = 102.0
        assert read_beat().blocked == 2.0 and read_times() == (2.0, 100.0)
    clock.now = 110.0
    assert read_beat().blocked == 2.0 and read_times() == (2.0, 108.0), "training goes on"
    with reporting():
        clock.now = 110.5
        assert read_beat().blocked == 2.5
