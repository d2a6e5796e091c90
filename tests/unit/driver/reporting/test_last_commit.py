"""How long a driver that is asked to end waits."""

from __future__ import annotations

from dataclasses import replace

from railhead.driver.reporting.last_commit import wait_for_commit
from railhead.driver.reporting.progress import Progress

TRAINING = Progress(state="RUNNING", commits=3)


class Run:
    """The states of a run, one for each look; the last one stays."""

    def __init__(self, *states: Progress) -> None:
        self._states = list(states)
        self.seconds = 0.0

    def read(self) -> Progress:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def wait(self, seconds: float) -> bool:
        return wait_for_commit(self.read, seconds=seconds, sleep=self.sleep, monotonic=lambda: self.seconds)


def test_the_next_commit_is_waited_for() -> None:
    run = Run(TRAINING, TRAINING, TRAINING, replace(TRAINING, commits=4))
    assert run.wait(60)
    assert run.seconds < 1


def test_no_longer_than_allowed() -> None:
    run = Run(TRAINING)
    assert not run.wait(5)
    assert 5 <= run.seconds < 5.5


def test_without_a_group_that_trains_there_is_nothing_to_wait_for() -> None:
    for state in ("STARTING", "SCHEDULING", "RESTARTING", "ERRORED"):
        run = Run(replace(TRAINING, state=state))
        assert not run.wait(60)
        assert run.seconds == 0


def test_a_group_that_is_lost_meanwhile_is_not_waited_for() -> None:
    run = Run(TRAINING, TRAINING, replace(TRAINING, state="RESTARTING"))
    assert not run.wait(60)
    assert run.seconds < 1


def test_a_run_that_ends_by_itself_meanwhile_has_the_last_word() -> None:
    """The ending that says so is on its way; it must not be overtaken."""
    run = Run(TRAINING, replace(TRAINING, state="FINISHED", commits=4))
    assert not run.wait(5)
    assert run.seconds >= 5


def test_no_time_means_at_once() -> None:
    assert not Run(TRAINING).wait(0)
