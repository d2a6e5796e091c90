"""Random schedules under one and two operators.

`RAILHEAD_SEED=n` replays one of them, `RAILHEAD_SCHEDULES=n` plays n of each.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.model.queue_oracles import SEEN
from tests.model.queue_schedule import QueueSchedule
from tests.model.schedule import Schedule
from tests.model.seeds import SCHEDULES, find_batches, replay
from tests.tried import Tried

QUEUED = max(5, SCHEDULES // 50)
BATCH = 100
REACHED = ("time hanging", "time retrained", "counted in place")  # in each batch


def name_batch(seeds: range) -> str:
    """Returns the id of a test with these seeds, by which a part of `make test-all` selects every other batch."""
    half = "odd"
    if seeds.start // BATCH % 2 == 0:
        half = "even"
    return f"{half} from {seeds.start}"


@pytest.mark.parametrize("seeds", find_batches(SCHEDULES, size=BATCH), ids=name_batch)
@pytest.mark.parametrize("operators", [1, 2])
def test_every_schedule_reaches_its_documented_end(
    operators: int, seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    play(seeds, lambda seed: Schedule(seed, operators), REACHED)
    tried(f"random schedules under {operators} operators", len(seeds))


@pytest.mark.parametrize("seeds", find_batches(QUEUED, size=BATCH), ids=name_batch)
@pytest.mark.parametrize("operators", [1, 2])
def test_a_stale_view_ends_no_queued_job_and_gives_no_quota_away_that_pods_use(
    operators: int, seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    play(seeds, lambda seed: QueueSchedule(seed, operators), SEEN)
    tried(f"random schedules of a queued job under {operators} operators", len(seeds))


def play(seeds: range, make: Callable[[int], Schedule], reached: Iterable[str]) -> None:
    """Plays all of them; as many as make test plays must have reached all of that."""
    done: Counter[str] = Counter()
    for seed in seeds:
        schedule = make(seed)
        replay(schedule)
        done += schedule.done
    print(", ".join(f"{count} x {what}" for what, count in done.most_common()))
    assert len(seeds) < 30 or all(done[each] for each in reached), done
