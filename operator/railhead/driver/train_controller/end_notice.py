"""Notifies all ranks that the run is about to end, in Ray Train's controller: after SIGTERM to the head pod.

Sends what Ray's own watcher sends when a node drains, so that `ray.train.get_preemption_info()` returns it on
every rank, with all ranks in it. Does not drain the nodes: Ray would start no tasks there any more, so that a
function that reads from Ray Data might never get as far as its checkpoint. So no watcher has to run either.
First asks rank 0 how many reports it has begun: only a later one is the last (`reporting.last_commit`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerGroupCallback

from railhead.contract import environment as e
from railhead.driver.rank.uploads import count_reports
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller import group
from railhead.driver.train_controller.callback import never_raises
from railhead.driver.train_controller.workers import call_ranks

ANSWER_TIMEOUT = 5.0  # seconds that the notice waits for rank 0, whose process has just answered Ray's own poll


class EndNoticeCallback(WorkerGroupCallback):  # type: ignore[misc]
    """Checks for the driver's announcement at each poll of the workers."""

    def __init__(self) -> None:
        self._spool = Spool(Path(os.environ[e.TEMP]))
        self._group: Any = None
        self._has_notified = False

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._group = worker_group

    @never_raises
    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:
        deadline = None if self._has_notified else self._spool.read_end()
        if deadline is None:
            return
        begun = call_ranks(self._group, [0], count_reports, timeout=ANSWER_TIMEOUT)[0].value
        group.CURRENT.reports_before_end = begun or 0
        notify_ranks(self._group.get_workers(), deadline=deadline)
        self._has_notified = True


def notify_ranks(workers: list[Any], *, deadline: float) -> None:
    """`deadline`: in seconds of the epoch. Waits for no answer."""
    try:
        from ray.train.v2.api.preemption import PreemptionInfo
    except ImportError:
        print("railhead: this Ray cannot notify the ranks that the run ends (Ray 2.58 or newer can)", flush=True)
        return
    ranks_of_nodes: dict[str, list[int]] = {}
    for rank, worker in enumerate(workers):
        ranks_of_nodes.setdefault(worker.metadata.node_id, []).append(rank)
    info = PreemptionInfo(deadline_ms=int(deadline * 1000), preempted_node_to_ranks=ranks_of_nodes)
    for worker in workers:
        worker.actor.mark_preempt.remote(info)
    print(f"railhead: notified {len(workers)} ranks that the run ends (ray.train.get_preemption_info)", flush=True)
