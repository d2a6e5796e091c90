"""Decides which rules of spec.metricPolicy fire, from the reports of one worker group after another. Pure.

The caller passes the time, of a clock that stands still while the group does not train. A report without the metric of
a rule says nothing about it: a metric of an epoch appears once in an epoch.
"""

from __future__ import annotations

import math
import numbers
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Deque, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from railhead.contract.metric_rule import ABOVE, IS_NAN, NO_CHECKPOINT, NOT_IMPROVED, RATE_BELOW, MetricRule
from railhead.contract.numbers import name_not_finite
from railhead.driver.mailbox.progress import find_value

# without a rule's metric, after which there is a warning
MISSING_REPORTS = 3
MISSING_SECONDS = 600.0
# whose median a percentage is of
LEAST_WINDOWS = 3
MOST_WINDOWS = 100
STEPS = ("step", "epoch")  # metrics that say where training is
NAMES = 8  # of metrics, in a message
MOST_LEVELS = 8  # of nested metrics, as `railhead metrics` shows them


@dataclass(frozen=True)
class Fired:
    """A rule that holds now. `message`: what was seen, and where; the same as long as it holds."""

    rule: MetricRule
    message: str


class MetricRules:
    """What the rules say of the current group; `begin_again` for the next one."""

    def __init__(self) -> None:
        self._watches: Dict[MetricRule, _Watch] = {}
        self._seen: Set[str] = set()  # metrics that a report had, also of an earlier group
        self._reported: Tuple[str, ...] = ()
        self.begin_again(now=0.0)

    def begin_again(self, *, now: float) -> None:
        """Forgets what the group before did: a new one trains."""
        rules = tuple(self._watches)
        self._watches = {}
        self._reports = 0
        self._began = now
        self._place = "before the first report"
        self._not_finite: Dict[str, str] = {}  # by metric: what it is, and where that began
        self.set_rules(rules, now=now)

    def set_rules(self, rules: Iterable[MetricRule], *, now: float) -> None:
        """Replaces the rules; one that has not changed keeps what it has seen."""
        self._watches = {rule: self._watches.get(rule) or _make_watch(rule, now) for rule in rules}

    @property
    def wants_steps(self) -> bool:
        return any(rule.type == RATE_BELOW and not rule.metric for rule in self._watches)

    def note_report(self, metrics: Mapping[str, Any], *, is_commit: bool, now: float) -> None:
        """Notes one report of all ranks, with rank 0's metrics."""
        self._reports += 1
        self._reported = tuple(str(name) for name in metrics)
        self._place = _describe_place(metrics, self._reports)
        self._note_not_finite(metrics)
        for rule, watch in self._watches.items():
            value = read_number(metrics, rule.metric) if rule.metric else None
            if value is not None:
                self._seen.add(rule.metric)
                watch.note(value, now)
            if is_commit:
                watch.note_commit(now)

    def note_steps(self, steps: int, *, now: float) -> None:
        """Notes how many steps the ranks have made."""
        for rule, watch in self._watches.items():
            if rule.type == RATE_BELOW and not rule.metric:
                watch.note(float(steps), now)

    def list_fired(self, *, now: float) -> List[Fired]:
        """Returns those that hold now, in the order of the spec."""
        found = ((rule, watch.look(now, self._place)) for rule, watch in self._watches.items())
        return [Fired(rule, f"rule {rule.name}: {text} ({rule.path})") for rule, text in found if text]

    def _note_not_finite(self, metrics: Mapping[str, Any]) -> None:
        for name, value in _list_numbers(metrics):
            if math.isfinite(value):
                self._not_finite.pop(name, None)
            else:
                self._not_finite.setdefault(name, f"{name} is {name_not_finite(value)}, first {self._place}")

    def find_not_finite(self) -> str:
        """Returns a warning of the metrics that are NaN or infinite and that no rule for NaN watches; may be empty."""
        ruled = {rule.metric for rule in self._watches if rule.type == IS_NAN}
        found = [text for name, text in self._not_finite.items() if name not in ruled]
        if not found:
            return ""
        more = ""
        if len(found) > NAMES:
            more = f" and {len(found) - NAMES} more"
        return f"{'; '.join(found[:NAMES])}{more}; no rule of spec.metricPolicy ends the job for it"

    def find_missing(self, *, now: float) -> str:
        """Returns a warning of the first rule whose metric no report has had, empty if there is none."""
        if self._reports < MISSING_REPORTS or now - self._began < MISSING_SECONDS:
            return ""
        rule = next((rule for rule in self._watches if rule.metric and rule.metric not in self._seen), None)
        if rule is None:
            return ""
        names = ", ".join(sorted(self._reported)[:NAMES]) or "nothing"
        return (
            f"rule {rule.name}: no report so far has a number in {rule.metric!r}, so the rule cannot fire "
            f"({rule.path}.metric); the last report has {names}"
        )


def read_number(metrics: Mapping[str, Any], name: str) -> Optional[float]:
    """Returns the number under a name, which may be a scalar of numpy or torch; None if there is none."""
    return _to_number(find_value(metrics, name))


def _to_number(value: object) -> Optional[float]:
    if not isinstance(value, numbers.Real) and callable(getattr(value, "item", None)):
        try:
            value = value.item()  # type: ignore[attr-defined]  # checked
        except Exception:
            # A tensor of more than one element has no single value.
            return None
    if isinstance(value, numbers.Real):
        return float(value)
    return None


