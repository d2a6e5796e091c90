"""The API server's time, independent of this machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from railhead.kube.clock import ServerClock

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


class Machine:
    """A machine whose clocks the test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = NOON
        self.clock = ServerClock(lambda: self.seconds, lambda: self.wall)

    def answer(self, moment: datetime) -> None:
        self.clock.observe(format_datetime(moment, usegmt=True))


def test_before_the_first_response_it_is_the_machines_time() -> None:
    assert Machine().clock.now() == NOON


def test_after_the_first_response_the_machines_clock_is_not_used() -> None:
    machine = Machine()
    server = NOON + timedelta(hours=3)
    machine.answer(server)
    machine.wall += timedelta(hours=24)
    machine.seconds += 10
    assert machine.clock.now() == server + timedelta(seconds=10)


def test_the_offset_is_by_how_much_the_machines_clock_is_ahead() -> None:
    machine = Machine()
    assert machine.clock.machine_offset == timedelta(0), "before the first response"
    machine.answer(NOON - timedelta(seconds=90))
    assert machine.clock.machine_offset == timedelta(seconds=90)
    machine.seconds += 60
    assert machine.clock.machine_offset == timedelta(seconds=30), "the machine's clock stood still"


def test_dates_are_truncated_to_seconds_so_the_latest_is_the_best() -> None:
    machine = Machine()
    machine.answer(NOON)  # sent at 12:00:00.9
    machine.seconds += 0.2
    machine.answer(NOON + timedelta(seconds=1))
    assert machine.clock.now() == NOON + timedelta(seconds=1)
    machine.seconds += 0.7
    machine.answer(NOON + timedelta(seconds=1))
    assert machine.clock.now() == NOON + timedelta(seconds=1.7)


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_jump_of_the_servers_clock_is_ignored(hours: int) -> None:
    machine = Machine()
    machine.answer(NOON)
    machine.seconds += 60
    machine.answer(NOON + timedelta(hours=hours))
    assert machine.clock.now() == NOON + timedelta(seconds=60)


@pytest.mark.parametrize("wrong", [-80, 80])
def test_a_clock_that_is_wrong_for_ten_minutes_changes_nothing(wrong: int) -> None:
    machine = Machine()
    for minute in range(60):
        is_wrong = 30 <= minute < 40
        machine.answer(NOON + timedelta(minutes=minute, seconds=wrong if is_wrong else 0))
        assert machine.clock.now() == NOON + timedelta(minutes=minute)
        machine.seconds += 60


@pytest.mark.parametrize("correction", [-80, 80])
def test_a_corrected_clock_is_followed_in_both_directions(correction: int) -> None:
    machine = Machine()
    for minute in range(60):
        machine.answer(NOON + timedelta(minutes=minute, seconds=correction if minute >= 30 else 0))
        machine.seconds += 60
    assert machine.clock.now() == NOON + timedelta(minutes=60, seconds=correction)


@pytest.mark.parametrize("wrong", [-80, 80])
def test_one_wrong_clock_of_three_is_outvoted_even_if_it_answers_first(wrong: int) -> None:
    machine = Machine()
    for number in range(9):
        machine.answer(NOON + timedelta(seconds=30 * number + (wrong if number % 3 == 0 else 0)))
        machine.seconds += 30
    assert machine.clock.now() == NOON + timedelta(seconds=270)


def test_many_responses_within_a_moment_count_as_one() -> None:
    machine = Machine()
    for minute in range(10):
        machine.answer(NOON + timedelta(minutes=minute))
        machine.seconds += 60
    for _ in range(1000):
        machine.answer(NOON + timedelta(hours=1))
    assert machine.clock.now() == NOON + timedelta(minutes=10)


@pytest.mark.parametrize("text", [None, "", "yesterday", "Thu, 99 Jan 2026 12:00:00 GMT"])
def test_an_invalid_date_is_ignored(text: str | None) -> None:
    machine = Machine()
    machine.clock.observe(text)
    assert machine.clock.now() == NOON


@pytest.mark.parametrize("drift", [-1, 1])
def test_it_follows_a_slightly_faster_or_slower_clock(drift: int) -> None:
    machine = Machine()
    for minute in range(100 * 60):
        machine.answer(NOON + timedelta(minutes=minute, seconds=drift * minute / 60))
        machine.seconds += 60
    expected = NOON + timedelta(hours=100, seconds=100 * drift)
    assert abs(machine.clock.now() - expected) <= timedelta(seconds=2)
