"""Waits for the processes of the group before.

Ray kills a group's processes and starts the next one in the same pods without waiting for their end,
and a process that a rank has started, such as a DataLoader's, may hold its GPU for longer. Ray puts each
rank and what it starts into a process group of its own (see `pod.ray_start`), by which they are found.
"""

from __future__ import annotations

from railhead.contract.failure import PROCESS_NOT_ENDING, Failure, FailureClass
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.rank.pod_checks import END_PATIENCE_SECONDS, end_processes
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import ExecutionGroup, WorkerGroup
from railhead.driver.train_controller.worker_group import call_ranks

END_TIMEOUT_SECONDS = END_PATIENCE_SECONDS + 30.0


class OldProcessesStep(ControllerStep):
    """Gives up the pod in which a process of the previous group does not end: it is not usable any more."""

    def __init__(self) -> None:
        self._old: dict[str, tuple[int, ...]] = {}  # Ray's node id -> process ids of the last group that was there

    def started(self, part: ExecutionGroup, group: WorkerGroup) -> None:
        """Ends the processes on the nodes of the workers that have started, but for those of the `group`.

        Raises AttemptFailed. Ray's error for a worker that dies meanwhile appears at the next poll.
        """
        now = list_processes(group)
        workers = part.get_workers()
        rank_of_node = {worker.metadata.node_id: rank for rank, worker in enumerate(workers)}
        left = {
            rank: tuple(pid for pid in self._old.get(node, ()) if pid not in now.get(node, ()))
            for node, rank in rank_of_node.items()
        }
        old = {rank: (pids,) for rank, pids in left.items() if pids}
        self._old.update(now)
        if old:
            answers = call_ranks(part, old, end_processes, each=old, timeout=END_TIMEOUT_SECONDS)
        else:
            answers = {}
        for rank, answer in answers.items():
            if answer.value:
                pod = workers[rank].metadata.hostname
                raise AttemptFailed(Failure(FailureClass.HARDWARE, PROCESS_NOT_ENDING, answer.value, suspect_pod=pod))


def list_processes(group: ExecutionGroup) -> dict[str, tuple[int, ...]]:
    """Returns the process ids of the ranks by Ray's id of their node."""
    found: dict[str, tuple[int, ...]] = {}
    for worker in group.get_workers():
        node = worker.metadata.node_id
        found[node] = (*found.get(node, ()), worker.metadata.pid)
    return found
