"""Coroutines on their own thread: results, errors, a loop that runs already, Ctrl-C, and slow consumers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback

import pytest

from railhead.client.event_loop import MOST_AHEAD, Drain, Put, iterate_apart, run_apart


async def give(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail() -> int:
    raise ValueError("no")


async def put_three(put: Put[int], drain: Drain) -> None:
    for number in range(3):
        put(number)


async def test_a_call_inside_a_running_loop_has_its_result_or_its_error() -> None:
    """As in a notebook, whose cells run inside a loop."""
    assert run_apart(give(3)) == 3
    assert list(iterate_apart(put_three)) == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        run_apart(fail())


def test_an_error_comes_after_the_items_before_it() -> None:
    async def fail_late(put: Put[int], drain: Drain) -> None:
        put(1)
        raise ValueError("late")

    items = iterate_apart(fail_late)
    assert next(items) == 1
    with pytest.raises(ValueError, match="late"):
        next(items)


def is_waiting(thread: int) -> bool:
    """Whether the thread waits for the result of a call."""
    frame = sys._current_frames().get(thread)
    names = [each.f_code.co_name for each, _ in traceback.walk_stack(frame)]
    return names[:2] == ["wait", "result"]


def test_ctrl_c_cancels_the_coroutine() -> None:
    main, cancelled = threading.main_thread().ident, threading.Event()
    assert main is not None

    async def wait() -> None:
        while not is_waiting(main):  # noqa: ASYNC110 # the thread that waits sets no event
            await asyncio.sleep(0)
        try:
            signal.pthread_kill(main, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(KeyboardInterrupt):
        run_apart(wait())
    assert cancelled.wait(10)


def test_an_iterator_that_is_closed_cancels_its_coroutine() -> None:
    cancelled = threading.Event()

    async def flood(put: Put[int], drain: Drain) -> None:
        try:
            while True:
                put(0)
                await drain()
        finally:
            cancelled.set()

    items = iterate_apart(flood)
    assert next(items) == 0
    items.close()  # type: ignore[attr-defined]
    assert cancelled.wait(10)


def test_a_fast_producer_waits_for_the_consumer_while_other_calls_are_answered() -> None:
    made = []

    async def flood(put: Put[int], drain: Drain) -> None:
        for number in range(5 * MOST_AHEAD):
            made.append(number)
            put(number)
            await drain()

    items = iterate_apart(flood)
    for expected in range(5 * MOST_AHEAD):
        assert next(items) == expected
        assert len(made) <= expected + MOST_AHEAD + 1
        assert expected % 1000 or run_apart(give(expected)) == expected
    assert list(items) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_process_has_its_own_thread() -> None:
    assert run_apart(give(1)) == 1
    child = os.fork()
    if child == 0:
        os._exit(run_apart(give(3)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
