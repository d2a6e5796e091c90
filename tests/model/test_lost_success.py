"""Training has succeeded, the operator has not heard of it, and the head is gone."""

from __future__ import annotations

from railhead.api import names
from tests.model.faults import Faults
from tests.model.oracles import Watchman, check_counters, check_end
from tests.model.play import Runner
from tests.model.world import World, name_of


async def test_a_success_that_no_report_told_ends_the_job_without_training() -> None:
    """The operator is away until the head's node is removed; no worker is needed to succeed in the next attempt."""
    world = World(epochs=3)
    watchman, runner = Watchman(world), Runner(world, Faults())
    world.apply()
    await runner.run_operator()
    while not any(report.outcome for report in world.reports):
        world.step()
        world.tick(1)
    [head] = world.pods(names.HEAD)
    world.remove_pod(name_of(head))
    world.reports = world.reports[:1]  # that the driver starts
    for _ in range(100):
        await runner.run_operator()
        world.step()
        world.tick(1)
    check_end(world)
    check_counters(world)
    watchman.check()
    assert [attempt for attempt, _ in world.starts] == [1], "training ran once"
    assert world.status()["attempt"] == 2
