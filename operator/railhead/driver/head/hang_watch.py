"""Detects training that hangs.

Either it reports nothing for spec.progressDeadlineSeconds, or no rank makes a step for long. The former ends the
attempt, the latter is shown or, with spec.hangPolicy Restart, restarts the worker group. train_func runs in a thread,
so Ray's health checks do not notice when it hangs. Measured here, with a monotonic clock: neither trouble between
driver and operator nor a clock jump counts as a hang.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Callable, Optional

from railhead.contract.answer import RESTART_AT_HANG
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import NO_STEPS, NOT_REPORTED, RunWarning
from railhead.contract.times import now_text
from railhead.driver.head import finish_watch
from railhead.driver.head.finish_watch import FinishWatch
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.stacks import (
    describe_stacks,
    find_lone_rank,
    group_ranks,
    is_debugged,
    name_ranks,
    wait_for_stacks,
)
from railhead.driver.head.step_watch import StepWatch
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.mailbox.values import FromController, Hang, Stack
from railhead.driver.messages.log import log
from railhead.driver.messages.redaction import redact
from railhead.driver.ray.pending_demand import describe_demand

REQUESTER = "driver"
LOOK_SECONDS = 0.5
# A driver that was suspended for longer saw no reports meanwhile, so no more than this counts.
LONGEST_LOOK_SECONDS = 5.0
STACKS_SECONDS = 20.0
HAND_OVER_LOOK_SECONDS = 0.1
PLACES = 3  # how many a message names
ALIVE = (
    "A loop without optimizer steps, such as a long evaluation, shows that it is alive by "
    "railhead.training.progress(); spec.hangPolicy Restart restarts the ranks after twice the time"
)


class HangDetector:
    """Counts how long training has reported nothing. Pure: the caller passes the time."""

    def __init__(self) -> None:
        self._known: object = None
        self._looked_at = 0.0
        self._seconds = 0.0

    def count(self, progress: Progress, *, now: float) -> float:
        """Returns the seconds since the last report of all ranks, or since the worker group began to train.

        They are 0 while no group trains.
        """
        news = (progress.reports, progress.commits, progress.processes)
        if not progress.is_training or news != self._known:
            self._seconds = 0.0
        else:
            self._seconds += min(now - self._looked_at, LONGEST_LOOK_SECONDS)
        self._known = news if progress.is_training else None
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
        is_finish: training is over, and Ray Train waits for something else.
    """

    because: str
    advice: str
    reason: str
    is_final: bool
    is_finish: bool = False


class HangWatch:
    """Suspects a hang by what Ray Train's controller has put into the mailbox: reports and the ranks' heartbeats."""

    def __init__(self, mailbox: Mailbox, publisher: Publisher) -> None:
        self._mailbox = mailbox
        self._publisher = publisher
        self._silence = HangDetector()
        self._steps = StepWatch()
        self._finish = FinishWatch()
        self._shown = ""
        self._windows = 2  # without a step, after which spec.hangPolicy Restart applies

    def find_suspicion(self) -> Optional[Suspicion]:
        """Returns a final suspicion, or one that is not shown yet; else None."""
        fit = self._mailbox.read_newest_fit()
        answer = self._publisher.answer
        now = time.monotonic()
        steps = self._steps
        steps.update(fit.heartbeat, fit.progress, now=now)
        seconds = self._silence.count(fit.progress, now=now)
        limit = answer.progress_deadline_seconds
        if limit is not None and seconds >= limit:
            because = f"training reported nothing for {limit:.0f} s (spec.progressDeadlineSeconds)"
            advice = "If training is merely slow, raise the limit; this takes effect on the running job"
            return Suspicion(because, advice, NOT_REPORTED, is_final=True)
        self._watch_finish(fit, now=now)
        may_restart = answer.hang_policy == RESTART_AT_HANG
        if self._finish.idle >= finish_watch.WINDOW_SECONDS:
            is_final = may_restart and self._finish.idle >= 2 * finish_watch.WINDOW_SECONDS
            suspicion = Suspicion(self._finish.text, finish_watch.ADVICE, NO_STEPS, is_final, is_finish=True)
        elif steps.idle >= steps.window and not self._finish.is_waiting:
            is_final = may_restart and steps.idle >= self._windows * steps.window
            because = f"no rank made a step for {steps.idle:.0f} s (spec.hangPolicy)"
            suspicion = Suspicion(because, ALIVE, NO_STEPS, is_final)
        else:
            self._publisher.forget_warning(NO_STEPS)
            return None
        if not suspicion.is_final and self._publisher.shows(NO_STEPS):
            return None
        return suspicion

    def _watch_finish(self, fit: FromController, *, now: float) -> None:
        """Shows what Ray Train still waits for after training."""
        self._finish.update(fit, now=now, time=now_text())
        if self._finish.text != self._shown:
            self._shown = self._finish.text
            self._publisher.update(partial(replace, finishing=self._shown))

    def pause_suspicion(self) -> None:
        """Waits for one window more, since the user has stopped a rank in a debugger."""
        self._windows += 1

    def begin_again(self) -> None:
        """Counts from 0: the controller may look at the nodes for a while before it restarts the group."""
        self._silence = HangDetector()
        self._finish = FinishWatch()
        self._steps.accept()


