"""What is done of a run and how long the rest takes, by simulated runs whose end is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pytest

from railhead.contract.report import Steps
from railhead.driver.head.estimate import WINDOW_SAMPLES, MetricReader, Pace, RunEstimate, WorkDone
from railhead.driver.mailbox.progress import Progress

TRAINING = Progress(state="RUNNING", has_run=True, is_training=True, processes=("0:1",))
HEARTBEAT_SECONDS = 5.0
Look = tuple[float, Steps, Progress]  # when, what the heartbeat says, what the controller says


def reported(count: int = 1, *, resumed: str = "", **metrics: Any) -> Progress:
    texts = {name: str(value) for name, value in metrics.items()}
    return replace(TRAINING, reports=count, resumed_from=resumed, metrics=texts)


def read(progress: Progress, *, metric: str = "", total: str = "", **config: Any) -> WorkDone | None:
    return MetricReader(metric, total, config).read(progress)


@pytest.mark.parametrize(
    ("progress", "options", "done"),
    [
        (reported(epoch=0), {"epochs": 10}, (1, 10)),
        (reported(epoch=1), {"epochs": 10}, (1, 10)),
        (reported(4, epoch=3), {"epochs": 10}, (4, 10)),
        (reported(epoch=3, resumed="/runs/c2"), {"epochs": 10}, (4, 10)),
        (reported(epoch=9), {"epochs": 10}, (10, 10)),
        (reported(epoch=10), {"epochs": 10}, (10, 10)),
        (reported(5, epoch=5), {"epochs": 10}, (5, 10)),
        (reported(5, epoch=10, resumed="/runs/c2"), {"epochs": 10}, (10, 10)),
        (reported(epoch=0.25), {"epochs": 10}, (0.25, 10)),
        (reported(step=499, max_steps=1000), {}, (500, 1000)),
        (reported(step=499), {"max_steps": "1000"}, (500, 1000)),
        (reported(seen=5, all=20), {"metric": "seen", "total": "all"}, (6, 20)),
        (TRAINING, {"epochs": 10}, (0, 10)),
        (reported(epoch=11), {"epochs": 10}, None),
        (reported(epoch=-1), {"epochs": 10}, None),
        (reported(epoch="nan"), {"epochs": 10}, None),
        (reported(epoch=3), {}, None),
        (reported(epoch=3), {"epochs": 0}, None),
        (reported(epoch=3), {"epochs": "many"}, None),
        (reported(epoch=3), {"epochs": True}, None),
        (reported(epoch=3), {"epochs": [10]}, None),
        (reported(epoch=3), {"epochs": 10, "metric": "seen", "total": "all"}, None),
        (reported(loss=3), {"epochs": 10}, None),
        (replace(TRAINING, resumed_from="/runs/c2"), {"epochs": 10}, None),
    ],
)
def test_metrics_say_what_is_done_or_nothing(progress: Progress, options: dict[str, Any], done: Any) -> None:
    assert read(progress, **options) == (WorkDone(*done) if done else None)


def test_whether_epochs_count_from_0_or_1_is_decided_by_the_first_report() -> None:
    for first in (0, 1):
        reader = MetricReader(config={"epochs": 4})
        found = [reader.read(reported(number + 1, epoch=first + number)) for number in range(4)]
        assert found == [WorkDone(done, 4) for done in (1, 2, 3, 4)]


def test_steps_of_training_code_come_before_metrics() -> None:
    estimate = RunEstimate(MetricReader(config={"epochs": 4}))
    assert estimate.add(Steps(step=90, total=100), reported(epoch=0), now=0).percent == 90
    assert estimate.add(Steps(step=90), reported(epoch=0), now=1).percent == 90, "of the last one with a total"
    assert estimate.add(Steps(), reported(epoch=0), now=2).percent == 90, "a new group has no heartbeat yet"


def test_metrics_that_a_report_lacks_stay_as_they_were() -> None:
    estimate = RunEstimate(MetricReader(config={"epochs": 4}))
    assert estimate.add(Steps(), reported(loss=1), now=0) == Steps()
    assert estimate.add(Steps(), reported(epoch=0), now=1).percent == 25
    assert estimate.add(Steps(), reported(2, loss=1), now=2).percent == 25


def test_the_pace_begins_anew_when_steps_replace_epochs() -> None:
    estimate = RunEstimate(MetricReader(config={"epochs": 10}))
    for now, epoch in ((0, 0), (100, 1), (200, 2), (300, 3)):
        known = estimate.add(Steps(), reported(epoch + 1, epoch=epoch), now=now)
    assert known.remaining_seconds == 600
    found = [estimate.add(Steps(step=40_000 + now, total=100_000), TRAINING, now=now) for now in range(310, 400, 10)]
    assert found[0].remaining_seconds is None and found[-1].remaining_seconds == 100_000 - 40_390


def test_what_remains_of_a_failed_attempt_is_not_known() -> None:
    estimate = RunEstimate(MetricReader())
    for now in range(0, 60, 5):
        estimate.add(Steps(step=now, total=200), TRAINING, now=now)
    found = estimate.add(Steps(step=55, total=200), TRAINING, now=60, end="ERRORED")
    assert (found.percent, found.remaining_seconds) == (27, None)


@pytest.mark.parametrize("total", [2**54, 10**400])
def test_a_total_that_no_run_reaches_is_none(total: int) -> None:
    estimate = RunEstimate(MetricReader(config={"epochs": total}))
    for now in range(0, 90, 10):
        assert estimate.add(Steps(step=now, total=total), reported(now + 1, epoch=now), now=now).percent is None


@pytest.mark.parametrize(("step", "percent"), [(0, 0), (1, 0), (199, 99), (200, 100), (300, 100), (-5, 0)])
def test_100_percent_means_that_all_is_done(step: int, percent: int) -> None:
    assert RunEstimate(MetricReader()).add(Steps(step=step, total=200), TRAINING, now=0).percent == percent


def test_a_run_that_stops_early_is_done() -> None:
    estimate = RunEstimate(MetricReader())
    found = estimate.add(Steps(step=50, total=200), TRAINING, now=0, end="FINISHED")
    assert (found.percent, found.remaining_seconds) == (100, 0)


def test_the_rest_is_absent_until_the_pace_is_known_and_then_counts_down() -> None:
    estimate, found = RunEstimate(MetricReader()), []
    for second in range(0, 60, 5):
        found.append(estimate.add(Steps(step=second, total=3600), TRAINING, now=second).remaining_seconds)
    assert found[:7] == [None] * 7 and found[7:] == [3600 - second for second in range(35, 60, 5)]
    later = [estimate.add(Steps(step=55, total=3600), TRAINING, now=now).remaining_seconds for now in (57, 60, 600)]
    assert later == [3543, 3540, 3540], "not below what the next steps leave"


def test_many_samples_need_little_memory() -> None:
    pace = Pace()
    for number in range(50_000):
        pace.record(WorkDone(number, 100_000), group=("0:1",), now=float(number if number < 20_000 else 2 * number))
    assert len(pace._samples) <= WINDOW_SAMPLES + 3 and pace.estimate(WorkDone(50_000, 100_000), now=1e5) == 100_000 - 2


@dataclass(frozen=True)
class Run:
    """A simulated run of `total` steps.

    Attributes:
        seconds: how long a step takes, by its number and the number of workers.
        pauses: {step: seconds} before this step, in which no step is made: an evaluation.
        losses: {step: (back to step, seconds without training, is a new head)}, each once.
        resizes: {step: workers}.
        per_report: steps between reports; if it is set, only metrics say how far the run is.
    """

    seconds: Callable[[int, int], float]
    total: int = 2000
    pauses: Callable[[int], float] = lambda step: 0.0
    losses: tuple[tuple[int, int, float, bool], ...] = ()
    resizes: tuple[tuple[int, int], ...] = ()
    per_report: int = 0

    def play(self) -> Iterator[tuple[float, int, Steps, Progress, int]]:
        """Yields (time, step, heartbeat, progress, number of the head) every few seconds."""
        now, step, workers, group, head, losses, resizes = 60.0, 0, 8, 1, 0, list(self.losses), list(self.resizes)
        looked, progress = 0.0, TRAINING
        while step < self.total:
            now += self.pauses(step) + self.seconds(step, workers) + (40.0 if step == 0 else 0.0)
            step += 1
            if losses and losses[0][0] == step:
                _, step, away, is_new = losses.pop(0)
                now, group, head = now + away, group + 1, head + is_new
                progress = replace(TRAINING if is_new else progress, processes=(f"0:{group}",), resumed_from="/runs/c")
            if resizes and resizes[0][0] == step:
                workers, group, now = resizes.pop(0)[1], group + 1, now + 20.0
                progress = replace(progress, processes=(f"0:{group}",))
            if self.per_report and step % self.per_report == 0:
                metrics = {"epoch": str(step // self.per_report - 1), "epochs": str(self.total // self.per_report)}
                progress = replace(progress, reports=progress.reports + 1, metrics=metrics)
            if now >= looked + HEARTBEAT_SECONDS or step == self.total:
                looked = now
                yield now, step, Steps() if self.per_report else Steps(step=step, total=self.total), progress, head

    def measure(self) -> tuple[float, float]:
        """Returns the median of the relative errors from a quarter of the run on, and how often there is one."""
        estimate, known, looks, of_head = RunEstimate(MetricReader()), [], 0, 0
        played = list(self.play())
        end = played[-1][0]
        for now, step, steps, progress, head in played:
            if head != of_head:
                estimate, of_head = RunEstimate(MetricReader()), head
            found = estimate.add(steps, progress, now=now).remaining_seconds
            if self.total / 4 <= step < 0.99 * self.total:
                looks += 1
                if found is not None:
                    known.append(abs(found - (end - now)) / (end - now))
        return median(known), len(known) / looks


def irregular(step: int, workers: int) -> float:
    return random.Random(step).lognormvariate(0.0, 0.8)


def steady(step: int, workers: int) -> float:
    return 8.0 / workers


def evaluation(step: int) -> float:
    return 60.0 if step and step % 200 == 0 else 0.0


RUNS = {
    "steady": Run(steady),
    "irregular steps": Run(irregular),
    "evaluations": Run(steady, pauses=evaluation),
    "irregular steps and evaluations": Run(irregular, pauses=evaluation),
    "restarts in place": Run(steady, losses=((300, 250, 30.0, False), (700, 600, 30.0, False))),
    "new heads": Run(steady, losses=((300, 250, 90.0, True), (450, 400, 90.0, True)), pauses=evaluation),
    "an elastic group": Run(steady, resizes=((300, 4), (450, 8))),
    "it shrinks for good": Run(steady, resizes=((700, 4),)),
    "it becomes slower": Run(lambda step, workers: 1.0 if step < 400 else 2.0),
    "eight epochs": Run(steady, per_report=250),
    "a hundred epochs": Run(irregular, per_report=20, losses=((420, 400, 60.0, False),)),
    "epochs after a new head": Run(steady, per_report=20, losses=((420, 400, 60.0, True),)),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_the_estimate_is_right_within_a_tenth(run: Run) -> None:
    error, known = run.measure()
    assert error <= 0.1 and known >= 0.75, (error, known)
