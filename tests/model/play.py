"""Plays a scenario to its end: the operator does all it can, then the world moves one step, and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from railhead.kube.errors import KubeError
from railhead.resources.settings import OperatorSettings
from tests.model.faults import Crash, Faults
from tests.model.operator import JOBS, PODS, ModelOperator
from tests.model.oracles import (
    Holding,
    Watchman,
    check_counters,
    check_drivers,
    check_end,
    check_gone,
    check_stuck_pods,
)
from tests.model.world import World
from tests.unit.builders import SETTINGS

TURNS = 400
LONGEST_WAIT = timedelta(days=2)
NOT_COUNTED = ("events", "trainjobs")


@dataclass(frozen=True)
class Act:
    """Something that happens once, as soon as `when` holds."""

    when: Callable[[World], bool]
    what: Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """What happens to a job, and how it must end."""

    name: str
    acts: tuple[Act, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict)
    phase: str = "Succeeded"
    restarts: dict[str, int] = field(default_factory=dict)
    disruptions: dict[str, int] = field(default_factory=dict)
    full_nodes: frozenset[str] = frozenset()
    quota: int | None = None
    is_fenced: bool = False
    starts: int | None = None  # how often training starts, if the restarts do not tell


def committed(epochs: int) -> Callable[[World], bool]:
    return lambda world: len(world.commits) >= epochs


@dataclass
class Stage:
    """One world and the one operator in it, which is started anew when it is dead."""

    world: World
    faults: Faults
    operator: ModelOperator | None = None
    crashes: int = 0
    settings: OperatorSettings = SETTINGS

    async def work(self) -> None:
        """The operator sees everything and does what it can do now."""
        if self.settings != self.world.settings:
            self.operator, self.settings = None, self.world.settings
        try:
            if self.operator is None:
                operator = ModelOperator(
                    self.world.api, self.faults, time=lambda: self.world.now, settings=self.settings
                )
                await operator.start()
                self.operator = operator
            while await self._turn(self.operator):
                pass
        except Crash:
            self.operator = None
            self.crashes += 1
        except KubeError:  # the first list had no answer
            self.operator = None

    async def _turn(self, operator: ModelOperator) -> bool:
        operator.alarms.ring()
        operator.watch(PODS)
        operator.watch(JOBS)
        reports, self.world.reports = self.world.reports, []
        for number, report in enumerate(reports):
            self.world.reports = reports[number:]  # said again to the next operator, when this one dies of it
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
    """To the point where nothing moves any more; checks what must hold whatever went wrong."""
    world = World(epochs=6, full_nodes=set(scenario.full_nodes), quota=scenario.quota)
    watchman = Watchman(world)
    stage, holding = Stage(world, faults or Faults()), Holding(world)
    world.apply(**scenario.spec)
    acts = list(scenario.acts)
    for _ in range(TURNS):
        await stage.work()
        holding.look()
        if acts and acts[0].when(world):
            acts.pop(0).what(world)
            continue
        moved = world.step()
        world.tick(1)
        if moved or stage.operator is None or world.reports:
            continue
        next_at = stage.operator.alarms.next_at
        if next_at is None or next_at - world.now > LONGEST_WAIT:
            break
        world.now = max(world.now, next_at)
    else:
        raise AssertionError(f"{scenario.name} does not come to rest: {world.status()}")
    assert not acts, f"{scenario.name}: not everything has happened"
    if "ttlSecondsAfterFinished" in scenario.spec:
        check_gone(world, phase=scenario.phase)
    elif world.job() is not None:
        assert "cleanUpTime" in world.status(), "the head pod is kept for a day"
        check_end(world, phase=scenario.phase)
        restarts = world.status().get("restarts") or {}
        assert {key: restarts.get(key, 0) for key in scenario.restarts} == scenario.restarts, restarts
        disruptions = world.status().get("disruptions") or {}
        assert {key: disruptions.get(key, 0) for key in scenario.disruptions} == scenario.disruptions, disruptions
    else:
        assert not world.pods()
    check_stuck_pods(world)
    check_counters(world)
    check_drivers(world)
    assert scenario.starts in (None, len(world.starts)), world.starts
    assert scenario.is_fenced == bool(world.fenced), f"the fence held {world.fenced} times"
    watchman.check()
    holding.check(crashes=stage.crashes)
    return world


def summarize(world: World) -> dict[str, Any]:
    """What must be the same with and without faults."""
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
            "disruptions": status.get("disruptions"),
            "failures": (status.get("budget") or {}).get("failures"),
            "checkpoint": (status.get("checkpoint") or {}).get("index"),
            "conditions": sorted((c["type"], c["status"]) for c in status["conditions"]),
        },
    }
