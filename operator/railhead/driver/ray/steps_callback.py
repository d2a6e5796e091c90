"""Ray Train's calls during a run, handed to ordered steps: one callback for all of them.

Ray creates the callback in the driver, by its path in RAY_TRAIN_CALLBACKS, and pickles it into its controller. What a
step raises ends the start of a group, or the run, unless the step keeps it to itself (`never_raises`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from ray.train.v2._internal.execution import callback as of_ray

from railhead.driver.ray.types import (
    ExecutionGroup,
    GroupContext,
    GroupStatus,
    Metrics,
    RayWorker,
    TrainingReport,
    WorkerGroup,
)

if TYPE_CHECKING:
    _Base: Any = object
else:
    _KINDS = ("ControllerCallback", "WorkerGroupCallback", "ReplicaGroupCallback", "ReportCallback")
    # Older Rays replace no part of a group, and have no class for it.
    _Base = type("_Base", tuple(getattr(of_ray, each) for each in _KINDS if hasattr(of_ray, each)), {})


class ControllerStep:
    """One of the things that are done during a run, in Ray Train's controller. Does nothing by itself."""

    def before_group_start(self, size: int) -> None:
        """Acts before the processes of a group of this many ranks start."""

    def before_training_context(self, workers: Sequence[RayWorker]) -> None:
        """Runs when the workers' processes run; they are a group's, or replace some of its."""

    def started(self, part: ExecutionGroup, group: WorkerGroup) -> None:
        """Runs when the workers of `part` have started: the entire `group`, or those that have taken the place of some
        of its.

        They train once all steps have returned.
        """
        if part is group:
            self.after_group_start(group)

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        """Runs when an entire group has formed: for steps that new workers of a group do not concern."""

    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        """Runs when all ranks have answered a poll, several times a second."""

    def after_report(self, report: TrainingReport, metrics: Metrics) -> None:
        """Runs when all ranks have reported, and their checkpoint is committed; `metrics` are rank 0's."""

    def after_state(self, name: str) -> None:
        """Runs when the controller is in another state, of this name."""

    def after_finish(self) -> None:
        """Runs when the last group is gone."""


class StepsCallback(_Base):  # type: ignore[misc]
    """Calls its steps in their order."""

    def __init__(self, steps: Sequence[ControllerStep]) -> None:
        self._steps = tuple(steps)
        self._group: Optional[WorkerGroup] = None  # the last one that has started
        self._first: list[RayWorker] = []  # with which it started

    def before_worker_group_start(self, worker_group_context: GroupContext) -> None:
        for step in self._steps:
            step.before_group_start(worker_group_context.num_workers)

    def before_init_train_context(self, workers: list[RayWorker]) -> dict[str, list[object]]:
        for step in self._steps:
            step.before_training_context(workers)
        return {}

    def after_worker_group_start(self, worker_group: WorkerGroup) -> None:
        """Lets Ray free what the group holds if a step ends its start: by itself it would forget the group.

        Ray does so only if the start fails before the group has a state.
        """
        self._group = worker_group
        self._first = list(worker_group.get_workers())
        try:
            for step in self._steps:
                step.started(worker_group, worker_group)
        except Exception:
            worker_group._worker_group_state = None
            raise

    def after_replica_group_start(self, replica_group: ExecutionGroup) -> None:
        """Skips what Ray also calls this for: each part of a group that has just started as a whole."""
        first = {id(worker) for worker in self._first}
        if self._group is None or all(id(worker) in first for worker in replica_group.get_workers()):
            return
        for step in self._steps:
            step.started(replica_group, self._group)

    def after_worker_group_poll_status(self, worker_group_status: GroupStatus) -> None:
        """Hands on each poll; one before any group has started has nothing for the steps."""
        if self._group is not None:
            for step in self._steps:
                step.after_poll(worker_group_status, self._group)

    def after_report(self, training_report: TrainingReport, metrics: list[Metrics]) -> None:
        of_rank_0 = (metrics[0] if metrics else training_report.metrics) or {}
        for step in self._steps:
            step.after_report(training_report, of_rank_0)

    def after_controller_state_update(self, previous_state: object, current_state: Any) -> None:
        for step in self._steps:
            step.after_state(current_state._state_type.state_name)

    def after_controller_finish(self, result: object) -> None:
        for step in self._steps:
            step.after_finish()
