"""Plays a scenario to its end: the operator does all it can, then the world takes one step, and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from railhead.kube.errors import KubeError
from railhead.resources.base import OperatorSettings
from tests.model.faults import Crash, Faults
from tests.model.operator import ModelOperator
from tests.model.oracles import (
    Holding,
    Watchman,
    check_attempts,
    check_counters,
    check_drivers,
    check_end,
    check_gone,
    check_goodput,
    check_images,
    check_stuck_pods,
)
from tests.model.queue_oracles import QueueWatchman
from tests.model.world import World, count_losses
from tests.unit.builders import SETTINGS

TURNS = 400
MOST_PASSES = 200  # while nothing but the operator acts
LONGEST_WAIT = timedelta(days=2)
NOT_COUNTED = ("events", "trainjobs")

LOSSES = ("application", "infrastructure", "startup", "inPlace")


@dataclass(frozen=True)
class Act:
    """Something that happens once, as soon as `when` holds."""

    when: Callable[[World], bool]
    what: Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """The events of a job, and how it must end."""

    name: str
    acts: tuple[Act, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict)
    phase: str = "Succeeded"
    restarts: dict[str, int] = field(default_factory=dict)
    full_nodes: frozenset[str] = frozenset()
    quota: int | None = None
    gpus: int = 0  # of a queue of Kueue; 0 = the operator does not use Kueue
    nodes: int = 0  # among which Kueue chooses; 0 = it does not
    is_fenced: bool = False
    starts: int | None = None  # how often training starts, if that does not follow from the restarts


def committed(epochs: int) -> Callable[[World], bool]:
    return lambda world: len(world.commits) >= epochs


@dataclass
class Runner:
    """One world and its operator, which is restarted after a crash."""

    world: World
    faults: Faults
    operator: ModelOperator | None = None
    crashes: int = 0
    settings: OperatorSettings = SETTINGS

    async def run_operator(self) -> None:
        """The operator sees everything and does all it can do now."""
        if self.settings != self.world.settings:
            self.operator, self.settings = None, self.world.settings
        try:
            if self.operator is None:
                operator = ModelOperator(
                    self.world.api,
                    self.faults,
                    time=lambda: self.world.now,
                    settings=self.settings,
                    uses_kueue=self.world.kueue is not None,
                )
                await operator.start()
                self.operator = operator
            for _ in range(MOST_PASSES):
                if not await self._turn(self.operator):
                    return
            raise AssertionError(f"the operator does not come to rest: {self.world.status()}")
        except Crash:
            self.operator = None
            self.crashes += 1
        except KubeError:  # the first list had no answer
            self.operator = None

    async def _turn(self, operator: ModelOperator) -> bool:
        operator.alarms.ring()
        await operator.watch_all()
        reports, self.world.reports = self.world.reports, []
        for number, report in enumerate(reports):
            self.world.reports = reports[number:]  # sent again to the next operator if this one crashes
            is_taken = await operator.report(report)
            self.world.reports = []
            if not is_taken:
                self.world.reports = reports[number:]
                break
        if operator.is_idle:
            return False
        await operator.reconcile()
        return True


async def play(scenario: Scenario, faults: Faults | None = None) -> World:
    """Until nothing changes anymore; checks the invariants that hold despite any fault."""
    world = World(epochs=6, full_nodes=set(scenario.full_nodes), quota=scenario.quota)
    if scenario.nodes:
        world.add_nodes(scenario.nodes)
    if scenario.gpus:
        world.add_queue(gpus=scenario.gpus, has_topology=bool(scenario.nodes))
    watchman, queue = Watchman(world), QueueWatchman(world)
    runner, holding = Runner(world, faults or Faults()), Holding(world)
    world.apply(**scenario.spec)
    acts = list(scenario.acts)
    for _ in range(TURNS):
        await runner.run_operator()
        holding.measure()
        if acts and acts[0].when(world):
            acts.pop(0).what(world)
            continue
        moved = world.step()
        world.tick(1)
        if moved or runner.operator is None or world.reports:
            continue
        next_at = runner.operator.alarms.next_at
        if next_at is None or next_at - world.now > LONGEST_WAIT:
            break
        world.now = max(world.now, next_at)
    else:
        raise AssertionError(f"{scenario.name} does not settle: {world.status()}")
    assert not acts, f"{scenario.name}: some acts have not happened"
    if "ttlSecondsAfterFinished" in scenario.spec:
        check_gone(world, phase=scenario.phase)
    elif world.job() is not None:
        assert "cleanUpTime" in world.status(), "the head pod is kept for a day"
        check_end(world, phase=scenario.phase)
        restarts = {**(world.status().get("restarts") or {}), **dict.fromkeys(LOSSES, 0), **count_losses(world.api.log)}
        assert {key: restarts.get(key, 0) for key in scenario.restarts} == scenario.restarts, restarts
    else:
        assert not world.pods()
    check_stuck_pods(world)
    check_counters(world)
    check_drivers(world)
    check_images(world)
    check_attempts(world.api.log)
    check_goodput(world.api)
    assert scenario.starts in (None, len(world.starts)), world.starts
    assert scenario.is_fenced == bool(world.fenced), f"the fence held {world.fenced} times"
    watchman.check()
    queue.check()
    holding.check(crashes=runner.crashes)
    return world


def summarize(world: World) -> dict[str, Any]:
    """Results that must be the same with and without faults."""
    status = world.job() and world.status()
    return {
        "creates": {key: n for key, n in world.api.creates.items() if key[0] not in NOT_COUNTED},
        "deletes": {key: n for key, n in world.api.deletes.items() if key[0] not in NOT_COUNTED},
        "commits": [epoch for _, epoch in world.commits],
        "starts": len(world.starts),
        "status": status
        and {
            "phase": status["phase"],
            "attempt": status["attempt"],
            "round": status["round"],
            "restarts": status.get("restarts"),
            "checkpoint": (status.get("checkpoint") or {}).get("index"),
            "conditions": sorted((c["type"], c["status"]) for c in status["conditions"]),
        },
    }
