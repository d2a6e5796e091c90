"""Detects training that hangs: it reports nothing for spec.progressDeadlineSeconds, or no rank makes a step for long.

The first ends the attempt, the second is shown or, with spec.hangPolicy Restart, restarts the worker group.
train_func runs in a thread, so Ray's health checks do not notice when it hangs. Measured here, with a
monotonic clock: neither trouble between driver and operator nor a clock jump counts as a hang.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Callable, Optional

from railhead.contract.answer import RESTART_AT_HANG
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import NO_STEPS, RunWarning
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.stacks import (
    describe_stacks,
    find_lone_rank,
    group_ranks,
    is_debugged,
    name_ranks,
    wait_for_stacks,
)
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import Hang, Stack
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact
from railhead.driver.ray.pending_demand import describe_demand

REQUESTER = "driver"
LOOK_SECONDS = 0.5
LONGEST_LOOK_SECONDS = 5.0  # a driver that was suspended for longer saw no reports meanwhile, so no more counts
STACKS_SECONDS = 20.0
PLACES = 3  # how many a message names
ALIVE = (
    "A loop without optimizer steps, such as a long evaluation, shows that it is alive by "
    "railhead.training.progress(); spec.hangPolicy Restart restarts the ranks after twice the time"
)


FIRST_STEPS = 20  # of a group, among which compilers and caches may take any time
SHORTEST_WINDOW_SECONDS = 600.0  # without a step; they are never a hang
GAPS = 3.0  # the window is so many times the longest gap of the run
LONGEST_ROUND_SECONDS = 30.0  # after a pause of the head, no more counts


class HangDetector:
    """How long training has reported nothing. Pure: the caller passes the time."""

    def __init__(self) -> None:
        self._known: object = None
        self._looked_at = 0.0
        self._seconds = 0.0

    def count(self, progress: Progress, *, now: float) -> float:
        """Seconds since the last report of all ranks or since the worker group began to train; 0 while none trains."""
        news = None
        if progress.is_training:
            news = (progress.reports, progress.commits, progress.processes)
        if news is None or news != self._known:
            self._seconds = 0.0
        else:
            self._seconds += min(now - self._looked_at, LONGEST_LOOK_SECONDS)
        self._known = news
        self._looked_at = now
        return self._seconds


@dataclass(frozen=True)
class Suspicion:
    """Training seems to hang.

    Attributes:
        because: what was observed, with the field that the limit is from.
        advice: what to do if training is merely slow.
        reason: of the failure.
        is_final: the attempt, or the worker group, ends for it; else it is shown.
    """

    because: str
    advice: str
    reason: str
    is_final: bool


class HangWatch:
    """Looks at what Ray Train's controller has put into the mailbox: reports and the ranks' heartbeats."""

    def __init__(self, mailbox: Mailbox, publisher: Publisher) -> None:
        self._mailbox = mailbox
        self._publisher = publisher
        self._silence = HangDetector()
        self._steps = StepWatch()
        self._windows = 2  # without a step, after which spec.hangPolicy Restart applies

    def look(self) -> Optional[Suspicion]:
        """Returns a final suspicion, or the first one until there are steps again."""
        fit = self._mailbox.read_newest_fit()
        answer = self._publisher.answer
        now = time.monotonic()
        steps = self._steps
        steps.look(fit.heartbeat, fit.progress, now=now)
        seconds = self._silence.count(fit.progress, now=now)
        limit = answer.progress_deadline_seconds
        if limit is not None and seconds >= limit:
            because = f"training reported nothing for {limit:.0f} s (spec.progressDeadlineSeconds)"
            advice = "If training is merely slow, raise the limit; this takes effect on the running job"
            return Suspicion(because, advice, "ProgressDeadlineExceeded", is_final=True)
        if steps.idle < steps.window:
            self._publisher.forget_warning(NO_STEPS)
            return None
        is_final = answer.hang_policy == RESTART_AT_HANG and steps.idle >= self._windows * steps.window
        if not is_final and self._publisher.shows(NO_STEPS):
            return None
        return Suspicion(f"no rank made a step for {steps.idle:.0f} s (spec.hangPolicy)", ALIVE, NO_STEPS, is_final)

    def put_off(self) -> None:
        """Somebody looks at the ranks with a debugger."""
        self._windows += 1

    def begin_again(self) -> None:
        """The controller may look at the nodes for a while before it restarts the group."""
        self._silence = HangDetector()
        self._steps.accept()


def watch_for_hang(mailbox: Mailbox, publisher: Publisher, on_fatal: Callable[[Failure], None]) -> None:
    """Runs until a hang ends the attempt."""
    watch = HangWatch(mailbox, publisher)
    while True:
        time.sleep(LOOK_SECONDS)
        suspicion = watch.look()
        if suspicion is None:
            continue
        log(suspicion.because)
        stacks = wait_for_stacks(mailbox, REQUESTER, STACKS_SECONDS)
        if watch.look() is None:
            continue
        for line in describe_stacks(stacks):
            log(line)
        message = explain_hang(stacks, suspicion, describe_demand())
        odd = find_lone_rank(stacks or [])
        is_of_steps = suspicion.reason == NO_STEPS
        if not suspicion.is_final:
            publisher.warn(RunWarning(NO_STEPS, redact(message)))
        elif is_of_steps and is_debugged(stacks or []):
            watch.put_off()
        elif stacks is None or not _hand_over(mailbox, message, odd.rank if odd else -1, is_of_steps=is_of_steps):
            on_fatal(Failure(FailureClass.HANG, suspicion.reason, message, suspect_pod=odd.pod if odd else ""))
            return
        else:
            watch.begin_again()


def _hand_over(mailbox: Mailbox, message: str, rank: int, *, is_of_steps: bool) -> bool:
    """Whether Ray Train's controller takes the hang for a failure of the worker group: it may restart it in place."""
    number = mailbox.read_newest_fit().hangs_taken + 1
    mailbox.driver.change(partial(replace, hang=Hang(number, message, rank, is_of_steps)))
    until = time.monotonic() + STACKS_SECONDS
    while mailbox.read_newest_fit().hangs_taken < number:
        if time.monotonic() > until:
            mailbox.driver.change(partial(replace, hang=None))
            return mailbox.read_newest_fit().hangs_taken >= number
        time.sleep(0.1)
    return True


