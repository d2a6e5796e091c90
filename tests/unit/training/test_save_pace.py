"""When the next save is due, by what the last ones have cost."""

from __future__ import annotations

import pytest

from railhead.training._save_pace import Every, SavePace


def play(every: Every, *saves: tuple[float, float]) -> float:
    """The interval after saves of these stalls and durations, each 1,000 s after the one before."""
    pace = SavePace(every, now=0.0)
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


def test_a_save_is_due_an_interval_after_the_one_before_began() -> None:
    pace = SavePace(100.0, now=50.0)
    assert (pace.is_due(149.9), pace.is_due(150.0)) == (False, True)
    pace.begin(160.0)
    assert (pace.is_due(259.9), pace.is_due(260.0)) == (False, True)