def _list_numbers(metrics: Mapping[str, Any], prefix: str = "", level: int = 1) -> Iterator[Tuple[str, float]]:
    """Yields the numbers, nested ones by their path, such as `val/loss`."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            if level < MOST_LEVELS:
                yield from _list_numbers(value, f"{prefix}{name}/", level + 1)
            continue
        number = _to_number(value)
        if number is not None:
            yield f"{prefix}{name}", number


def _describe_place(metrics: Mapping[str, Any], reports: int) -> str:
    for name in STEPS:
        value = read_number(metrics, name)
        if value is not None and math.isfinite(value):
            return f"at {name} {_write(value)}"
    return f"in report {reports} since the group started"


class _Watch:
    """What one rule has seen of the current group; by itself nothing."""

    def __init__(self, rule: MetricRule) -> None:
        self._rule = rule
        self._count = 0  # looks in a row that have shown it
        self._text = ""

    def note(self, value: float, now: float) -> None:
        """Notes a value of the metric, or the number of steps."""

    def note_commit(self, now: float) -> None:
        """Notes that a checkpoint was committed."""

    def look(self, now: float, place: str) -> str:
        """Returns what is wrong; empty if nothing is."""
        return self._text


def _make_watch(rule: MetricRule, now: float) -> _Watch:
    if rule.type == NO_CHECKPOINT:
        return _CommitWatch(rule, now)
    if rule.type == RATE_BELOW:
        return _RateWatch(rule)
    return _ValueWatch(rule)


class _ValueWatch(_Watch):
    """IsNaN, Above, Below and NotImproved look at each report that has the metric."""

    def __init__(self, rule: MetricRule) -> None:
        super().__init__(rule)
        self._limit = float(rule.threshold or 0)
        self._best: Optional[float] = None
        self._last = 0.0
        # when it began, at the best value for NotImproved, and the last value
        self._since = 0.0
        self._at = 0.0

    def note(self, value: float, now: float) -> None:
        if self._is_wrong(value):
            if not self._count and self._best is None:
                self._since = now
            self._count += 1
        else:
            self._count = 0
            self._since = now
            self._text = ""
        self._last = value
        self._at = now

    def look(self, now: float, place: str) -> str:
        rule = self._rule
        is_long = self._count >= rule.consecutive and self._at - self._since >= rule.window_seconds
        if self._count and is_long and not self._text:
            self._text = f"{self._describe()} {place}"
        return self._text

    def _is_wrong(self, value: float) -> bool:
        kind = self._rule.type
        if kind == IS_NAN:
            return math.isnan(value)
        if kind == NOT_IMPROVED:
            return not self._improves(value)
        if kind == ABOVE:
            return value > self._limit
        return value < self._limit

    def _improves(self, value: float) -> bool:
        sign = -1 if self._rule.mode == "min" else 1
        if math.isnan(value) or (self._best is not None and sign * (value - self._best) <= self._limit):
            return False
        self._best = value
        return True

    def _describe(self) -> str:
        rule = self._rule
        times = f", {self._count} times in a row," if self._count > 1 else ""
        if rule.type == IS_NAN:
            return f"{rule.metric} is NaN{times}"
        if rule.type == NOT_IMPROVED:
            best = "" if self._best is None else f" on {_write(self._best)}"
            reports = f"{self._count} report" + ("s" if self._count > 1 else "")
            return f"{rule.metric} has not improved{best} for {reports} and {self._at - self._since:.0f} s"
        return f"{rule.metric} is {_write(self._last)}, {rule.type.lower()} {rule.threshold}{times or ','}"


class _RateWatch(_Watch):
    """RateBelow looks at the end of each window, the first of which begins with the first value."""

    def __init__(self, rule: MetricRule) -> None:
        super().__init__(rule)
        self._begin: Optional[Tuple[float, float]] = None  # time and value
        self._value = 0.0
        self._rates: Deque[float] = deque(maxlen=MOST_WINDOWS)

    def note(self, value: float, now: float) -> None:
        if not math.isfinite(value):
            return
        # A smaller value means that the count has begun again.
        if self._begin is None or value < self._value:
            self._begin = (now, value)
        self._value = value

    def look(self, now: float, place: str) -> str:
        if self._begin is not None and now - self._begin[0] >= self._rule.window_seconds:
            rate = (self._value - self._begin[1]) / (now - self._begin[0])
            self._judge(rate, place)
            self._begin = (now, self._value)
        return self._text

    def _judge(self, rate: float, place: str) -> None:
        rule = self._rule
        limit = self._find_limit()
        of = ""
        self._rates.append(rate)
        if limit is None or rate >= limit:
            self._count = 0
            self._text = ""
            return
        self._count += 1
        if self._count < rule.consecutive or self._text:
            return
        if rule.threshold.endswith("%"):
            of = f" ({rule.threshold} of the median of earlier windows)"
        if rule.metric:
            what = f"{rule.metric} grew by {_write(rate)}"
        else:
            what = f"the ranks made {_write(rate)} steps"
        if self._count > 1:
            span = f"{self._count} windows of {rule.window_seconds} s"
        else:
            span = f"{rule.window_seconds} s"
        self._text = f"{what} per second for {span}, less than {_write(limit)}{of}, {place}"

    def _find_limit(self) -> Optional[float]:
        threshold = self._rule.threshold
        if not threshold.endswith("%"):
            return float(threshold)
        if len(self._rates) < LEAST_WINDOWS:
            return None
        return float(threshold[:-1]) / 100 * statistics.median(self._rates)


class _CommitWatch(_Watch):
    """NoCheckpoint looks at the time since the last commit, or since the group began to train."""

    def __init__(self, rule: MetricRule, now: float) -> None:
        super().__init__(rule)
        self._since = now

    def note_commit(self, now: float) -> None:
        self._since = now
        self._text = ""

    def look(self, now: float, place: str) -> str:
        if not self._text and now - self._since >= self._rule.window_seconds:
            self._text = f"no checkpoint was committed for {self._rule.window_seconds} s, {place}"
        return self._text


def _write(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
