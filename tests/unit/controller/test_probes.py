"""What the operator says when its event loop does not turn, and what its probes answer."""

from __future__ import annotations

import asyncio
import faulthandler
import time

import pytest

from railhead.controller import probes


async def test_a_stall_is_counted_and_logged_and_its_stack_would_have_been_printed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(probes, "PERIOD_SECONDS", 0.01)
    armed, counted, now = list[float | None](), list[float](), [0.0, 0.01, 10.0, 40.01, 50.0]
    monkeypatch.setattr(faulthandler, "dump_traceback_later", armed.append)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: armed.append(None))
    ended = asyncio.Event()

    def count(seconds: float) -> None:
        counted.append(round(seconds, 2))
        if len(counted) == 2:
            ended.set()

    task = asyncio.create_task(probes.watch_stalls(count, lambda: now.pop(0)))
    await asyncio.wait_for(ended.wait(), 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert counted == [0.0, 30.0]
    assert armed == [probes.PRINT_SECONDS] * 3 + [None], "armed anew at each turn, and not after the end"
    assert [record.getMessage() for record in caplog.records] == ["the event loop did not turn for 30.0 s"]


async def test_a_blocked_loop_prints_where(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(probes, "PRINT_SECONDS", 0.05)
    task = asyncio.create_task(probes.watch_stalls(lambda seconds: None, time.monotonic))
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "in test_a_blocked_loop_prints_where" in capfd.readouterr().err
