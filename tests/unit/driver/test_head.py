"""SIGTERM in the head pod's entry point."""

from __future__ import annotations

import queue
import signal

from railhead.driver.head import receive_sigterm


def test_sigterm_cancels_rays_alarm() -> None:
    signals: queue.SimpleQueue[bool] = queue.SimpleQueue()
    try:
        signal.alarm(60)
        receive_sigterm(signals)
        assert signal.alarm(0) == 0, "the alarm is cancelled"
    finally:
        signal.alarm(0)
    assert signals.get_nowait()
