"""The operator makes the head of one attempt a second time, while the first one still trains."""

from __future__ import annotations

from railhead.api import names
from tests.model.faults import Faults
from tests.model.oracles import Watchman, check_counters, check_end
from tests.model.play import Runner
from tests.model.world import World, name_of


async def test_only_one_of_two_heads_of_an_attempt_commits() -> None:
    """The operator is away while the head starts, trains, and is deleted by force on a node that is cut off."""
    world = World(epochs=6)
    watchman, runner = Watchman(world), Runner(world, Faults())
    world.apply()
    await runner.run_operator()
    while len(world.commits) < 2:
        world.step()
    [first] = world.pods(names.HEAD)
    world.delete_by_force(name_of(first))
    world.reports.clear()
    runner.operator = None
    await runner.run_operator()
    [second] = world.pods(names.HEAD)
    assert (name_of(second), second["metadata"]["uid"] == first["metadata"]["uid"]) == (name_of(first), False)
    for _ in range(100):
        world.step()
        world.tick(1)
        await runner.run_operator()
    check_end(world)
    check_counters(world)
    watchman.check()
    assert world.fenced == 1
    assert world.writers[1] == {first["metadata"]["uid"]}
    assert not world.status().get("restarts"), "the attempt of the second head is counted nowhere"
