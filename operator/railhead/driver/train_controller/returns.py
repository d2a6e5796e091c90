"""A rank has succeeded when it says so: each one whose thread has ended is asked whether its function returned.

Ray Train takes a thread that ended without an error for a success. What it has lost is put into
the status that it is about to read, so that it takes the way of every other error of a rank. The
driver believes in a success only when all ranks of the last group have said that they returned.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Optional

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.errors import NotReturned
from railhead.driver.rank.run import RAISED, RETURNED, RankEnd, read_end
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller.workers import Answer, collect_stacks

ANSWER_TIMEOUT = 30.0  # seconds; the processes have just answered Ray's own question
_REMEDY = "look at its last lines in the log of its pod, and for code that ends threads or takes over their exceptions"


class ReturnsCallback(WorkerGroupCallback):  # type: ignore[misc]
    """One question to each rank, when its thread has ended."""

    def __init__(self) -> None:
        self._spool = Spool(Path(os.environ[e.TEMP]))
        self._group: Any = None
        self._returned: dict[int, Any] = {}  # rank -> the worker that has said so: a rank may be given a new one

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._group, self._returned = worker_group, {}
        self._spool.forget_returned()

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        """Raises what the spool raises: a run whose success cannot be told has not succeeded."""
        statuses = worker_group_status.worker_statuses
        workers = self._group.get_workers()
        self._returned = {rank: each for rank, each in self._returned.items() if each is workers[rank]}
        ended = [rank for rank, each in statuses.items() if not each.running and each.error is None]
        new = [rank for rank in ended if rank not in self._returned]
        if not new:
            return
        for rank, answer in collect_stacks(self._group, new, read_end, timeout=ANSWER_TIMEOUT).items():
            statuses[rank].error = find_error(rank, answer)
            if statuses[rank].error is None:
                self._returned[rank] = workers[rank]
        if len(self._returned) == len(statuses):
            self._spool.write_returned(len(statuses))


def find_error(rank: int, answer: Answer) -> Optional[Exception]:
    """None when the function returned."""
    if answer.error is not None:
        return answer.error
    end: Optional[RankEnd] = answer.value
    if end is None:
        return NotReturned(rank, f"its thread ended, and its process does not say how; {_REMEDY}", time.time())
    if end.stage == RETURNED:
        return None
    if end.stage == RAISED and end.error is not None:
        return end.error
    pod = f" (pod {end.pod})" if end.pod else ""
    told = f"its thread ended{pod}, and the training function, {end.stage}, neither returned nor raised; {_REMEDY}"
    return NotReturned(rank, told, time.time())
