"""Large jobs: they end as those with two workers, also with faults, and more pods cost no more status writes.

They have 64 worker pods; with `RAILHEAD_FAULTS=all` 512.
"""

from __future__ import annotations

import pytest

from railhead.api import names
from tests.model.faults import CRASH_AFTER, CRASH_BEFORE, Faults
from tests.model.play import Act, Scenario, committed, play, summarize
from tests.model.scenarios import has_succeeded
from tests.model.single_faults import ALL
from tests.model.world import World, name_of
from tests.unit.builders import SPEC

WORKERS, RACK = (512, 64) if ALL else (64, 8)
MOST_STATUS_WRITES = 24
LARGE_SPEC = {"scaling": {**SPEC["scaling"], "numWorkers": WORKERS}}


def lose_rack(world: World) -> None:
    for pod in sorted(world.pods(names.WORKER), key=name_of)[:RACK]:
        world.remove_pod(name_of(pod))


def silence_rack(world: World) -> None:
    """Its switch fails: its pods do not answer the driver, and Kubernetes does not know yet."""
    for pod in sorted(world.pods(names.WORKER), key=name_of)[:RACK]:
        world.silence(name_of(pod))


SCENARIOS = (
    Scenario("clean", spec=LARGE_SPEC),
    Scenario("a rack is lost", (Act(committed(2), lose_rack),), spec=LARGE_SPEC, restarts={"infrastructure": 1}),
    Scenario(
        "a rack is cut off",
        (Act(committed(2), silence_rack), Act(has_succeeded, World.remove_nodes)),
        spec=LARGE_SPEC,
        restarts={"infrastructure": 1},
    ),
    Scenario(
        "the head is lost",
        (Act(committed(2), lambda world: world.remove_pod(name_of(world.live_heads[0]))),),
        spec=LARGE_SPEC,
        restarts={"application": 0, "infrastructure": 1},
    ),
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_large_job_reaches_its_end_even_if_the_operator_crashes(scenario: Scenario) -> None:
    without = Faults()
    wanted = summarize(await play(scenario, without))
    assert sum(call.verb == "patch/status" for call in without.written) <= MOST_STATUS_WRITES
    for number, fault in ((WORKERS // 2, CRASH_AFTER), (without.writes - WORKERS // 2, CRASH_BEFORE)):
        faults = Faults(lambda call, at=number, kind=fault: kind if call.is_write and call.number == at else None)  # type: ignore[misc]
        assert summarize(await play(scenario, faults)) == wanted, f"{fault} at write {number}"
        assert len(faults.done) == 1
