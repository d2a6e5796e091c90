"""When the next save is due, by what the last ones have cost."""

from __future__ import annotations

import pytest

from railhead.contract.loss_rate import LossHistory
from railhead.training._save_pace import Every, SavePace

MANY = 100_000  # ranks, which lose one in less than five minutes


def play(every: Every, *saves: tuple[float, float], ranks: int = MANY) -> float:
    """The interval after saves of these stalls and durations, each 1,000 s after the one before."""
    pace = SavePace(every, ranks=ranks, now=0.0)
    for number, (stall, duration) in enumerate(saves, 1):
        pace.begin(1000.0 * number)
        pace.add_stall(stall / 2)
        pace.add_stall(stall / 2)
        pace.end(1000.0 * number + duration)
    return pace.interval


@pytest.mark.parametrize(
    ("every", "saves", "interval"),
    [
        ("auto", [], 30.0),
        ("auto", [(0.1, 1.0)], 30.0),
        ("auto", [(2.0, 5.0)], 200.0),
        ("auto", [(0.1, 100.0)], 200.0),
        ("auto", [(5.0, 1.0), (0.1, 1.0), (0.1, 1.0)], 500.0),
        ("auto", [(5.0, 1.0), (0.1, 1.0), (0.1, 1.0), (0.1, 1.0)], 30.0),
        ("continuous", [(2.0, 5.0)], 0.0),
        (600, [(2.0, 5.0)], 600.0),
    ],
)
def test_the_interval_follows_from_what_saves_have_cost(
    every: Every, saves: list[tuple[float, float]], interval: float
) -> None:
    assert play(every, *saves) == pytest.approx(interval)


@pytest.mark.parametrize(
    ("ranks", "stall", "interval"),
    [
        (1, 0.0, 30.0),
        (1, 0.2, 185.9),
        (64, 0.2, 185.9),
        (1024, 0.2, 106.7),
        (16_384, 0.2, 30.0),
        (1, 17.28, 1728.0),
        (1, 60.0, 6000.0),
    ],
)
def test_auto_saves_as_often_as_costs_least_and_waits_in_one_percent_of_the_time_at_most(
    ranks: int, stall: float, interval: float
) -> None:
    assert play("auto", (stall, 1.0), ranks=ranks) == pytest.approx(interval, abs=0.05)


@pytest.mark.parametrize(
    ("losses", "interval"),
    [(LossHistory(11, 0.0), 53.7), (LossHistory(1, 86_400.0), 185.9), (LossHistory(0, 4 * 86_400.0), 415.7)],
)
def test_auto_learns_from_the_losses_of_the_run(losses: LossHistory, interval: float) -> None:
    pace = SavePace("auto", ranks=8, now=0.0)
    pace.begin(0.0)
    pace.add_stall(0.2)
    pace.end(1.0)
    pace.note_losses(losses)
    assert pace.interval == pytest.approx(interval, abs=0.05)


def test_no_other_interval_costs_less_under_the_losses_that_are_assumed() -> None:
    stall, losses = 0.5, 86_400.0

    def cost(interval: float) -> float:
        return stall / interval + interval / 2 / losses

    chosen = play("auto", (stall, 1.0), ranks=8)
    assert all(cost(chosen) <= cost(chosen * factor) for factor in (0.5, 0.8, 0.99, 1.01, 1.25, 2.0))


def test_a_save_is_due_an_interval_after_the_one_before_began() -> None:
    pace = SavePace(100.0, ranks=1, now=50.0)
    assert (pace.is_due(149.9), pace.is_due(150.0)) == (False, True)
    pace.begin(160.0)
    assert (pace.is_due(259.9), pace.is_due(260.0)) == (False, True)
