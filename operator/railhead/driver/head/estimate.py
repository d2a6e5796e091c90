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
# a group's own pace counts after that time, or that part of the run
SETTLED_SECONDS = 30.0
SETTLED_PART = 0.05
WINDOW_PART = 0.25  # of the run: long enough for regular evaluations, short enough for a pace that changes
WINDOW_SAMPLES = 256
MOST = 2**53  # a larger total means that there is none


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
        position = self._last = self._find(steps, progress) or self._last
        if end == "FINISHED":
            return replace(steps, percent=100, remaining_seconds=0)
        if position is None:
            return steps
        if progress.is_training:
            self._pace.note(position, group=progress.processes, now=now)
        remaining = self._pace.estimate(position, now=now) if not end else None
        if remaining is None:
            remaining_seconds = None
        else:
            remaining_seconds = math.ceil(remaining)
        return replace(
            steps,
            percent=math.floor(100 * position.done / position.total),
            remaining_seconds=remaining_seconds,
        )

    def _find(self, steps: Steps, progress: Progress) -> Optional[WorkDone]:
        step = steps.step
        total = steps.total
        if step is None or total is None or not 0 < total <= MOST:
            if self._has_steps:
                return None
            return self._metrics.read(progress)
        if not self._has_steps:
            self._has_steps = True
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
        self._is_count: dict[str, bool] = {}  # by metric: whether its value is what is done

    def read(self, progress: Progress) -> Optional[WorkDone]:
        for metric, total_metric in self._metrics:
            total = _read_number(progress.metrics.get(total_metric)) or _read_number(self._config.get(total_metric))
            if not total or total < 0:
                continue
            value = _read_number(progress.metrics.get(metric))
            if value is not None and 0 <= value <= total:
                return WorkDone(min(self._count(metric, value, total, progress), total), total)
            if value is None and progress.reports == 0 and not progress.resumed_from and progress.is_training:
                return WorkDone(0.0, total)
        return None

    def _count(self, metric: str, value: float, total: float, progress: Progress) -> float:
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
    """How long one unit of work takes: in the current worker group, or before that has done some, in the last one."""

    def __init__(self) -> None:
        self._group: tuple[str, ...] = ()
        self._samples: Deque[tuple[float, float]] = deque()  # (when, done), each with more done than the one before
        self._is_warm = False
        self._last_step = 0.0
        self._seconds_per_unit: Optional[float] = None

    def note(self, position: WorkDone, *, group: tuple[str, ...], now: float) -> None:
        samples = self._samples
        done = position.done
        if group != self._group or (samples and done < samples[-1][1]):
            samples.clear()
            self._is_warm = False
        self._group = group
        if samples and done == samples[-1][1]:
            return
        self._last_step = done - samples[-1][1] if samples else 0.0
        if len(samples) >= 3 and samples[-1][1] - samples[-2][1] < WINDOW_PART * position.total / WINDOW_SAMPLES:
            samples.pop()
        samples.append((now, done))
        if len(samples) == 3 and not self._is_warm:
            samples.popleft()  # the first step compiles and fills caches
            self._is_warm = True
        while len(samples) > 2 and samples[1][1] <= done - WINDOW_PART * position.total:
            samples.popleft()
        self._measure(position.total)

    def _measure(self, total: float) -> None:
        (began, first) = self._samples[0]
        (ended, last) = self._samples[-1]
        is_settled = ended - began >= SETTLED_SECONDS or last - first >= SETTLED_PART * total
        if last > first and is_settled:
            self._seconds_per_unit = (ended - began) / (last - first)

    def estimate(self, position: WorkDone, *, now: float) -> Optional[float]:
        """Returns the seconds that the rest takes, or None. Time since the last sample is part of the next step's."""
        pace = self._seconds_per_unit
        left = position.total - position.done
        if pace is None:
            return None
        passed = now - self._samples[-1][0] if self._samples else 0.0
        return pace * left - min(passed, pace * min(self._last_step, left))
