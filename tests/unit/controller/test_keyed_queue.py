"""The keyed queue: one run per key at a time, a growing backoff after failures, woken by a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from railhead.controller.keyed_queue import LAST_BACKOFF_SECONDS, Key, KeyedQueue, Timer


class FakeTimer(Timer):
    """A scheduled call."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class FakeClock:
    """Time passes only when the test moves it."""

    now: float = 0.0
    timers: list[FakeTimer] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        assert seconds >= 0
        self.timers.append(FakeTimer(self.now + seconds, call))
        return self.timers[-1]

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds
        due = [t for t in self.timers if t.at <= self.now]
        self.timers = [t for t in self.timers if t.at > self.now]
        for timer in sorted(due, key=lambda t: t.at):
            if not timer.is_cancelled:
                timer.call()

    def ring_next(self, *, until: float) -> bool:
        """Passes to the next timer up to that time and rings it; to that time if there is none."""
        waiting = [t for t in self.timers if not t.is_cancelled and t.at <= until]
        if not waiting:
            self.now = until
            return False
        timer = min(waiting, key=lambda t: t.at)
        self.timers.remove(timer)
        self.now = max(self.now, timer.at)
        timer.call()
        return True

    @property
    def pending(self) -> list[float]:
        return [t.at for t in self.timers if not t.is_cancelled]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(clock: FakeClock) -> KeyedQueue[str]:
    return KeyedQueue(clock.call_later, clock.monotonic)


async def take_all(queue: KeyedQueue[Key]) -> list[Key]:
    """Takes all keys that are due now."""
    taken: list[Key] = []
    while True:
        getting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        if not getting.done():
            getting.cancel()
            return taken
        taken.append(getting.result())


async def test_a_waiting_key_is_queued_once(queue: KeyedQueue[str]) -> None:
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert await take_all(queue) == ["a", "b"]


async def test_the_oldest_key_is_the_one_that_was_due_first(queue: KeyedQueue[str], clock: FakeClock) -> None:
    assert queue.oldest_seconds == 0
    queue.add("a")
    clock.pass_seconds(3)
    queue.add("b")
    queue.add("a")
    clock.pass_seconds(2)
    assert queue.oldest_seconds == 5
    assert await queue.get() == "a"
    assert queue.oldest_seconds == 2
    assert await queue.get() == "b"
    assert queue.oldest_seconds == 0


async def test_a_key_added_while_in_work_is_due_once_afterwards(queue: KeyedQueue[str]) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.add("a")
    queue.add("a")
    assert await take_all(queue) == []
    queue.done("a")
    assert await take_all(queue) == ["a"]
    queue.done("a")
    assert await take_all(queue) == []


async def test_a_key_is_never_processed_twice_at_once(queue: KeyedQueue[str]) -> None:
    """Three workers; each adds its key again while it processes it."""
    working: set[str] = set()
    passes: list[str] = []

    async def work() -> None:
        while len(passes) < 60:
            key = await queue.get()
            assert key not in working
            working.add(key)
            queue.add(key)
            await asyncio.sleep(0)
            passes.append(key)
            working.discard(key)
            queue.done(key)

    for key in ("a", "b", "c", "d"):
        queue.add(key)
    await asyncio.gather(*(work() for _ in range(3)))
    assert min(passes.count(key) for key in ("a", "b", "c", "d")) >= 10  # and none starves


async def test_the_number_of_workers_bounds_the_keys_in_work(queue: KeyedQueue[str]) -> None:
    for number in range(10):
        queue.add(f"job-{number}")
    in_work = [await queue.get() for _ in range(3)]
    assert in_work == ["job-0", "job-1", "job-2"]
    for key in in_work:
        queue.done(key)
    assert await take_all(queue) == [f"job-{n}" for n in range(3, 10)]


async def test_the_backoff_of_a_failing_key_grows(queue: KeyedQueue[str], clock: FakeClock) -> None:
    delays = [queue.fail("a") for _ in range(12)]
    assert delays[:4] == [0.25, 0.5, 1.0, 2.0]
    assert delays[-1] == LAST_BACKOFF_SECONDS
    assert clock.pending == [LAST_BACKOFF_SECONDS]  # one timer: the last one replaces the others
    clock.pass_seconds(LAST_BACKOFF_SECONDS - 0.1)
    assert await take_all(queue) == []
    clock.pass_seconds(0.1)
    assert await take_all(queue) == ["a"]


async def test_the_servers_retry_after_is_the_minimum(queue: KeyedQueue[str]) -> None:
    assert queue.fail("a", at_least=7.0) == 7.0
    assert queue.fail("a", at_least=0.0) == 0.5


async def test_success_resets_the_backoff(queue: KeyedQueue[str]) -> None:
    queue.fail("a")
    queue.fail("a")
    queue.succeed("a")
    assert queue.fail("a") == 0.25


async def test_each_key_has_its_own_backoff(queue: KeyedQueue[str]) -> None:
    queue.fail("a")
    queue.fail("a")
    assert queue.fail("b") == 0.25


async def test_a_change_ends_the_backoff(queue: KeyedQueue[str]) -> None:
    queue.fail("a")
    queue.add("a")
    assert await take_all(queue) == ["a"]


async def test_a_key_is_woken_when_it_is_due(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.wake("a", 30)
    queue.wake("a", 10)
    clock.pass_seconds(10)
    assert await take_all(queue) == ["a"]
    queue.done("a")
    clock.pass_seconds(60)
    assert await take_all(queue) == []


async def test_a_time_in_the_past_is_due_now(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.wake("a", -5)
    clock.pass_seconds(0)
    assert await take_all(queue) == ["a"]


async def test_a_key_woken_while_in_work_is_due_afterwards(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.wake("a", 1)
    clock.pass_seconds(1)
    assert await take_all(queue) == []
    queue.done("a")
    assert await take_all(queue) == ["a"]


async def test_a_forgotten_key_leaves_no_timer(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.fail("a")
    queue.forget("a")
    queue.done("a")
    clock.pass_seconds(600)
    assert await take_all(queue) == []
    assert clock.pending == []
    assert queue.fail("a") == 0.25


async def test_a_key_that_was_added_during_its_pass_is_due_although_it_is_forgotten(queue: KeyedQueue[str]) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.add("a")
    queue.forget("a")
    queue.done("a")
    assert await take_all(queue) == ["a"]


async def test_a_key_pauses_after_its_pass_and_is_due_once_afterwards(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.add("a")
    queue.done("a", pause=2)
    queue.add("a")
    queue.add("b")
    assert await take_all(queue) == ["b"], "another key does not wait"
    clock.pass_seconds(1)
    assert await take_all(queue) == []
    clock.pass_seconds(1)
    assert await take_all(queue) == ["a"]


async def test_a_key_without_changes_is_not_due_after_its_pause(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.done("a", pause=2)
    clock.pass_seconds(2)
    assert await take_all(queue) == []
    queue.add("a")
    assert await take_all(queue) == ["a"], "the pause is over"


async def test_a_key_woken_in_its_pause_is_due_after_it(queue: KeyedQueue[str], clock: FakeClock) -> None:
    queue.add("a")
    assert await take_all(queue) == ["a"]
    queue.wake("a", 1)
    queue.done("a", pause=2)
    clock.pass_seconds(1)
    assert await take_all(queue) == []
    clock.pass_seconds(1)
    assert await take_all(queue) == ["a"]
