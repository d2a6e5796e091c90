"""Tells all ranks that the run is about to end.

The notice is the one that Ray's own watcher sends when a node drains, so that `ray.train.get_preemption_info()` returns
it on every rank, with all ranks in it. It does not drain the nodes: Ray would start no tasks there any more, so that a
function that reads from Ray Data might never get as far as its checkpoint. So no watcher has to run either.
"""

from __future__ import annotations

from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.log import never_raises
from railhead.driver.rank.steps import read_beat
from railhead.driver.ray.steps_callback import ControllerStep
from railhead.driver.ray.train_context import notify_ranks
from railhead.driver.ray.types import GroupStatus, WorkerGroup
from railhead.driver.train_controller.worker_group import Group, call_ranks

NOTICE_TIMEOUT_SECONDS = 5.0  # that the notice waits for rank 0, whose process has just answered Ray's own poll


class EndNoticeStep(ControllerStep):
    """Notifies all ranks that the run is about to end: after SIGTERM to the head pod, which the driver announces.

    First asks rank 0 how many reports it has begun: only a later one is the last (`run_head.wait_for_commit`).
    """

    def __init__(self, group: Group, mailbox: Mailbox) -> None:
        self._group = group
        self._mailbox = mailbox
        self._has_notified = False

    @never_raises("notify the ranks of the end")
    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        deadline = None if self._has_notified else self._mailbox.driver.read().end
        if deadline is None:
            return
        beat = call_ranks(group, [0], read_beat, timeout=NOTICE_TIMEOUT_SECONDS)[0].value
        self._group.reports_before_end = beat.reports if beat else 0
        notify_ranks(group.get_workers(), deadline=deadline)
        self._has_notified = True
