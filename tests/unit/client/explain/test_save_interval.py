"""The arithmetic of checkpoints and losses, beside a simulation with losses at random times."""

from __future__ import annotations

from random import Random

import pytest

from railhead.client.explain.save_interval import LEAST_INTERVAL, SaveCosts

HOUR = 3600.0
LOSSES = 20_000


def simulate(costs: SaveCosts, interval: float, chance: Random) -> float:
    """Returns the share of the time that is lost, over many losses. A loss may also hit a checkpoint or a restart."""
    kept = passed = 0.0
    for _ in range(LOSSES):
        left = chance.expovariate(1 / costs.mtbf)
        passed += left
        left -= costs.downtime
        if left > 0:
            kept += left // (interval + costs.stall) * interval
    return 1 - kept / passed


@pytest.mark.parametrize(
    ("costs", "interval"),
    [
        (SaveCosts(12, 20, 7.9 * HOUR), 1800),
        (SaveCosts(60, 600, 7.9 * HOUR), 1800),
        (SaveCosts(1, 20, 7.9 * HOUR), 240),
        (SaveCosts(0, 20, 3.1 * HOUR), 300),
        (SaveCosts(10, 60, 0.5 * HOUR), 1800),  # the interval is as long as the time between losses
        (SaveCosts(10, 60, 0.5 * HOUR), 190),
        (SaveCosts(30, 1800, 0.5 * HOUR), 600),  # restarts are lost, too
    ],
)
def test_the_cost_is_that_of_a_simulation(costs: SaveCosts, interval: float) -> None:
    simulated = [simulate(costs, interval, Random(seed)) for seed in range(3)]
    assert costs.share_lost(interval) == pytest.approx(sum(simulated) / 3, rel=0.03)


@pytest.mark.parametrize("stall", [1.0, 12.0, 60.0])
@pytest.mark.parametrize("hours", [1.8, 7.9, 47 * 24.0])
def test_no_other_interval_costs_noticeably_less_than_the_best(stall: float, hours: float) -> None:
    costs = SaveCosts(stall, 20, hours * HOUR)
    tried = min(costs.share_lost(costs.best_interval * factor / 20) for factor in range(1, 80))
    assert costs.share_lost(costs.best_interval) < tried + 0.0005


def test_short_intervals_cost_what_the_rule_of_thumb_says() -> None:
    costs = SaveCosts(stall=10, downtime=30, mtbf=31.6 * HOUR)
    assert costs.share_lost(900) == pytest.approx(10 / 900 + (450 + 30) / (31.6 * HOUR), rel=0.02)


def test_a_stall_of_nothing_asks_for_no_checkpoint_after_each_step() -> None:
    assert SaveCosts(0.0, 20, HOUR).best_interval == LEAST_INTERVAL


def test_a_job_that_never_comes_to_its_next_checkpoint_loses_all() -> None:
    assert SaveCosts(10, 20, 60).share_lost(1e9) == 1.0
    assert SaveCosts(10, 20, 60).share_lost(2000) == pytest.approx(1.0)
