"""Random schedules of the world's actors: two or three of them trouble a job, then the cluster is healthy again, and
the job must succeed. A seed replays one."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.model.actors.actor import Actor
from tests.model.actors.catalogue import CATALOGUE, ENABLED
from tests.model.actors.flapper import Flapper
from tests.model.actors.queue import SPEC, Queue
from tests.model.faults import Faults
from tests.model.operator import ModelOperator
from tests.model.oracles import Watchman, check_attempts, check_drivers, check_goodput
from tests.model.pass_oracles import FINISHED, Circumstances, Witness
from tests.model.queue_oracles import QueueWatchman
from tests.model.world import BESIDE, World, is_live

TROUBLE = timedelta(seconds=1500)
PATIENCE = timedelta(hours=3)  # from then on until everything has settled
EPOCHS, PACE = 12, timedelta(seconds=60)
NODES = 6
TURNS = 4000
RETRY = timedelta(seconds=5)  # until a driver reports again
GPU = {"useGPU": True}
RIGID: tuple[dict[str, Any], ...] = ({"scaling": {"numWorkers": 2, **GPU}}, {"scaling": {"numWorkers": 4, **GPU}})
ELASTIC: dict[str, Any] = {"scaling": {"minWorkers": 1, "maxWorkers": 4, "desiredWorkers": 3, **GPU}}
BUDGETS: dict[str, Any] = {"backoffLimit": 0}


@dataclass
class WorldSchedule:
    """One schedule. `names`: of its actors, by default two or three that are enabled; `done`: how often each acted."""

    seed: int
    names: tuple[str, ...] = ()
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        if not self.names:
            self.names = tuple(self.random.sample(sorted(ENABLED), self.random.choice((2, 2, 3))))
        self.world = World(epochs=EPOCHS, pace=PACE)
        self.world.ending = timedelta(seconds=self.random.choice((0, 5, 25)))
        self.world.add_nodes(NODES)
        self._watchman, self.queue_watchman = Watchman(self.world), QueueWatchman(self.world)
        self.circumstances = Circumstances(self.world, refusing=self._count_refusing)
        self.witness = Witness(self.circumstances)
        self.actors: list[Actor] = []
        self.operator: ModelOperator | None = None
        self._silent_until: dict[tuple[str, int], datetime] = {}
        self._away_since: datetime | None = None
        self._beside_at = self.world.now + timedelta(seconds=self.random.uniform(0, 600))

    async def run(self) -> World:
        """Raises AssertionError, with the actors of the schedule."""
        try:
            await self._run()
        except AssertionError as error:
            raise AssertionError(f"{' + '.join(self.names)}: {error}") from error
        return self.world

    async def _run(self) -> None:
        world = self.world
        queue = SPEC if any(CATALOGUE[name].actor is Queue for name in self.names) else {}
        is_elastic = any(CATALOGUE[name].actor is Flapper for name in self.names)
        world.apply(**BUDGETS, **queue, **(ELASTIC if is_elastic else self.random.choice((*RIGID, ELASTIC))))
        self.actors = [CATALOGUE[name].actor(world, self.random) for name in self.names]
        self.circumstances.are_requests_denied = any(actor.denies_requests for actor in self.actors)
        self.circumstances.are_releases_denied = lambda: any(actor.denies_releases for actor in self.actors)
        await self._play(until=world.now + TROUBLE)
        for actor in self.actors:
            actor.leave()
            actor.next_at = None
        self.circumstances.healthy_since = world.now
        await self._play(until=world.now + PATIENCE)
        self._check_end()

    async def _play(self, *, until: datetime) -> None:
        """Until that time, or until nothing happens any more to a job that has not ended."""
        for _ in range(TURNS):
            self._act()
            await self._settle()
            if self.circumstances.healthy_since is None and self._have_ended():
                return
            if self.world.step():
                self.world.tick(1)
            elif times := [at for at in self._find_times() if self.world.now < at < until]:
                self.world.now = min(times)
            elif self.circumstances.healthy_since is not None:
                return
            else:
                self.world.now = until
            if self.world.now >= until:
                return
        raise AssertionError(f"it does not settle: {self.world.status()}")

    def _have_ended(self) -> bool:
        jobs = self.world.api.objects.of("trainjobs")
        return len(jobs) > 1 and all(job["status"].get("phase") in FINISHED for job in jobs)

    def _find_times(self) -> list[datetime]:
        """When something happens next."""
        world, times = self.world, [actor.next_at for actor in self.actors]
        times += [self.operator.alarms.next_at if self.operator else None]
        times += [self._beside_at if world.job("other", namespace=BESIDE) is None else None]
        times += [driver.due for driver in world.drivers.values() if driver.state == "RUNNING"]
        times += [world.now + RETRY for _ in world.reports]
        times += [world.ends_at(pod) for pod in world.pods() if "deletionTimestamp" in pod["metadata"]]
        return [at for at in times if at is not None]

    def _act(self) -> None:
        world = self.world
        if self._beside_at <= world.now and world.job("other", namespace=BESIDE) is None:
            world.apply("other", namespace=BESIDE)
        for name, actor in zip(self.names, self.actors, strict=True):
            if actor.next_at is not None and actor.next_at <= world.now:
                actor.run()
                self.done[name] += 1

    async def _settle(self) -> None:
        """The operator sees everything and does all it can do now."""
        if any(actor.is_operator_away for actor in self.actors):
            self.operator = None
            self._away_since = self._away_since or self.world.now
            return
        if self._away_since:
            self.circumstances.away += self.world.now - self._away_since
            self._away_since = None
        operator = self.operator = self.operator or await self._start()
        while True:
            operator.alarms.ring()
            await operator.watch_all()
            await self._report(operator)
            due = operator.queue.depth
            if not due:
                break
            await asyncio.gather(*(operator.reconcile() for _ in range(due)))
            self.witness.after_pass()
        self.witness.at_rest()

    async def _start(self) -> ModelOperator:
        faults = Faults(yields=lambda: self.random.randrange(3))
        operator = ModelOperator(
            self.world.api, faults, time=lambda: self.world.now, uses_kueue=self.world.kueue is not None
        )
        await operator.start()
        return operator

    async def _report(self, operator: ModelOperator) -> None:
        """The newest report of each driver; one that cannot be written is sent again some seconds later."""
        newest = {(each.uid, each.attempt): each for each in self.world.reports}
        self.world.reports = []
        for key, report in newest.items():
            if self._silent_until.get(key, self.world.now) > self.world.now:
                self.world.reports.append(report)
            elif not await operator.report(report):
                self.world.reports.append(report)
                self._silent_until[key] = self.world.now + RETRY

    def _count_refusing(self) -> tuple[float, int]:
        now, times = self.world.now, [each for actor in self.actors for each in actor.refusals]
        return sum((min(end, now) - begin).total_seconds() for begin, end in times), len(times)

    def _check_end(self) -> None:
        """Every job has succeeded, and holds nothing but its terminated head."""
        for (plural, namespace, name), job in self.world.api.objects.items():
            if plural != "trainjobs":
                continue
            phase = job["status"].get("phase")
            assert phase == "Succeeded", f"{namespace}/{name} is {phase}: {job['status']}"
            run = self.world.runs[name]
            assert [epoch for _, epoch in run.commits] == list(range(EPOCHS)), run.commits
        held = [pod["metadata"]["name"] for pod in self.world.pods() if is_live(pod)]
        assert not held, f"finished jobs hold {held}"
        check_drivers(self.world)
        check_attempts(self.world.api.log)
        check_goodput(self.world.api)
        self._watchman.check()
        self.queue_watchman.check()
