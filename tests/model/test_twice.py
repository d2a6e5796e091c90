"""The same event twice, and the same pass twice, in each state of the world: nothing happens again."""

from __future__ import annotations

import logging
from random import Random

import pytest

from railhead.api.parsed_spec import JobKey
from tests.model.actors.catalogue import CATALOGUE, ENABLED
from tests.model.actors.full_cluster import FullCluster
from tests.model.actors.shared_quota import SharedQuota
from tests.model.seeds import SCHEDULES, find_batches, replay
from tests.model.world_schedule import WorldSchedule
from tests.tried import Tried

# After a denial the operator waits, and another pass is no repetition. Nor is it for jobs that wait for each other:
# the turn of one may have come.
WAITING = {name for name, entry in CATALOGUE.items() if entry.actor.denies_requests}
WAITING |= {name for name, entry in CATALOGUE.items() if entry.actor in (FullCluster, SharedQuota)}
OTHERS = sorted(ENABLED - WAITING)


class Twice(WorldSchedule):
    """Whenever the operator has done all it can do now, it gets every event again, and each job another pass."""

    async def _settle(self) -> None:
        await super()._settle()
        operator, api = self.operator, self.world.api
        if operator is None:
            return
        written = len(api.log)
        for stream in operator.streams:
            await operator.list(stream)
        for plural, namespace, name in api.objects:
            if plural == "trainjobs":
                operator.queue.add(JobKey(namespace, name))
        while operator.queue.depth:
            await operator.reconcile()
        again = [(each.type, each.plural, each.object["metadata"]["name"]) for each in api.log[written:]]
        assert not again, f"the same pass twice at {self.world.now:%H:%M:%S}: {again}"
        self.done["passes repeated"] += 1


def make_schedule(seed: int) -> Twice:
    return Twice(seed, names=tuple(Random(seed).sample(OTHERS, 2)))


@pytest.mark.parametrize(
    "seeds", find_batches(max(3, SCHEDULES // 50), size=5), ids=lambda seeds: f"from {seeds.start}"
)
def test_the_same_events_and_passes_again_change_nothing(
    seeds: range, tried: Tried, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in seeds:
        schedule = make_schedule(seed)
        replay(schedule)
        assert schedule.done["passes repeated"] > 20
    tried("random schedules in which every event and pass comes twice", len(seeds))
