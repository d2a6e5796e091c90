"""Random schedules of the actors of a real cluster. RAILHEAD_SCHEDULES scales their number.

`RAILHEAD_SEED=n` replays one of them; it does so only while the catalogue of actors is the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from tests.model.actors.catalogue import CATALOGUE, ENABLED
from tests.model.actors.default_queue import MANAGED
from tests.model.seeds import SCHEDULES, find_batches, replay
from tests.model.world import name_of
from tests.model.world_schedule import WorldSchedule
from tests.slow_cases import slow_after
from tests.tried import Tried


@pytest.mark.parametrize("seeds", find_batches(SCHEDULES // 10, size=10), ids=lambda seeds: f"from {seeds.start}")
def test_no_actor_of_a_cluster_breaks_a_rule_or_keeps_a_job_from_succeeding(
    seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    done: Counter[str] = Counter()
    for seed in seeds:
        schedule = WorldSchedule(seed)
        replay(schedule)
        done += schedule.done
    tried("random schedules of the world's actors", len(seeds))
    print(", ".join(f"{count} x {what}" for what, count in done.most_common()))


@pytest.mark.parametrize("seed", slow_after(1, range(3)))
@pytest.mark.parametrize("name", sorted(ENABLED))
def test_each_actor_acts(name: str, seed: int) -> None:
    schedule = WorldSchedule(seed, names=(name,))
    asyncio.run(schedule.run())
    assert schedule.done[name]


def test_every_actor_is_enabled_or_waits_for_a_finding() -> None:
    assert {name for name, entry in CATALOGUE.items() if not entry.waits_for and not entry.has_own_schedules} == ENABLED


@pytest.mark.parametrize("seed", slow_after(1, range(3)))
def test_no_pod_waits_for_a_kueue_that_is_removed(seed: int) -> None:
    """Nobody would remove its finalizer, so a pod that never ran would hold a finished job's quota forever."""
    schedule = WorldSchedule(seed, names=("a LocalQueue named default", "a node that reboots"))
    asyncio.run(schedule.run())
    held = [name_of(pod) for pod in schedule.world.pods() if MANAGED in (pod["metadata"].get("finalizers") or ())]
    assert not held
