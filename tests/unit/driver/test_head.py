"""SIGTERM in the head pod's entry point, and its last report."""

from __future__ import annotations

import queue
import signal
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from railhead.driver import head
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


@dataclass
class Reporting:
    """A publisher and its clock; the operator accepts the last report after `accepts_after` seconds."""

    accepts_after: float
    sigterm_at: float = 1e9
    now: float = 0.0
    head: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(is_terminating=False))

    def has_stopped(self, timeout: float) -> bool:
        self.now = min(self.now + timeout, max(self.accepts_after, self.now))
        self.head.is_terminating = self.now >= self.sigterm_at
        return self.now >= self.accepts_after

    def wait_stopped(self, timeout: float) -> None:
        self.has_stopped(timeout)


@pytest.mark.parametrize(
    ("seconds", "accepts_after", "sigterm_at", "took"),
    [
        pytest.param(60, 0.3, 1e9, 0.3, id="accepted"),
        pytest.param(60, 45, 1e9, 45, id="the operator is away for a while"),
        pytest.param(60, 1e9, 1e9, 60, id="the operator is away"),
        pytest.param(60, 1e9, 10, 12, id="SIGTERM meanwhile"),
        pytest.param(60, 1e9, 0, 2, id="after SIGTERM"),
        pytest.param(0, 1e9, 1e9, 2, id="after a failure"),
    ],
)
def test_a_success_is_reported_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, seconds: float, accepts_after: float, sigterm_at: float, took: float
) -> None:
    found = Reporting(accepts_after, sigterm_at)
    found.head.publisher, found.head.is_terminating = found, sigterm_at == 0
    monkeypatch.setattr(head, "time", SimpleNamespace(monotonic=lambda: found.now))
    head._wait_for_last_report(found.head, seconds)  # type: ignore[arg-type]
    assert found.now == pytest.approx(took, abs=0.1)
    assert (head.LAST_REPORT_OF_SUCCESS_SECONDS, head.LAST_REPORT_SECONDS) == (60.0, 2.0)
