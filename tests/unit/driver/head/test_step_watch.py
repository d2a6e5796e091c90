"""For how long no rank has made a step, in simulated time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from railhead.contract.report import Steps
from railhead.driver.head.step_watch import FIRST_STEPS, LONGEST_ROUND_SECONDS, SHORTEST_WINDOW_SECONDS, StepWatch
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress

TRAINING = Progress(state="RUNNING", is_training=True, processes=("a-1",))
MINUTE, HOUR = 60.0, 3600.0


@dataclass
class Run:
    """Rounds every 10 s of one group."""

    watch: StepWatch = field(default_factory=StepWatch)
    progress: Progress = TRAINING
    beat: Heartbeat = field(default_factory=lambda: Heartbeat(0, 0, 0, False, Steps()))
    now: float = 0.0
    warnings: int = 0
    ends: int = 0

    def go(self, seconds: float, *, steps: int = 0, is_uploading: bool = False) -> None:
        """`steps`: by the end of each round."""
        for _ in range(int(seconds / 10)):
            before = self.watch.idle < self.watch.window
            self.now += 10
            beat = self.beat
            self.beat = Heartbeat(beat.number + 1, beat.alive + 2 * steps, beat.most + steps, is_uploading, beat.steps)
            self.watch.update(self.beat, self.progress, now=self.now)
            self.warnings += before and self.watch.idle >= self.watch.window
            self.ends += self.watch.idle >= 2 * self.watch.window


def begin() -> Run:
    run = Run()
    run.go(30 * 10, steps=5)
    return run


def test_a_hang_is_suspected_after_the_window() -> None:
    run = begin()
    run.go(SHORTEST_WINDOW_SECONDS - 10)
    assert run.warnings == 0
    run.go(10)
    assert run.warnings == 1
    run.go(SHORTEST_WINDOW_SECONDS)
    assert run.ends and run.warnings == 1


def test_a_first_step_of_20_minutes_is_none() -> None:
    run = Run()
    run.go(20 * MINUTE)
    run.go(FIRST_STEPS * 10 - 10, steps=1)
    run.go(20 * MINUTE)
    assert (run.warnings, run.watch.idle) == (0, 0.0), "compilers and caches may take any time"


def test_an_hourly_evaluation_causes_at_most_one_warning() -> None:
    run = begin()
    for _ in range(24):
        run.go(45 * MINUTE, steps=10)
        run.go(15 * MINUTE)
    assert (run.warnings, run.ends) == (1, 0)


def test_steps_that_accumulate_gradients_for_minutes_cause_no_warning() -> None:
    run = begin()
    for _ in range(100):
        run.go(8 * MINUTE)
        run.go(10, steps=1)
    assert (run.warnings, run.ends) == (0, 0)


def test_an_upload_for_which_all_ranks_wait_does_not_count() -> None:
    run = begin()
    run.go(3 * HOUR, is_uploading=True)
    assert run.warnings == 0
    run.go(SHORTEST_WINDOW_SECONDS)
    assert run.warnings == 1, "a report in which no rank uploads does"


@pytest.mark.parametrize("changed", [replace(TRAINING, is_training=False), replace(TRAINING, processes=("a-2",))])
def test_validations_and_another_group_begin_the_count_again(changed: Progress) -> None:
    run = begin()
    run.go(SHORTEST_WINDOW_SECONDS - 10)
    run.progress = changed
    run.go(10)
    run.progress = TRAINING
    run.go(10)
    run.go(SHORTEST_WINDOW_SECONDS - 20)
    assert run.warnings == 0


def test_rounds_that_are_missing_do_not_count() -> None:
    run = begin()
    run.now += 5 * HOUR
    run.go(20)
    assert run.watch.idle <= LONGEST_ROUND_SECONDS + 10
    for _ in range(1000):
        run.now += 10
        run.watch.update(run.beat, run.progress, now=run.now)
    assert run.watch.idle <= LONGEST_ROUND_SECONDS + 10, "the same round again"


def test_a_restart_doubles_what_the_next_group_may_take() -> None:
    run = begin()
    run.go(2 * SHORTEST_WINDOW_SECONDS)
    assert run.ends
    run.watch.accept()
    assert run.watch.window == 6 * SHORTEST_WINDOW_SECONDS
