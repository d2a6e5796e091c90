"""Turns: at most one per period for all keys together, in the order of asking."""

from __future__ import annotations

from collections import Counter

from railhead.api.job import JobKey
from railhead.controller.turns import UNUSED_SECONDS, Turns


def key(name: object) -> JobKey:
    return JobKey("default", str(name))


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_first_has_its_turn_at_once_and_the_others_in_their_order() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert [turns.take(key(name)) for name in "abc"] == [0.0, 1.0, 2.0]
    assert [turns.take(key(name)) for name in "cba"] == [2.0, 1.0, 3.0], "asking again changes nothing"
    clock.seconds += 1.5
    assert [turns.take(key(name)) for name in "bc"] == [0.0, 0.5]


def test_many_keys_have_one_turn_per_second() -> None:
    clock = Clock()
    turns = Turns(clock)
    taken: Counter[int] = Counter()
    for _ in range(300):
        for number in range(100):
            if not turns.take(key(number)):
                taken[number] += 1
        clock.seconds += 1
    assert sum(taken.values()) == 300
    assert set(taken.values()) == {3}


def test_a_turn_that_is_not_taken_is_forgotten() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert [turns.take(key(name)) for name in "ab"] == [0.0, 1.0]
    clock.seconds += UNUSED_SECONDS + 2
    assert turns.take(key("c")) == 0.0
    assert turns.take(key("b")) == 1.0
