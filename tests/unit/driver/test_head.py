"""SIGTERM in the head pod's entry point."""

from __future__ import annotations

import queue
import signal

from railhead.driver.head import receive_sigterm


def test_rays_alarm_does_not_end_the_wait_for_the_last_checkpoint() -> None:
    signals: queue.SimpleQueue[bool] = queue.SimpleQueue()
    try:
        signal.alarm(60)
        receive_sigterm(signals)
        assert signal.alarm(0) == 0, "none is left"
    finally:
        signal.alarm(0)
    assert signals.get_nowait()
