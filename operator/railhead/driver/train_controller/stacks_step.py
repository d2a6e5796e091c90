"""Collects the ranks' stacks when they are requested.

Ray's workers answer while train_func hangs, since that runs in its own thread; not while native code holds the GIL.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Optional

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import Hang, Stack
from railhead.driver.messages.attempt_errors import TrainingError
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import never_raises
from railhead.driver.messages.rank_errors import HANGS_BY_REASON
from railhead.driver.rank.rank_stacks import read_stacks
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.types import ExecutionGroup, GroupStatus, WorkerGroup
from railhead.driver.train_controller.worker_group import RankAnswer, call_ranks

STACKS_TIMEOUT_SECONDS = 10.0


class StacksStep(ControllerStep):
    """Collects the ranks' stacks when they are requested; a hang becomes an error of the group."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._take_hang()  # of the previous group, which failed otherwise meanwhile

    @never_raises("collect the ranks' stacks")
    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        self._mailbox.answer_requests(partial(collect_stacks, group))
        hang = self._take_hang()
        if hang and not status.finished:
            kind = HANGS_BY_REASON[hang.reason]
            # Ray knows errors of ranks only. Of this kind the policy takes the rank in the error, and not rank 0.
            status.worker_statuses[0].error = TrainingError(kind, hang.rank, hang.message)

    def _take_hang(self) -> Optional[Hang]:
        """Returns it once."""
        hang = self._mailbox.driver.read().hang
        box = self._mailbox.controller
        if hang is None or hang.number <= box.read().hangs_taken:
            return None
        box.change(partial(replace, hangs_taken=hang.number))
        return hang


def collect_stacks(worker_group: ExecutionGroup) -> list[Stack]:
    """Returns that of each rank."""
    ranks = range(len(worker_group.get_workers()))
    answers = call_ranks(worker_group, ranks, read_stacks, timeout=STACKS_TIMEOUT_SECONDS)
    return [_read_answer(rank, answer) for rank, answer in answers.items()]


def _read_answer(rank: int, answer: RankAnswer[Stack]) -> Stack:
    if answer.error:
        return Stack(rank, text=describe_exception(answer.error))
    return replace(answer.value or Stack(rank), rank=rank)
