"""How the head reacts to SIGTERM, and how long it waits for the last commit."""

from __future__ import annotations

import queue
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from railhead.driver.head import run_head
from railhead.driver.head.run_head import receive_sigterm, wait_for_commit
from railhead.driver.mailbox.progress import Progress


def test_sigterm_cancels_rays_alarm() -> None:
    signals: queue.SimpleQueue[bool] = queue.SimpleQueue()
    try:
        signal.alarm(60)
        receive_sigterm(signals)
        assert signal.alarm(0) == 0, "the alarm is cancelled"
    finally:
        signal.alarm(0)
    assert signals.get_nowait()


TRAINING = Progress(state="RUNNING", commits=3)
EARLIER = replace(TRAINING, commits=4)  # reported before the notice, and committed after it
SAVED = replace(EARLIER, commits=5, has_last_commit=True)


class Run:
    """The states of a run, one per read; the last one stays."""

    def __init__(self, *states: Progress) -> None:
        self._states = list(states)
        self.seconds = 0.0

    def read(self) -> Progress:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def wait(self, seconds: float) -> bool:
        clock = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.seconds)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_head, "time", clock)
            return wait_for_commit(self.read, seconds=seconds)


def test_waits_for_the_commit_of_a_report_that_began_after_the_notice() -> None:
    run = Run(TRAINING, *[EARLIER] * 100, SAVED)
    assert run.wait(60)
    assert 10 <= run.seconds < 11


def test_an_upload_that_was_in_progress_is_not_the_last_checkpoint() -> None:
    run = Run(TRAINING, EARLIER)
    assert not run.wait(5)
    assert run.seconds >= 5


def test_waits_no_longer_than_allowed() -> None:
    run = Run(TRAINING)
    assert not run.wait(5)
    assert 5 <= run.seconds < 5.5


def test_does_not_wait_unless_a_group_trains() -> None:
    for state in ("STARTING", "SCHEDULING", "RESTARTING", "ERRORED"):
        run = Run(replace(TRAINING, state=state))
        assert not run.wait(60)
        assert run.seconds == 0


def test_stops_waiting_once_the_group_is_lost() -> None:
    run = Run(TRAINING, TRAINING, replace(TRAINING, state="RESTARTING"))
    assert not run.wait(60)
    assert run.seconds < 1


def test_keeps_waiting_when_the_run_finishes() -> None:
    """Its own ending is about to arrive, and takes precedence."""
    run = Run(TRAINING, replace(SAVED, state="FINISHED"))
    assert not run.wait(5)
    assert run.seconds >= 5


def test_does_not_wait_without_time() -> None:
    assert not Run(TRAINING).wait(0)
