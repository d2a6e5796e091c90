"""Random schedules of a job in a queue of Kueue under operators whose views are stale.

They are those of `tests/model/schedule.py`, in which Kueue, another owner and an administrator act too.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.model.kueue import KINDS, NAME, ModelKueue
from tests.model.queue_oracles import QueueWatchman
from tests.model.schedule import Schedule

GPUS = 4
SPEC = {"scheduling": {"queueName": NAME}, "scaling": {"numWorkers": 2, "useGPU": True}}
ON_QUEUE: dict[str, Callable[[ModelKueue], None]] = {
    "yield": ModelKueue.yield_quota,
    "stop": ModelKueue.stop,
    "restart queue": ModelKueue.restart,
    "delete definitions": ModelKueue.delete_definitions,
    "install": ModelKueue.install_again,
}
ACTIONS = {
    "Kueue": 30,
    "compete": 1,
    "yield": 1,
    "stop": 0.7,
    "restart queue": 1,
    "hold": 0.7,
    "lift": 0.7,
    "delete Workload": 0.5,
    "delete definitions": 0.2,
    "install": 0.5,
}


class QueueSchedule(Schedule):
    """One random schedule of a queued job under one or two operators."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.world.add_queue(gpus=GPUS)
        self.watchman = QueueWatchman(self.world, sees_all=False)
        self._spec = {**self._spec, **SPEC}
        self._weights |= ACTIONS
        self._streams = (*self._streams, *KINDS)

    @property
    def _kueue(self) -> ModelKueue:
        assert self.world.kueue is not None
        return self.world.kueue

    def _disturb(self, action: str) -> None:
        job = self.world.job()
        if action == "Kueue":
            self._kueue.run_once(self.world.now)
        elif action in ON_QUEUE:
            ON_QUEUE[action](self._kueue)
        elif action == "compete" and not self._kueue.has_rival:
            self._kueue.compete(gpus=self._random.choice((1, GPUS)), priority=self._random.choice((-1, 1000)))
        elif action == "hold" and job is not None:
            self._kueue.hold(job)
        elif action == "lift" and job is not None:
            self._kueue.lift_hold(job)
        elif action == "delete Workload" and job is not None:
            self._kueue.delete_workload(job)
        else:
            super()._disturb(action)

    def _heal(self) -> None:
        super()._heal()
        for action in ("install", "yield", "restart queue", "lift"):
            self._disturb(action)

    def _is_stopped_meanwhile(self) -> bool:
        seen = self.watchman.seen
        return super()._is_stopped_meanwhile() or any(seen[kind] for kind in ("Evicted", "held", "deleted"))

    def _check(self) -> None:
        super()._check()
        self.watchman.check()
        self.done += self.watchman.seen
