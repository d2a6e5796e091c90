"""Random schedules of a job in a queue, alone or beside another actor of the cluster: Kueue acts at any moment, and the
job succeeds once it may. RAILHEAD_SCHEDULES scales their number."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from tests.model.actors.catalogue import ENABLED
from tests.model.queue_oracles import SEEN
from tests.model.seeds import SCHEDULES, find_batches, replay
from tests.model.world_schedule import WorldSchedule
from tests.tried import Tried

QUEUE = "a queue"
OTHERS = sorted(ENABLED)


def choose_names(seed: int) -> tuple[str, ...]:
    """Every second schedule has another actor."""
    return (QUEUE, OTHERS[seed // 2 % len(OTHERS)]) if seed % 2 else (QUEUE,)


@pytest.mark.parametrize("seeds", find_batches(SCHEDULES // 20, size=25), ids=lambda seeds: f"from {seeds.start}")
def test_whatever_kueue_does_the_job_holds_quota_while_it_has_pods_and_succeeds(
    seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    seen: Counter[str] = Counter()
    for seed in seeds:
        schedule = WorldSchedule(seed, names=choose_names(seed))
        replay(schedule)
        seen += schedule.queue_watchman.seen
    tried("random schedules of a queue", len(seeds))
    assert len(seeds) < 25 or all(seen[each] for each in SEEN), seen
