"""What Ray Train's controller asks the ranks: how far they are, who has returned, where they hang; and that it tells
them that the run ends.

Every few seconds a thread asks all ranks for their steps. No rank waits for another one, as in `report`, and the
answers enter neither Ray's metrics nor its snapshot. All else is done at each poll of the ranks.

A rank succeeds only if it reports so. Ray Train treats a thread that ended without an error as a success, so each rank
whose thread has ended is asked whether its function returned. An error that Ray missed is written to the status that
it is about to read, so that it is handled like any other error of a rank.

Ray's workers answer while train_func hangs, since that runs in its own thread; not while native code holds the GIL.

The notice of the end is the one that Ray's own watcher sends when a node drains, so that
`ray.train.get_preemption_info()` returns it on every rank, with all ranks in it. It does not drain the nodes: Ray
would start no tasks there any more, so that a function that reads from Ray Data might never get as far as its
checkpoint. So no watcher has to run either.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Optional

from railhead.contract import environment
from railhead.contract.report import SlowRank, Steps
from railhead.contract.text import now_text
from railhead.driver.describe import describe_exception, log, never_raises
from railhead.driver.errors import Kind, TrainingError
from railhead.driver.rank.run import RAISED, RETURNED, RankEnd, read_end
from railhead.driver.rank.steps import Beat, read_beat
from railhead.driver.ray.callback import Step
from railhead.driver.ray.context import notify_ranks
from railhead.driver.ray.types import ExecutionGroup, GroupStatus, Worker, WorkerGroup
from railhead.driver.reporting.heartbeat import MOST_GPUS, NO_UPLOADS, GpuUse, Heartbeat
from railhead.driver.reporting.mailbox import Box, FromController, Hang, Mailbox, Stack
from railhead.driver.train_controller.group import Group, RankAnswer, call_ranks
from railhead.driver.train_controller.slow_ranks import SlowRankWatch

RETURN_TIMEOUT_SECONDS = 30.0  # the processes have just answered Ray's own poll
STACKS_TIMEOUT_SECONDS = 10.0
NOTICE_TIMEOUT_SECONDS = 5.0  # that the notice waits for rank 0, whose process has just answered Ray's own poll
HEARTBEAT_SECONDS = 10.0
HEARTBEAT_TIMEOUT_SECONDS = 5.0
GPUS_SECONDS = 30.0  # for which numbers of GPUs count
RATE_SECONDS = 120.0  # over which rates are measured
LIMIT_CHARS = 12_000  # per rank
TRAINING_THREAD = "TrainingThread"  # Ray Train's name for it
NO_BEAT = Beat()
_REMEDY = "check the last lines of its pod's log, and look for code that ends threads or intercepts their exceptions"
_NOT_OF_INTEREST = {"ray", "threading", "queue"}  # skips threads with no other frames
_PACKAGES = ("site-packages", "dist-packages")


class ReturnsStep(Step):
    """Asks each rank once, when its thread has ended.

    The driver accepts a success only when all ranks of the last group have reported that they returned. While the run
    ends, one that returned after it had read the notice of it counts as stopped, not as successful: the next
    attempt resumes from its checkpoint.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._returned: dict[int, Worker] = {}  # rank -> the worker that reported it: a rank may get a new one
        self._has_stopped = False

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._returned, self._has_stopped = {}, False
        self._mailbox.controller.change(lambda value: replace(value, has_returned=False))

    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        """Raises what the mailbox raises: a run whose success cannot be recorded has not succeeded."""
        statuses, workers = status.worker_statuses, group.get_workers()
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
        if len(self._returned) < len(statuses):
            return
        if self._has_stopped and self._mailbox.driver.read().end is not None:
            log("the training function stopped because the run ends: not a success")
        else:
            self._mailbox.controller.change(lambda value: replace(value, has_returned=True))


class StacksStep(Step):
    """Collects the ranks' stacks when they are requested; a hang becomes an error of the group."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    def after_group_start(self, worker_group: WorkerGroup) -> None:
        self._take_hang()  # of the previous group, which failed otherwise meanwhile

    @never_raises("collect the ranks' stacks")
    def after_poll(self, status: GroupStatus, group: WorkerGroup) -> None:
        self._mailbox.answer_requests(lambda: collect_stacks(group))
        hang = self._take_hang()
        if hang and not status.finished:
            kind = Kind.STEPLESS if hang.is_of_steps else Kind.STUCK
            status.worker_statuses[0].error = TrainingError(kind, hang.rank, hang.message)

    def _take_hang(self) -> Optional[Hang]:
        """Returns it once."""
        hang, box = self._mailbox.driver.read().hang, self._mailbox.controller
        if hang is None or hang.number <= box.read().hangs_taken:
            return None
        box.change(lambda value: replace(value, hangs_taken=hang.number))
        return hang


class EndNoticeStep(Step):
    """Notifies all ranks that the run is about to end: after SIGTERM to the head pod, which the driver announces.

    First asks rank 0 how many reports it has begun: only a later one is the last (`head.wait_for_commit`).
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


def find_error(rank: int, answer: RankAnswer[RankEnd]) -> Optional[Exception]:
    """Returns the error of a rank whose thread has ended; None when its function returned."""
    if answer.error is not None:
        return answer.error
    end = answer.value
    if end is None:
        return TrainingError(Kind.SILENT, rank, f"its thread ended, and its process does not report how; {_REMEDY}")
    if end.stage == RETURNED:
        return None
    if end.stage == RAISED and end.error is not None:
        return end.error
    pod = f" (pod {end.pod})" if end.pod else ""
    text = f"its thread ended{pod}, but the training function ({end.stage}) neither returned nor raised; {_REMEDY}"
    return TrainingError(Kind.SILENT, rank, text)


