"""The worker group of one fit(): its processes and how far it is, for the steps and the policies of its controller.

Ray pickles the callback and each policy into its controller one by one. There, as in any other process, all copies of
one run's group are one object, so that the policies see what the steps have noted.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Generic, Optional, Tuple, TypeVar

from railhead.contract.callbacks import ignore
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import ExecutionGroup, Metadata, RayWorker, WorkerGroup
from railhead.driver.storage.run_folder_files import RunFolder

T = TypeVar("T")
_TASK = re.compile(r"\(pid=(\d+), ip=([^,)\s]+)")


class Group(ControllerStep):
    """The current worker group; as a step it notes who is in it.

    Attributes:
        worker_group: Ray's, None before the first one has formed.
        commits: checkpoints committed in this fit().
        reports: how many of this group have arrived.
        reports_before_end: how many of this group had begun when the ranks were notified of the end; None before that.
        folder: the run's.
        check_fence: raises when the run belongs to another; with `folder`.
        repeated_name: of the last checkpoint that was reported under the name of a kept one; empty if there was none.
        trained: the nodes, by Ray's ids, from which a report came.
    """

    def __init__(self, run: str = "", worker_group: Optional[WorkerGroup] = None) -> None:
        self._run = run
        self.worker_group = worker_group
        self.commits = 0
        self.reports = 0
        self.reports_before_end: Optional[int] = None
        self.folder: Optional[RunFolder] = None
        self.check_fence: Callable[[], None] = ignore
        self.repeated_name = ""
        self.trained: set[str] = set()
        self._processes: Mapping[int, Metadata] = {}

    def __reduce__(self) -> Tuple[Callable[[str], Group], Tuple[str]]:
        return get_group, (self._run,)

    def before_training_context(self, workers: Sequence[RayWorker]) -> None:
        """Notes the workers already here, so that a failure while they form their process group is blamed on them."""
        with contextlib.suppress(Exception):
            self.note_workers(workers)

    def started(self, part: ExecutionGroup, group: WorkerGroup) -> None:
        """Notes all ranks again: of a part, only those that are new were known."""
        if part is group:
            self.worker_group = group
            self.reports = 0
        self.read_processes()

    def read_processes(self) -> Mapping[int, Metadata]:
        """Returns them by rank. Ray may have replaced workers since the start; the last known after a shutdown."""
        if self.worker_group is not None:
            # Ray raises ValueError for a group that is not active.
            with contextlib.suppress(ValueError):
                self.note_workers(self.worker_group.get_workers())
        return self._processes

    def note_workers(self, workers: Iterable[RayWorker]) -> None:
        """Notes the workers in the order of their ranks; they may not train yet."""
        self._processes = {rank: worker.metadata for rank, worker in enumerate(workers)}

    def note_report(self) -> None:
        """Notes that all ranks have reported, so they train."""
        self.reports += 1
        self.trained.update(process.node_id for process in self.read_processes().values())

    def find_rank(self, text: str) -> int:
        """Returns the rank in whose process Ray's tasks of this traceback ran; -1 if there is none."""
        ranks = {(each.pid, each.node_ip): rank for rank, each in self._processes.items()}
        found = (ranks.get((int(pid), address), -1) for pid, address in _TASK.findall(text))
        return next((rank for rank in found if rank >= 0), -1)

    def has_trained(self, rank: int) -> bool:
        """Returns whether a rank of this fit() has trained on its node."""
        process = self._processes.get(rank)
        return process is not None and process.node_id in self.trained


@functools.cache
def get_group(run: str) -> Group:
    """Returns the one group that this process has for the run of this URI."""
    return Group(run)


@dataclass(frozen=True)
class RankAnswer(Generic[T]):
    """A rank's answer: `value`, or the `error` that Ray raised; neither if the process did not respond in time."""

    value: Optional[T] = None
    error: Optional[Exception] = None


def call_ranks(
    group: ExecutionGroup,
    ranks: Iterable[int],
    function: Callable[..., T],
    *,
    each: Mapping[int, Tuple[object, ...]] = {},
    timeout: float,
) -> dict[int, RankAnswer[T]]:
    """Calls a function in the processes of these ranks, and returns each rank's answer.

    Waits `timeout` seconds for all of them together; `each`: rank -> its own arguments.
    """
    import ray

    references = {rank: group.execute_single_async(rank, function, *each.get(rank, ())) for rank in ranks}
    if not references:
        return {}
    ready, _ = ray.wait(list(references.values()), num_returns=len(references), timeout=timeout)
    answered = set(ready)

    def read(reference: object) -> RankAnswer[T]:
        if reference not in answered:
            return RankAnswer()
        try:
            return RankAnswer(ray.get(reference))
        except Exception as error:
            # The process of this rank has exited, so there is no answer.
            return RankAnswer(error=error)

    return {rank: read(reference) for rank, reference in references.items()}
