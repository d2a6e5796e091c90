"""Asks all ranks how far they are, every few seconds, in a thread.

No rank waits for another one, as in `report`, and the answers enter neither Ray's metrics nor its snapshot. All else is
done at each poll of the ranks.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Optional

from railhead.contract.report import SlowRank, Steps
from railhead.contract.times import now_text
from railhead.driver.mailbox.heartbeat import MOST_GPUS, MOST_RANKS, NO_STEP, NO_UPLOADS, GpuUse, Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.rank.steps import RankProgress, exchange_beat
from railhead.driver.ray.types import WorkerGroup
from railhead.driver.train_controller.slow_rank_watch import SlowRankWatch
from railhead.driver.train_controller.worker_group import Group, RankAnswer, call_ranks

HEARTBEAT_SECONDS = 10.0
HEARTBEAT_TIMEOUT_SECONDS = 5.0
GPUS_SECONDS = 30.0  # for which numbers of GPUs count
RATE_SECONDS = 120.0  # over which rates are measured
NO_BEAT = RankProgress()


def watch_steps(group: Group, worker_group: WorkerGroup, mailbox: Mailbox) -> None:
    """Starts the thread, which ends with the group."""
    mailbox.controller.change(partial(replace, heartbeat=None))  # of the group before
    threading.Thread(target=_ask, args=(group, worker_group, mailbox), name="railhead-heartbeat", daemon=True).start()


def _ask(group: Group, worker_group: WorkerGroup, mailbox: Mailbox) -> None:
    pulse = HeartbeatMerger()
    slow_ranks = SlowRankWatch()
    ranks = range(len(worker_group.get_workers()))
    while True:
        time.sleep(HEARTBEAT_SECONDS)
        told = dict.fromkeys(ranks, (mailbox.driver.read().answer.losses,))
        try:
            answers = call_ranks(worker_group, ranks, exchange_beat, each=told, timeout=HEARTBEAT_TIMEOUT_SECONDS)
        except Exception:
            # The group is not active any more.
            return
        # The next group has a thread of its own; old answers would stand for its progress.
        if group.worker_group is not worker_group:
            return
        beat = pulse.add(answers)
        if beat is not None:
            slow = name_pods(group, slow_ranks.look(pulse.beats, now=time.monotonic(), time=now_text()))
            mailbox.controller.change(partial(replace, heartbeat=replace(beat, slow_ranks=slow)))
        link = find_link(pulse.beats)
        if link:
            mailbox.controller.change(partial(replace, tracker_url=link))


def name_pods(group: Group, found: Sequence[SlowRank]) -> tuple[SlowRank, ...]:
    """Adds each rank's pod."""
    processes = group.read_processes() if found else {}
    return tuple(replace(each, pod=processes[each.rank].hostname) for each in found if each.rank in processes)


def find_link(beats: Mapping[int, RankProgress]) -> str:
    """Returns where a tracker shows the run, by the first rank that knows; empty if none does."""
    return next((beat.tracker_url for _, beat in sorted(beats.items()) if beat.tracker_url), "")


class HeartbeatMerger:
    """Merges the answers of one group. Pure.

    Attributes:
        beats: the last answer of each rank.
    """

    def __init__(self) -> None:
        self._number = 0
        self.beats: dict[int, RankProgress] = {}
        self._firsts: deque[RankProgress] = deque()  # of rank 0, those of the last RATE_SECONDS

    def add(self, answers: Mapping[int, RankAnswer[RankProgress]]) -> Optional[Heartbeat]:
        """Returns the next heartbeat; None before any rank has answered. A rank without an answer is where it was."""
        fresh = {rank: answer.value for rank, answer in answers.items() if isinstance(answer.value, RankProgress)}
        self.beats.update(fresh)
        if not self.beats:
            return None
        if 0 in fresh:
            self._note_rank_0(fresh[0])
        self._number += 1
        beats = self.beats.values()
        return Heartbeat(
            number=self._number,
            alive=sum(beat.optimizer + beat.calls for beat in beats),
            most=max(max(beat.optimizer, beat.calls) for beat in beats),
            is_uploading=_are_uploading(fresh.values()),
            steps=self._measure(),
            gpus=_list_gpus(fresh),
            uploads=sum((beat.uploads for beat in beats), NO_UPLOADS),
            blocked=self.beats.get(0, NO_BEAT).blocked,
            stuck_save=next((beat.stuck_save for _, beat in sorted(self.beats.items()) if beat.stuck_save), ""),
            last_uploads=_count_last_uploads(beats),
            rank_steps=_list_steps(self.beats),
        )

    def _note_rank_0(self, beat: RankProgress) -> None:
        before = self._firsts[-1] if self._firsts else beat
        if (beat.step is None, beat.tokens is None) != (before.step is None, before.tokens is None):
            # Training code has just begun to call `progress`.
            self._firsts.clear()
        self._firsts.append(beat)
        while self._firsts[-1].clock - self._firsts[0].clock > RATE_SECONDS:
            self._firsts.popleft()

    def _measure(self) -> Steps:
        if not self._firsts:
            return Steps()
        first = self._firsts[0]
        last = self._firsts[-1]
        seconds = last.clock - first.clock
        # Training code does not call `progress`: the optimizer's steps count.
        if last.step is None:
            steps_per_second = _rate(first.optimizer, last.optimizer, seconds)
        else:
            steps_per_second = _rate(first.step, last.step, seconds)
        return Steps(last.step, last.total, steps_per_second, _rate(first.tokens, last.tokens, seconds))


def _are_uploading(beats: Collection[RankProgress]) -> bool:
    """Returns whether all ranks are in a report, and one uploads: reports that only wait for each other are no
    reason."""
    return bool(beats) and all(beat.open_reports for beat in beats) and any(beat.open_uploads for beat in beats)


def _count_last_uploads(beats: Collection[RankProgress]) -> int:
    """Counts the uploads for which Ray Train waits when the function has returned on all ranks."""
    if not all(beat.has_returned for beat in beats):
        return 0
    return sum(beat.open_uploads for beat in beats)


def _list_steps(beats: Mapping[int, RankProgress]) -> tuple[int, ...]:
    """Lists the step of each rank, by its last answer: without `progress` the steps of its optimizer in this group."""
    size = min(max(beats) + 1, MOST_RANKS)
    steps = [NO_STEP] * size
    for rank, beat in beats.items():
        if rank < size:
            steps[rank] = beat.optimizer if beat.step is None else beat.step
    return tuple(steps)


def _list_gpus(beats: Mapping[int, RankProgress]) -> tuple[GpuUse, ...]:
    """Lists the GPUs of all ranks, without those of a rank where NVML has not answered for long: its numbers are
    old."""
    current = {rank: beat for rank, beat in beats.items() if beat.clock - beat.gpus_clock < GPUS_SECONDS}
    found = (replace(gpu, rank=rank) for rank, beat in sorted(current.items()) for gpu in beat.gpus)
    return tuple(itertools.islice(found, MOST_GPUS))


def _rate(begin: Optional[int], end: Optional[int], seconds: float) -> str:
    """Returns how many per second, a decimal number; empty while it is not known, or if the count went backwards."""
    if not end or begin is None or seconds <= 0 or end < begin:
        return ""
    rate = (end - begin) / seconds
    if rate >= 1000:
        return f"{rate:.0f}"
    digits = 2 if rate >= 10 else 5
    return f"{rate:.{digits}f}".rstrip("0").rstrip(".")
