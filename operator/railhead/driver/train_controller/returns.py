"""A rank succeeds only if it reports so: asks each rank whose thread has ended whether its function returned.

Ray Train treats a thread that ended without an error as a success. An error that it missed is written
to the status that it is about to read, so that it is handled like any other error of a rank. The
driver accepts a success only when all ranks of the last group have reported that they returned. While the
run ends, one that returned after it had read the notice of it counts as stopped, not as successful: the next
attempt resumes from its checkpoint.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.errors import NotReturned
from railhead.driver.rank.run import RAISED, RETURNED, RankEnd, read_end
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller.workers import Answer, call_ranks

ANSWER_TIMEOUT = 30.0  # seconds; the processes have just answered Ray's own poll
_REMEDY = "check the last lines of its pod's log, and look for code that ends threads or intercepts their exceptions"


class ReturnsCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Asks each rank once, when its thread has ended."""

    def __init__(self) -> None:
        self._spool = Spool(Path(os.environ[e.TEMP]))
        self._group: Any = None
        self._returned: dict[int, Any] = {}  # rank -> the worker that reported it: a rank may get a new one
        self._has_stopped = False

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._group, self._returned, self._has_stopped = worker_group, {}, False
        self._spool.forget_returned()

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        """Raises what the spool raises: a run whose success cannot be recorded has not succeeded."""
        statuses = worker_group_status.worker_statuses
        workers = self._group.get_workers()
        self._returned = {rank: each for rank, each in self._returned.items() if each is workers[rank]}
        ended = [rank for rank, each in statuses.items() if not each.running and each.error is None]
        new = [rank for rank in ended if rank not in self._returned]
        if not new:
            return
        for rank, answer in call_ranks(self._group, new, read_end, timeout=ANSWER_TIMEOUT).items():
            statuses[rank].error = find_error(rank, answer)
            if statuses[rank].error is None:
                self._returned[rank] = workers[rank]
                self._has_stopped |= answer.value.has_read_notice
        if len(self._returned) < len(statuses):
            return
        if self._has_stopped and self._spool.read_end() is not None:
            print("railhead: the training function stopped because the run ends: not a success", flush=True)
        else:
            self._spool.write_returned(len(statuses))


def find_error(rank: int, answer: Answer) -> Optional[Exception]:
    """None when the function returned."""
    if answer.error is not None:
        return answer.error
    end: Optional[RankEnd] = answer.value
    if end is None:
        return NotReturned(rank, f"its thread ended, and its process does not report how; {_REMEDY}")
    if end.stage == RETURNED:
        return None
    if end.stage == RAISED and end.error is not None:
        return end.error
    pod = f" (pod {end.pod})" if end.pod else ""
    text = f"its thread ended{pod}, but the training function ({end.stage}) neither returned nor raised; {_REMEDY}"
    return NotReturned(rank, text)
