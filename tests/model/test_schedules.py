"""Random schedules under one and two operators.

`RAILHEAD_SEED=n` replays one of them, `RAILHEAD_SCHEDULES=n` plays n of each.
"""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tests.model.queue_oracles import SEEN
from tests.model.queue_schedule import QueueSchedule
from tests.model.schedule import Schedule
from tests.model.seeds import SCHEDULES, find_batches, replay
from tests.tried import Tried

REACHED = ("time hanging", "time retrained", "counted in place")  # in each batch of 100


@pytest.mark.parametrize("seeds", find_batches(SCHEDULES, size=50), ids=lambda seeds: f"from {seeds.start}")
@pytest.mark.parametrize("operators", [1, 2])
def test_every_schedule_reaches_its_documented_end(
    operators: int, seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    done: Counter[str] = Counter()
    for seed in seeds:
        schedule = Schedule(seed, operators)
        replay(schedule)
        done += schedule.done
    assert len(seeds) < 100 or all(done[each] for each in REACHED), done
    tried(f"random schedules under {operators} operators", len(seeds))
    print(", ".join(f"{count} x {what}" for what, count in done.most_common()))


@pytest.mark.parametrize("seeds", find_batches(SCHEDULES // 50, size=100), ids=lambda seeds: f"from {seeds.start}")
@pytest.mark.parametrize("operators", [1, 2])
def test_a_stale_view_ends_no_queued_job_and_gives_no_quota_away_that_pods_use(
    operators: int, seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    seen: Counter[str] = Counter()
    for seed in seeds:
        schedule = QueueSchedule(seed, operators)
        replay(schedule)
        seen += schedule.watchman.seen
    tried(f"random schedules of a queued job under {operators} operators", len(seeds))
    assert len(seeds) < 100 or all(seen[each] for each in SEEN), seen
