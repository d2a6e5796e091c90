"""The API server's time, whatever this machine's clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from railhead.kube.clock import ServerClock

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


class Machine:
    """Its clocks, which the test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.wall = NOON
        self.clock = ServerClock(lambda: self.seconds, lambda: self.wall)

    def answer(self, moment: datetime) -> None:
        self.clock.observe(format_datetime(moment, usegmt=True))


def test_before_the_first_answer_it_is_the_machines() -> None:
    assert Machine().clock.now() == NOON


def test_from_the_first_answer_on_the_machines_clock_is_not_asked() -> None:
    machine = Machine()
    server = NOON + timedelta(hours=3)
    machine.answer(server)
    machine.wall += timedelta(hours=24)
    machine.seconds += 10
    assert machine.clock.now() == server + timedelta(seconds=10)


def test_a_date_is_cut_to_the_second_so_the_latest_is_the_best() -> None:
    machine = Machine()
    machine.answer(NOON)  # said at 12:00:00.9
    machine.seconds += 0.2
    machine.answer(NOON + timedelta(seconds=1))
    assert machine.clock.now() == NOON + timedelta(seconds=1)
    machine.seconds += 0.7
    machine.answer(NOON + timedelta(seconds=1))
    assert machine.clock.now() == NOON + timedelta(seconds=1.7)


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_jump_of_the_servers_own_clock_is_not_heard(hours: int) -> None:
    machine = Machine()
    machine.answer(NOON)
    machine.seconds += 60
    machine.answer(NOON + timedelta(hours=hours))
    assert machine.clock.now() == NOON + timedelta(seconds=60)


@pytest.mark.parametrize("text", [None, "", "yesterday", "Thu, 99 Jan 2026 12:00:00 GMT"])
def test_what_is_no_date_is_not_heard(text: str | None) -> None:
    machine = Machine()
    machine.clock.observe(text)
    assert machine.clock.now() == NOON


def test_it_follows_a_clock_that_is_a_little_faster() -> None:
    machine = Machine()
    machine.answer(NOON)
    for hour in range(1, 100):
        machine.seconds += 3600
        machine.answer(NOON + timedelta(hours=hour, seconds=hour))
    assert machine.clock.now() == NOON + timedelta(hours=99, seconds=99)
