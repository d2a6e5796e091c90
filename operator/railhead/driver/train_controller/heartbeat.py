"""Asks all ranks every few seconds how far they are, from a thread of Ray Train's controller.

No rank waits for another one, as in `report`, and what the ranks answer enters neither Ray's metrics nor its snapshot.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Mapping, Optional

from railhead.contract.report import Steps
from railhead.driver.rank.steps import Beat, read_beat
from railhead.driver.ray.types import WorkerGroup
from railhead.driver.reporting.heartbeat import Heartbeat
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller.group import Answer, Group, call_ranks

INTERVAL = 10.0  # seconds
ANSWER_TIMEOUT = 5.0
RATE_SECONDS = 120.0  # over which rates are measured


def watch_steps(group: Group, worker_group: WorkerGroup, spool: Spool) -> None:
    """Starts the thread, which ends with the group."""
    spool.forget_heartbeat()  # of the group before
    threading.Thread(target=_ask, args=(group, worker_group, spool), name="railhead-heartbeat", daemon=True).start()


def _ask(group: Group, worker_group: WorkerGroup, spool: Spool) -> None:
    pulse = Pulse()
    ranks = range(len(worker_group.get_workers()))
    while True:
        time.sleep(INTERVAL)
        try:
            answers = call_ranks(worker_group, ranks, read_beat, timeout=ANSWER_TIMEOUT)
        except Exception:  # the group is not active any more
            return
        if group.worker_group is not worker_group:
            return
        beat = pulse.add(answers)
        if beat is not None:
            spool.write_heartbeat(beat)


class Pulse:
    """Merges the answers of one group. Pure."""

    def __init__(self) -> None:
        self._number = 0
        self._beats: dict[int, Beat] = {}
        self._firsts: deque[Beat] = deque()  # of rank 0, those of the last RATE_SECONDS

    def add(self, answers: Mapping[int, Answer]) -> Optional[Heartbeat]:
        """A rank that does not answer is where it was; None while no rank has answered at all."""
        fresh = {rank: answer.value for rank, answer in answers.items() if isinstance(answer.value, Beat)}
        self._beats.update(fresh)
        if not self._beats:
            return None
        if 0 in fresh:
            self._note_rank_0(fresh[0])
        self._number += 1
        beats = self._beats.values()
        return Heartbeat(
            number=self._number,
            alive=sum(beat.optimizer + beat.calls for beat in beats),
            most=max(max(beat.optimizer, beat.calls) for beat in beats),
            is_reporting=bool(fresh) and all(beat.is_reporting for beat in fresh.values()),
            steps=self._measure(),
        )

    def _note_rank_0(self, beat: Beat) -> None:
        before = self._firsts[-1] if self._firsts else beat
        if (beat.step is None, beat.tokens is None) != (before.step is None, before.tokens is None):
            self._firsts.clear()  # training code has just begun to call `progress`
        self._firsts.append(beat)
        while self._firsts[-1].clock - self._firsts[0].clock > RATE_SECONDS:
            self._firsts.popleft()

    def _measure(self) -> Steps:
        if not self._firsts:
            return Steps()
        first, last = self._firsts[0], self._firsts[-1]
        begin, end = (first.optimizer, last.optimizer) if last.step is None else (first.step, last.step)
        seconds = last.clock - first.clock
        return Steps(last.step, last.total, _rate(begin, end, seconds), _rate(first.tokens, last.tokens, seconds))


def _rate(begin: Optional[int], end: Optional[int], seconds: float) -> str:
    """Per second, a decimal number; empty while it is not known, or if the count went backwards."""
    if not end or begin is None or seconds <= 0 or end < begin:
        return ""
    rate = (end - begin) / seconds
    digits = 0 if rate >= 1000 else 2 if rate >= 10 else 5
    return f"{rate:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{rate:.0f}"
