"""A queue of Kueue that admits the job, takes its quota away and gives it back, at any moment.

The rules of Kueue itself are those of tests/kueue, which cite its source.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tests.model.actors.actor import Actor, Range
from tests.model.kueue import NAME, ModelKueue
from tests.model.world import World

GPUS = 4
REMOVALS = 0.3  # of the times at which the administrator thinks of it
SPEC: dict[str, Any] = {"scheduling": {"queueName": NAME}}


class Queue(Actor):
    """Other owners, who have priority or not, and an administrator. `done` counts what they did."""

    first: Range = (5, 300)

    def __init__(self, world: World, random: Random) -> None:
        self.done: Counter[str] = Counter()
        self.kueue = ModelKueue(world.api, "default", gpus=GPUS)
        super().__init__(world, random)

    def begin(self) -> None:
        self.world.kueue = self.kueue

    def act(self) -> Range:
        what = self.random.choice(
            ("compete", "yield", "stop", "restart", "hold", "lift", "delete", "suspend", "resume", "remove", "install")
        )
        self.done[what] += 1
        self._do(what)
        return self.random.choice(((0, 2), (10, 60), (60, 300)))

    def _do(self, what: str) -> None:
        kueue, job = self.kueue, self.world.job()
        if what == "compete" and not kueue.has_rival:
            kueue.compete(gpus=self.random.choice((1, GPUS)), priority=self.random.choice((-1, 0, 1000)))
        elif what == "yield":
            kueue.yield_quota()
        elif what == "stop":
            kueue.stop()
        elif what == "restart":
            kueue.restart()
        elif what == "remove" and self.random.random() < REMOVALS:
            kueue.delete_definitions()
        elif what == "install":
            kueue.install_again()
        elif job is not None and what == "hold":
            kueue.hold(job)
        elif job is not None and what == "lift":
            kueue.lift_hold(job)
        elif job is not None and what == "delete":
            kueue.delete_workload(job)
        elif job is not None and what in ("suspend", "resume"):
            self.world.change(suspend=what == "suspend")

    def leave(self) -> None:
        """All quota is the job's."""
        for what in ("yield", "restart", "lift", "resume", "install"):
            self._do(what)
