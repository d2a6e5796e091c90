"""Asks each rank whose thread has ended whether its function returned.

A rank succeeds only if it reports so. Ray Train treats a thread that ended without an error as a success. An error that
Ray missed is written to the status that it is about to read, so that it is handled like any other error of a rank.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Optional

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.log import log
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.rank.run_rank import RAISED, RETURNED, RankEnd, read_end
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import GroupStatus, RayWorker, WorkerGroup
from railhead.driver.train_controller.worker_group import RankAnswer, call_ranks

# The processes have just answered Ray's own poll.
RETURN_TIMEOUT_SECONDS = 30.0
_REMEDY = "check the last lines of its pod's log, and look for code that ends threads or intercepts their exceptions"


class ReturnsStep(ControllerStep):
    """Asks each rank once, when its thread has ended.

    The driver accepts a success only when all ranks of the last group have reported that they returned. While the run
    ends, one that returned after it had read the notice of it counts as stopped, not as successful: the next
    attempt resumes from its checkpoint.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._returned: dict[int, RayWorker] = {}  # rank -> the worker that reported it: a rank may get a new one
        self._has_stopped = False

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._returned = {}
        self._has_stopped = False
        self._mailbox.controller.change(partial(replace, has_returned=False))

    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        """Raises what the mailbox raises: a run whose success cannot be recorded has not succeeded."""
        statuses = status.worker_statuses
        workers = group.get_workers()
        self._returned = {rank: each for rank, each in self._returned.items() if each is workers[rank]}
        ended = [rank for rank, each in statuses.items() if not each.running and each.error is None]
        new = [rank for rank in ended if rank not in self._returned]
        if not new:
            return
        for rank, answer in call_ranks(group, new, read_end, timeout=RETURN_TIMEOUT_SECONDS).items():
            statuses[rank].error = find_error(rank, answer)
            if statuses[rank].error is None:
                self._returned[rank] = workers[rank]
                self._has_stopped |= bool(answer.value and answer.value.has_read_notice)
                self._note_link(answer.value)
        if len(self._returned) < len(statuses):
            return
        if self._has_stopped and self._mailbox.driver.read().end is not None:
            log("the training function stopped because the run ends: not a success")
        else:
            self._mailbox.controller.change(partial(replace, has_returned=True))

    def _note_link(self, end: Optional[RankEnd]) -> None:
        """Keeps the link of a run that is over before the first heartbeat; a later one has that of the first rank."""
        if end is not None and end.tracker_url and not self._mailbox.controller.read().tracker_url:
            self._mailbox.controller.change(partial(replace, tracker_url=end.tracker_url))


def find_error(rank: int, answer: RankAnswer[RankEnd]) -> Optional[Exception]:
    """Returns the error of a rank whose thread has ended; None when its function returned."""
    if answer.error is not None:
        return answer.error
    end = answer.value
    if end is None:
        return TrainingError(
            RankErrorKind.SILENT, rank, f"its thread ended, and its process does not report how; {_REMEDY}"
        )
    if end.stage == RETURNED:
        return None
    if end.stage == RAISED and end.error is not None:
        return end.error
    pod = f" (pod {end.pod})" if end.pod else ""
    text = f"its thread ended{pod}, but the training function ({end.stage}) neither returned nor raised; {_REMEDY}"
    return TrainingError(RankErrorKind.SILENT, rank, text)