def watch_for_hang(mailbox: Mailbox, publisher: Publisher, on_fatal: Callable[[Failure], None]) -> None:
    """Runs until a hang ends the attempt."""
    watch = HangWatch(mailbox, publisher)
    while True:
        time.sleep(LOOK_SECONDS)
        suspicion = watch.find_suspicion()
        if suspicion is None:
            continue
        log(suspicion.because)
        stacks = wait_for_stacks(mailbox, REQUESTER, STACKS_SECONDS)
        # The ranks may have reported while their stacks were collected.
        if watch.find_suspicion() is None:
            continue
        for line in describe_stacks(stacks):
            log(line)
        message = explain_hang(stacks, suspicion, describe_demand())
        if not suspicion.is_final:
            publisher.warn(RunWarning(NO_STEPS, redact(message)))
        elif suspicion.reason == NO_STEPS and is_debugged(stacks or []):
            watch.pause_suspicion()
        elif stacks is not None and _hand_over(mailbox, stacks, suspicion, message):
            watch.begin_again()
        else:
            suspect = find_lone_rank(stacks or [])
            suspect_pod = suspect.pod if suspect else ""
            on_fatal(Failure(FailureClass.HANG, suspicion.reason, message, suspect_pod=suspect_pod))
            return


def _hand_over(mailbox: Mailbox, stacks: list[Stack], suspicion: Suspicion, message: str) -> bool:
    """Hands the hang to Ray Train's controller, which may restart the worker group in place; tells whether it took it.

    The controller takes a hang as a failure of the worker group.
    """
    suspect = find_lone_rank(stacks)
    rank = suspect.rank if suspect else -1
    number = mailbox.read_newest_fit().hangs_taken + 1
    hang = Hang(number, message, suspicion.reason, rank)
    mailbox.driver.change(partial(replace, hang=hang))
    until = time.monotonic() + STACKS_SECONDS
    while mailbox.read_newest_fit().hangs_taken < number:
        if time.monotonic() > until:
            mailbox.driver.change(partial(replace, hang=None))
            # The controller may have taken it at the last moment.
            return mailbox.read_newest_fit().hangs_taken >= number
        time.sleep(HAND_OVER_LOOK_SECONDS)
    return True


def explain_hang(stacks: Optional[list[Stack]], suspicion: Suspicion, demand: str = "") -> str:
    """Tells where the ranks are, the smallest group first, since the others are waiting for it.

    `demand` is what Ray waits to start, for which a rank may wait.
    """
    if suspicion.is_finish:
        return f"{suspicion.because} {suspicion.advice}"
    if stacks is None:
        return (
            f"{suspicion.because}, and Ray Train's controller does not respond; check for storage that does not "
            "respond and for run.callbacks that block"
        )
    groups = group_ranks(stacks, attrgetter("place"))
    where = "; ".join(_describe_group(ranks, place) for place, ranks in groups[:PLACES])
    more = ""
    if len(groups) > PLACES:
        more = f"; and {len(groups) - PLACES} more places"
    waits = ""
    if demand:
        waits = f". {demand}"
    return f"{suspicion.because}: {where}{more}{waits}. The stacks are in the head's log. {suspicion.advice}"


def _describe_group(ranks: list[Stack], place: str) -> str:
    is_one = len(ranks) == 1
    if not place:
        verb = "does" if is_one else "do"
        return f"{name_ranks(ranks)} {verb} not respond"
    verb = "is" if is_one else "are"
    return f"{name_ranks(ranks)} {verb} {place}"