def collect_stacks(worker_group: ExecutionGroup) -> list[Stack]:
    """Returns that of each rank."""
    ranks = range(len(worker_group.get_workers()))
    answers = call_ranks(worker_group, ranks, read_stacks, timeout=STACKS_TIMEOUT_SECONDS)
    return [_read_answer(rank, answer) for rank, answer in answers.items()]


def _read_answer(rank: int, answer: RankAnswer[Stack]) -> Stack:
    if answer.error:
        return Stack(rank, text=describe_exception(answer.error))
    return replace(answer.value or Stack(rank), rank=rank)


def read_stacks() -> Stack:
    """Returns, on a worker, its pod, where train_func is, and the stacks of its threads, the training one first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}
    ranked = sorted(frames, key=lambda ident: not names.get(ident, "").startswith(TRAINING_THREAD))
    texts, place = [], ""
    for ident in ranked:
        stack = traceback.extract_stack(frames[ident])
        name = names.get(ident, "unnamed thread")
        if not place and name.startswith(TRAINING_THREAD):
            place = find_place(stack)
        elif {find_package(frame.filename) for frame in stack} <= _NOT_OF_INTEREST:
            continue
        texts.append(f"{name}\n" + "".join(traceback.format_list(stack)))
    text = "\n".join(texts)[:LIMIT_CHARS]
    return Stack(-1, os.environ.get(environment.POD_NAME, ""), _add_report(place), text)


def _add_report(place: str) -> str:
    """Says in which call of ray.train.report the rank waits for the others, or how many it made before it returned."""
    beat = read_beat()
    if read_end().stage == RETURNED:
        return f"no longer in train_func, which has returned after {beat.reports} calls of ray.train.report"
    if place and beat.open_reports:
        return f"{place}, in call {beat.reports} of ray.train.report"
    return place or "outside train_func"


def find_place(stack: Sequence[traceback.FrameSummary]) -> str:
    """Returns the innermost line of the user's own code, and the package that it called."""
    inner = ""
    for frame in reversed(stack):
        package = find_package(frame.filename)
        if package is None:
            place = f"at {PurePath(frame.filename).name}:{frame.lineno} in {frame.name}"
            return f"{place}, inside {inner}" if inner else place
        inner = package
    return ""


def find_package(file: str) -> Optional[str]:
    """Returns the package that a file belongs to; None for the user's own code."""
    parts = PurePath(file).parts
    for folder in _PACKAGES:
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py")
    if ".pyz" in file:
        return "railhead"
    if file.startswith("<") or file.startswith(sysconfig.get_paths()["stdlib"]):
        return PurePath(file).stem
    return None


def watch_steps(group: Group, worker_group: WorkerGroup, box: Box[FromController]) -> None:
    """Starts the thread, which ends with the group."""
    box.change(lambda value: replace(value, heartbeat=None))  # of the group before
    threading.Thread(target=_ask, args=(group, worker_group, box), name="railhead-heartbeat", daemon=True).start()


def _ask(group: Group, worker_group: WorkerGroup, box: Box[FromController]) -> None:
    pulse, slow_ranks = Pulse(), SlowRankWatch()
    ranks = range(len(worker_group.get_workers()))
    while True:
        time.sleep(HEARTBEAT_SECONDS)
        try:
            answers = call_ranks(worker_group, ranks, read_beat, timeout=HEARTBEAT_TIMEOUT_SECONDS)
        except Exception:  # the group is not active any more
            return
        if group.worker_group is not worker_group:
            return
        beat = pulse.add(answers)
        if beat is not None:
            slow = name_pods(group, slow_ranks.look(pulse.beats, now=time.monotonic(), time=now_text()))
            box.change(functools.partial(replace, heartbeat=replace(beat, slow_ranks=slow)))


def name_pods(group: Group, found: Sequence[SlowRank]) -> tuple[SlowRank, ...]:
    """Adds each rank's pod."""
    processes = group.read_processes() if found else {}
    return tuple(replace(each, pod=processes[each.rank].hostname) for each in found if each.rank in processes)


class Pulse:
    """Merges the answers of one group. Pure.

    Attributes:
        beats: the last answer of each rank.
    """

    def __init__(self) -> None:
        self._number = 0
        self.beats: dict[int, Beat] = {}
        self._firsts: deque[Beat] = deque()  # of rank 0, those of the last RATE_SECONDS

    def add(self, answers: Mapping[int, RankAnswer[Beat]]) -> Optional[Heartbeat]:
        """A rank that does not answer is where it was; None while no rank has answered at all."""
        fresh = {rank: answer.value for rank, answer in answers.items() if isinstance(answer.value, Beat)}
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


def _are_uploading(beats: Collection[Beat]) -> bool:
    """Whether all ranks are in a report, and one uploads: reports that only wait for each other are no reason."""
    return bool(beats) and all(beat.open_reports for beat in beats) and any(beat.open_uploads for beat in beats)


def _list_gpus(beats: Mapping[int, Beat]) -> tuple[GpuUse, ...]:
    """Without those of a rank where NVML has not answered for long: its numbers are old."""
    current = {rank: beat for rank, beat in beats.items() if beat.clock - beat.gpus_clock < GPUS_SECONDS}
    found = (replace(gpu, rank=rank) for rank, beat in sorted(current.items()) for gpu in beat.gpus)
    return tuple(itertools.islice(found, MOST_GPUS))


def _rate(begin: Optional[int], end: Optional[int], seconds: float) -> str:
    """Per second, a decimal number; empty while it is not known, or if the count went backwards."""
    if not end or begin is None or seconds <= 0 or end < begin:
        return ""
    rate = (end - begin) / seconds
    digits = 0 if rate >= 1000 else 2 if rate >= 10 else 5
    return f"{rate:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{rate:.0f}"
