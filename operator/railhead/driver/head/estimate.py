"""How much of the run is done, and how long the rest takes. Pure: the caller passes the time.

Work is counted in steps of `railhead.training.progress`, else in what two metrics say: `epoch` of `epochs` or `step` of
`max_steps`, unless spec.run.progress names others. What is not known is absent.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Deque, Mapping, Optional

from railhead.contract.report import Steps
from railhead.driver.mailbox.progress import Progress

DEFAULT_METRICS = (("epoch", "epochs"), ("step", "max_steps"))
# A group's own pace counts after that time, or that part of the run.
SETTLED_SECONDS = 30.0
SETTLED_PART = 0.05
# A part of the run that is long enough for regular evaluations, and short enough for a pace that changes.
WINDOW_PART = 0.25
WINDOW_SAMPLES = 256
# A larger total means that there is none.
MOST = 2**53


@dataclass(frozen=True)
class WorkDone:
    """`done` of `total` steps or epochs."""

    done: float
    total: float


class RunEstimate:
    """Adds the percentage and the remaining time to what a heartbeat says.

    Metrics count until training code says its steps. The last position stays while neither says one: a new group has
    no heartbeat yet, and not each report has the metrics.
    """

    def __init__(self, metrics: MetricReader) -> None:
        self._metrics = metrics
        self._pace = Pace()
        self._has_steps = False
        self._last: Optional[WorkDone] = None

    def add(self, steps: Steps, progress: Progress, *, now: float, end: str = "") -> Steps:
        """Returns the steps with what is known at this time.

        Args:
            end: FINISHED or ERRORED once the attempt has ended: a run that has succeeded is done, however early, and
                what remains of one that has failed is not known.
        """
        position = self._find_position(steps, progress) or self._last
        self._last = position
        if end == "FINISHED":
            return replace(steps, percent=100, remaining_seconds=0)
        if position is None:
            return steps
        if progress.is_training:
            self._pace.record(position, group=progress.processes, now=now)
        remaining_seconds = None
        if not end:
            remaining_seconds = self._pace.estimate(position, now=now)
        if remaining_seconds is not None:
            remaining_seconds = math.ceil(remaining_seconds)
        percent = math.floor(100 * position.done / position.total)
        return replace(steps, percent=percent, remaining_seconds=remaining_seconds)

    def _find_position(self, steps: Steps, progress: Progress) -> Optional[WorkDone]:
        step = steps.step
        total = steps.total
        if step is None or total is None or not 0 < total <= MOST:
            if self._has_steps:
                return None
            return self._metrics.read(progress)
        if not self._has_steps:
            self._has_steps = True
            # The pace so far was that of epochs, or of other steps.
            self._pace = Pace()
        return WorkDone(min(max(step, 0), total), total)


class MetricReader:
    """Reads the position from the metrics of rank 0's reports.

    A whole number counts from 0, as `for epoch in range(epochs)` does, and its report says that this epoch is done;
    unless the run's n-th report has n, or a report has the total. A fraction counts what is done. A head that resumes a
    run has not seen its first report: there the epochs of one that counts from 1 are one too high until the last.

    `metric`, `total`: spec.run.progress; empty = those of `DEFAULT_METRICS`.
    `config`: trainer.trainLoopConfig, which may hold the total.
    """

    def __init__(self, metric: str = "", total: str = "", config: Optional[Mapping[str, Any]] = None) -> None:
        self._metrics = ((metric, total),) if metric else DEFAULT_METRICS
        self._config = config or {}
        # By metric: whether its value is what is done.
        self._is_count: dict[str, bool] = {}

    def read(self, progress: Progress) -> Optional[WorkDone]:
        """Returns the position by the first pair of metrics that says one, None if none does."""
        for metric, total_metric in self._metrics:
            total = _read_number(progress.metrics.get(total_metric)) or _read_number(self._config.get(total_metric))
            if not total or total < 0:
                continue
            value = _read_number(progress.metrics.get(metric))
            if value is not None and 0 <= value <= total:
                done = self._count_done(metric, value, total, progress)
                return WorkDone(min(done, total), total)
            begins_from_scratch = progress.is_training and progress.reports == 0 and not progress.resumed_from
            if value is None and begins_from_scratch:
                return WorkDone(0.0, total)
        return None

    def _count_done(self, metric: str, value: float, total: float, progress: Progress) -> float:
        is_nth = metric not in self._is_count and not progress.resumed_from and value == progress.reports
        if not value.is_integer() or is_nth or value == total:
            self._is_count[metric] = True
        if self._is_count.setdefault(metric, False):
            return value
        return value + 1


def _read_number(value: Any) -> Optional[float]:
    """Returns None for anything but a number of at most `MOST`, or a text that is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if abs(number) <= MOST:
        return number
    return None


class Pace:
    """Measures how long one unit of work takes.

    It does in the current worker group; before that one has done enough, the pace of the last group counts.
    """

    def __init__(self) -> None:
        self._group: tuple[str, ...] = ()
        # (when, done), each with more done than the one before.
        self._samples: Deque[tuple[float, float]] = deque()
        self._is_warm = False
        self._last_step = 0.0
        self._seconds_per_unit: Optional[float] = None

    def record(self, position: WorkDone, *, group: tuple[str, ...], now: float) -> None:
        """Adds a sample, if more is done than at the last one; `group`: its processes."""
        samples = self._samples
        done = position.done
        window = WINDOW_PART * position.total
        if group != self._group or (samples and done < samples[-1][1]):
            samples.clear()
            self._is_warm = False
        self._group = group
        if samples and done == samples[-1][1]:
            return
        self._last_step = 0.0
        if samples:
            self._last_step = done - samples[-1][1]
        # Replaces the last sample while it is close to the one before: a window has few samples however short a step.
        if len(samples) >= 3:
            since_last = samples[-1][1] - samples[-2][1]
            if since_last < window / WINDOW_SAMPLES:
                samples.pop()
        samples.append((now, done))
        if len(samples) == 3 and not self._is_warm:
            # The first step compiles and fills caches, so it says nothing of those that follow.
            samples.popleft()
            self._is_warm = True
        while len(samples) > 2 and samples[1][1] <= done - window:
            samples.popleft()
        self._measure(position.total)

    def _measure(self, total: float) -> None:
        (began, first) = self._samples[0]
        (ended, last) = self._samples[-1]
        is_settled = ended - began >= SETTLED_SECONDS or last - first >= SETTLED_PART * total
        if last > first and is_settled:
            self._seconds_per_unit = (ended - began) / (last - first)

    def estimate(self, position: WorkDone, *, now: float) -> Optional[float]:
        """Returns the seconds that the rest takes, or None while no pace is known."""
        pace = self._seconds_per_unit
        if pace is None:
            return None
        left = position.total - position.done
        passed = 0.0
        if self._samples:
            passed = now - self._samples[-1][0]
        # The time since the last sample is part of the next step, but no more than that step takes.
        return pace * left - min(passed, pace * min(self._last_step, left))
