"""What the driver measures of the time of its attempt, in simulated time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railhead.contract.report import ReportedOutcome, RestartInPlace, Steps
from railhead.contract.spent import Spent
from railhead.driver.head.time_meter import TimeMeter
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.progress import Progress, ReportTimes

TRAINING = Progress(state="RUNNING", is_training=True, processes=("a-1",))
RESTARTING = Progress(state="RESTARTING", processes=("a-1",))


def count(*looks: tuple[float, Progress], restart: RestartInPlace | None = None, end: str = "") -> Spent:
    meter = TimeMeter(now=0.0)
    for now, progress in looks[:-1]:
        meter.update(progress, None, now=now)
    now, progress = looks[-1]
    meter.update(progress, None, restart=restart, outcome=ReportedOutcome(end) if end else None, now=now)
    return meter.spent


def test_a_stretch_belongs_to_the_state_at_its_beginning() -> None:
    assert count((10, TRAINING), (40, TRAINING)) == Spent(starting=10_000, productive=30_000, uncommitted=30_000)


def test_a_commit_keeps_what_was_trained() -> None:
    committed = replace(TRAINING, commits=1)
    assert count((0, TRAINING), (40, committed), (50, committed)) == Spent(productive=50_000, uncommitted=10_000)


def test_a_restart_loses_what_no_checkpoint_keeps() -> None:
    committed = replace(TRAINING, commits=1)
    found = count((0, TRAINING), (40, committed), (50, RESTARTING), (57, TRAINING), restart=RestartInPlace(1, 1))
    assert found == Spent(productive=40_000, retrained=10_000, restoring=7000)


def test_a_group_that_begins_again_without_a_failure_loses_it_too() -> None:
    """Ray replaces the group of a lost worker pod: no restart is reported."""
    found = count((0, TRAINING), (10, RESTARTING), (17, TRAINING), (20, TRAINING))
    assert found == Spent(productive=3000, uncommitted=3000, retrained=10_000, restoring=7000)


def beat(number: int, blocked: float) -> Heartbeat:
    return Heartbeat(number, 5, 5, False, Steps(), blocked=blocked)


def test_the_time_of_rank_0_in_reports_was_not_productive() -> None:
    meter = TimeMeter(now=0.0)
    meter.update(TRAINING, None, now=0.0)
    meter.update(TRAINING, beat(1, 1.25), now=10.0)
    meter.update(TRAINING, beat(1, 1.25), now=15.0)
    meter.update(TRAINING, beat(2, 4.0), now=20.0)
    assert meter.spent == Spent(productive=16_000, uncommitted=16_000, checkpointing=4000)
    meter.update(replace(TRAINING, processes=("a-2",)), beat(1, 3.0), now=30.0)
    assert meter.spent == Spent(productive=23_000, uncommitted=23_000, checkpointing=7000), "a new group begins at 0"


def test_a_checkpoint_brings_the_time_that_it_blocked_rank_0() -> None:
    committed = replace(TRAINING, commits=1, times=ReportTimes(blocked=8.0))
    meter = TimeMeter(now=0.0)
    meter.update(TRAINING, beat(1, 0.0), now=0.0)
    meter.update(committed, beat(2, 3.0), now=20.0)
    assert meter.spent == Spent(productive=12_000, checkpointing=8000)
    meter.update(committed, beat(3, 7.9), now=21.0)
    meter.update(committed, beat(4, 8.5), now=30.0)
    assert meter.spent == Spent(productive=21_500, uncommitted=9500, checkpointing=8500)


def test_a_checkpoint_keeps_nothing_from_after_its_report_call() -> None:
    """Training continues while it is uploaded in the background."""
    committed = replace(TRAINING, commits=1, times=ReportTimes(blocked=1.0, trained=15.0))
    found = count((0, TRAINING), (40, committed), (45, RESTARTING), restart=RestartInPlace(1, 1))
    assert found == Spent(productive=24_000, checkpointing=1000, retrained=20_000)


@pytest.mark.parametrize("gap", [7.0, 10.0, 61.0])
@pytest.mark.parametrize("blocked", [0.2, 4.0, 25.0])
@pytest.mark.parametrize("is_background", [True, False])
def test_an_hour_of_training_is_counted_as_exactly_as_by_rank_0(
    gap: float, blocked: float, is_background: bool
) -> None:
    """Rank 0 trains for `gap` seconds, is blocked, and its checkpoint is committed at once or 3 s of training later."""
    meter, progress, clock, total = TimeMeter(now=0.0), TRAINING, 0.0, 0.0
    meter.update(progress, None, now=0.0)
    while clock < 3600:
        for now in range(int(clock // 10) + 1, int((clock + gap + blocked) // 10) + 1):
            open_seconds = max(now * 10 - clock - gap, 0.0)
            meter.update(progress, beat(now, total + open_seconds), now=now * 10.0)
        clock, total = clock + gap + blocked, total + blocked
        trained = 3.0 if is_background else 0.0
        progress = replace(progress, commits=progress.commits + 1, times=ReportTimes(total, trained))
        meter.update(progress, None, now=clock + trained)
    spent = meter.spent
    assert abs(spent.checkpointing - total * 1000) <= 1 and spent.uncommitted == trained * 1000
    assert abs(spent.productive - (clock + trained - total) * 1000) <= 1


def test_the_silence_before_a_hang_is_the_hangs() -> None:
    reported = replace(TRAINING, reports=1)
    assert count((0, TRAINING), (10, reported), (610, reported), end="Hang") == Spent(
        productive=10_000, uncommitted=10_000, hanging=600_000
    )
    restart = RestartInPlace(1, 0, cause="Hang")
    assert count((0, TRAINING), (10, reported), (610, reported), restart=restart) == Spent(
        retrained=10_000, hanging=600_000
    )


def test_a_report_that_hangs_is_no_silence() -> None:
    meter = TimeMeter(now=0.0)
    meter.update(TRAINING, None, now=0.0)
    for number in range(1, 61):
        meter.update(TRAINING, beat(number, number * 10.0 - 5.0), now=number * 10.0)
    meter.update(TRAINING, beat(60, 595.0), outcome=ReportedOutcome("Hang"), now=601.0)
    assert meter.spent == Spent(productive=5000, uncommitted=5000, hanging=1000, checkpointing=595_000)


def test_a_clock_that_stands_still_counts_nothing() -> None:
    assert count((5, TRAINING), (5, TRAINING), (4, TRAINING)) == Spent(starting=5000)