def explain_hang(stacks: Optional[list[Stack]], suspicion: Suspicion, demand: str = "") -> str:
    """Tells the status where the ranks are, the smallest group first, since the others are waiting for it.

    `demand` is what Ray waits to start, for which a rank may wait.
    """
    if stacks is None:
        return (
            f"{suspicion.because}, and Ray Train's controller does not respond; check for storage that does not "
            "respond and for run.callbacks that block"
        )
    ranked = group_ranks(stacks, attrgetter("place"))
    where = "; ".join(_describe(ranks, place) for place, ranks in ranked[:PLACES])
    more = f"; and {len(ranked) - PLACES} more places" if len(ranked) > PLACES else ""
    waits = ""
    if demand:
        waits = f". {demand}"
    return f"{suspicion.because}: {where}{more}{waits}. The stacks are in the head's log. {suspicion.advice}"


def _describe(ranks: list[Stack], place: str) -> str:
    is_one = len(ranks) == 1
    if not place:
        return f"{name_ranks(ranks)} {'does' if is_one else 'do'} not respond"
    return f"{name_ranks(ranks)} {'is' if is_one else 'are'} {place}"


class StepWatch:
    """For how long no rank has made a step, without reports and validations. The caller passes the time."""

    def __init__(self) -> None:
        self.idle = 0.0
        self._longest = 0.0
        self._known: tuple[object, ...] = ()
        self._number = -1
        self._at = 0.0

    @property
    def window(self) -> float:
        """Seconds without a step after which a hang is suspected."""
        return max(SHORTEST_WINDOW_SECONDS, GAPS * self._longest)

    def look(self, beat: Optional[Heartbeat], progress: Progress, *, now: float) -> None:
        """Counts a new round. Rounds that are missing say nothing of the ranks: Ray Train's controller is busy."""
        if beat is None or not progress.is_training or beat.most < FIRST_STEPS:
            self._known = ()
            self.idle = 0.0
            return
        if beat.number == self._number:
            return
        known = (progress.processes, beat.alive)
        if known == self._known:
            self.idle += 0.0 if beat.is_uploading else min(now - self._at, LONGEST_ROUND_SECONDS)
        else:
            self.accept()
        self._known = known
        self._number = beat.number
        self._at = now

    def accept(self) -> None:
        """The gap has ended, or a restart has ended it: a gap of this length is not suspected again."""
        self._longest = max(self._longest, self.idle)
        self.idle = 0.0
