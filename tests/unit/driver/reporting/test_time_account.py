"""What the driver counts its attempt's time as, in simulated time."""

from __future__ import annotations

from dataclasses import replace

from railhead.contract.report import ReportedOutcome, RestartInPlace, Steps
from railhead.contract.spent import Spent
from railhead.driver.reporting.heartbeat import Heartbeat
from railhead.driver.reporting.progress import Progress
from railhead.driver.reporting.time_account import TimeAccount

TRAINING = Progress(state="RUNNING", is_training=True, processes=("a-1",))
RESTARTING = Progress(state="RESTARTING", processes=("a-1",))
REPORTING = Heartbeat(1, 5, 5, True, Steps())


def count(*looks: tuple[float, Progress], restart: RestartInPlace | None = None, end: str = "") -> Spent:
    account = TimeAccount(now=0.0)
    for now, progress in looks[:-1]:
        account.look(progress, None, now=now)
    now, progress = looks[-1]
    account.look(progress, None, restart=restart, outcome=ReportedOutcome(end) if end else None, now=now)
    return account.spent


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


def test_ranks_that_all_report_write_a_checkpoint() -> None:
    account = TimeAccount(now=0.0)
    account.look(TRAINING, REPORTING, now=0.0)
    account.look(TRAINING, REPORTING, now=10.0)
    assert account.spent == Spent(checkpointing=10_000)


def test_the_silence_before_a_hang_is_the_hangs() -> None:
    reported = replace(TRAINING, reports=1)
    assert count((0, TRAINING), (10, reported), (610, reported), end="Hang") == Spent(
        productive=10_000, uncommitted=10_000, hanging=600_000
    )
    restart = RestartInPlace(1, 0, cause="Hang")
    assert count((0, TRAINING), (10, reported), (610, reported), restart=restart) == Spent(
        retrained=10_000, hanging=600_000
    )


def test_a_clock_that_stands_still_counts_nothing() -> None:
    assert count((5, TRAINING), (5, TRAINING), (4, TRAINING)) == Spent(starting=5000)
