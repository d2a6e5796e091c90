"""Recorded runs: each is a rule, what the reports of a worker group said when, and when the rule fires, with its words.

Between the records the clock is looked at once a second, as the polls of Ray Train's controller do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from railhead.contract.metric_rule import MetricRule
from railhead.driver.train_controller.metric_rules import MetricRules, read_number

NAN = math.nan
RESTART, COMMIT = {"restart": True}, {"commit": True}


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes:
        records: by second, the metrics of a report, or RESTART, or a report with COMMIT, or a number of steps.
        fires: the seconds in which the rule holds, from the first to the last of each time, with the message.
    """

    what: str
    rule: dict[str, Any]
    records: list[tuple[int, Any]]
    until: int
    fires: list[tuple[int, int, str]] = field(default_factory=list)


def report_every(seconds: int, values: list[Any], *, name: str = "loss", begin: int = 0) -> list[tuple[int, Any]]:
    """Returns a report with each of the values, and with the step that counts them from 1."""
    return [
        (begin + seconds * n, {name: value, "step": n + 1} if value is not None else {"step": n + 1})
        for n, value in enumerate(values)
    ]


NAN_RULE = {"type": "IsNaN", "metric": "loss"}
RUNS = [
    Run("a NaN loss", NAN_RULE, report_every(10, [2.0, 1.5, NAN]), 25, [(20, 25, "loss is NaN at step 3")]),
    Run("a NaN that passes", NAN_RULE, report_every(10, [2.0, NAN, 1.5]), 30, [(10, 19, "loss is NaN at step 2")]),
    Run("an infinite loss is no NaN", NAN_RULE, report_every(10, [2.0, math.inf, -math.inf]), 40),
    Run(
        "three NaNs in a row, not three in all",
        {**NAN_RULE, "consecutive": 3},
        report_every(10, [NAN, NAN, 1.0, NAN, NAN, NAN]),
        55,
        [(50, 55, "loss is NaN, 3 times in a row, at step 6")],
    ),
    Run("an absent metric", NAN_RULE, report_every(10, [None, None, None, None]), 60),
    Run("a text is no number", NAN_RULE, report_every(10, ["nan", "nan"]), 30),
    Run(
        "a nested metric without a step",
        {"type": "IsNaN", "metric": "eval/loss"},
        [(0, {"eval": {"loss": 1.0}}), (5, {"eval": {"loss": NAN}})],
        6,
        [(5, 6, "eval/loss is NaN in report 2 since the group started")],
    ),
    Run(
        "beyond a threshold, also infinitely",
        {"type": "Above", "metric": "grad_norm", "threshold": "1e2"},
        report_every(10, [100, 101.5, math.inf, NAN, 3], name="grad_norm"),
        50,
        [(10, 29, "grad_norm is 101.5, above 1e2, at step 2")],
    ),
    Run(
        "below for at least a minute, counted from the first report that shows it",
        {"type": "Below", "metric": "tput", "threshold": "5", "windowSeconds": 60},
        report_every(20, [4, 6, 4, 4, 4, 4, 6, 4], name="tput"),
        140,
        [(100, 119, "tput is 4, below 5, 4 times in a row, at step 6")],
    ),
    Run(
        "a plateau, lower is better",
        {"type": "NotImproved", "metric": "loss", "mode": "min", "consecutive": 3},
        report_every(10, [1.0, 0.5, 0.6, 0.5, 0.7, 0.4]),
        55,
        [(40, 49, "loss has not improved on 0.5 for 3 reports and 30 s at step 5")],
    ),
    Run(
        "a plateau, higher is better, by more than the threshold",
        {"type": "NotImproved", "metric": "accuracy", "mode": "max", "threshold": "0.01", "consecutive": 2},
        report_every(10, [0.9, 0.905, 0.909, 0.92], name="accuracy"),
        35,
        [(20, 29, "accuracy has not improved on 0.9 for 2 reports and 20 s at step 3")],
    ),
    Run(
        "a plateau of a metric that appears only at epochs",
        {"type": "NotImproved", "metric": "val", "mode": "min", "windowSeconds": 200},
        report_every(10, [1.0 if n % 10 == 0 else None for n in range(31)], name="val"),
        300,
        [(200, 300, "val has not improved on 1 for 2 reports and 200 s at step 21")],
    ),
    Run(
        "a NaN is no improvement, and no best value",
        {"type": "NotImproved", "metric": "loss", "mode": "min", "consecutive": 2},
        report_every(10, [NAN, NAN, 3.0]),
        25,
        [(10, 19, "loss has not improved for 2 reports and 10 s at step 2")],
    ),
    Run(
        "a drop below an absolute rate",
        {"type": "RateBelow", "metric": "n", "threshold": "0.5", "windowSeconds": 100},
        [(t, {"n": t}) for t in range(0, 201, 10)]
        + [(t, {"n": 160 + t // 5}) for t in range(210, 301, 10)]
        + [(t, {"n": t}) for t in range(310, 501, 10)],
        450,
        [(300, 399, "n grew by 0.2 per second for 100 s, less than 0.5, in report 31 since the group started")],
    ),
    Run(
        "a rate that falls to half, for two windows",
        {"type": "RateBelow", "metric": "n", "threshold": "60%", "windowSeconds": 100, "consecutive": 2},
        [(t, {"n": t}) for t in range(0, 401, 10)] + [(t, {"n": 400 + (t - 400) // 2}) for t in range(410, 801, 10)],
        650,
        [
            (
                600,
                650,
                "n grew by 0.5 per second for 2 windows of 100 s, less than 0.6 (60% of the median of earlier "
                "windows), in report 61 since the group started",
            )
        ],
    ),
    Run(
        "two windows are too few for a median",
        {"type": "RateBelow", "metric": "n", "threshold": "60%", "windowSeconds": 100},
        [(t, {"n": t}) for t in range(0, 201, 10)] + [(t, {"n": 200}) for t in range(210, 300, 10)],
        300,
    ),
    Run(
        "an evaluation that pauses reports for less than the windows is no drop",
        {"type": "RateBelow", "metric": "n", "threshold": "0.1", "windowSeconds": 100, "consecutive": 2},
        [(t, {"n": t}) for t in (*range(0, 101, 10), *range(250, 501, 10))],
        500,
    ),
    Run(
        "reports that stop for two windows",
        {"type": "RateBelow", "metric": "n", "threshold": "0.1", "windowSeconds": 100, "consecutive": 2},
        [(t, {"n": t, "epoch": 4}) for t in range(0, 101, 10)],
        310,
        [(300, 310, "n grew by 0 per second for 2 windows of 100 s, less than 0.1, at epoch 4")],
    ),
    Run(
        "a count that begins again is no drop",
        {"type": "RateBelow", "metric": "n", "threshold": "0.9", "windowSeconds": 100},
        [(t, {"n": t % 150}) for t in range(0, 400, 10)],
        390,
    ),
    Run(
        "steps of the ranks, without any report",
        {"type": "RateBelow", "threshold": "1", "windowSeconds": 60},
        [(t, 2 * t) for t in range(30, 91, 5)] + [(t, 180) for t in range(95, 200, 5)],
        160,
        [(150, 160, "the ranks made 0 steps per second for 60 s, less than 1, before the first report")],
    ),
    Run(
        "no checkpoint for half an hour, until there is one",
        {"type": "NoCheckpoint", "windowSeconds": 1800},
        [(100, {"step": 7, **COMMIT}), (1000, {"step": 8}), (2000, {"step": 9, **COMMIT})],
        2500,
        [(1900, 1999, "no checkpoint was committed for 1800 s, at step 8")],
    ),
    Run(
        "no first checkpoint",
        {"type": "NoCheckpoint", "windowSeconds": 60},
        [],
        70,
        [(60, 70, "no checkpoint was committed for 60 s, before the first report")],
    ),
    Run(
        "a restart begins the time without a checkpoint again",
        {"type": "NoCheckpoint", "windowSeconds": 100},
        [(90, RESTART)],
        190,
        [(190, 190, "no checkpoint was committed for 100 s, before the first report")],
    ),
    Run(
        "a restart begins the reports in a row again",
        {**NAN_RULE, "consecutive": 3},
        [*report_every(10, [NAN, NAN]), (20, RESTART), *report_every(10, [NAN, NAN], begin=30)],
        60,
    ),
    Run(
        "a restart begins the plateau again: the group repeats what came after the checkpoint",
        {"type": "NotImproved", "metric": "loss", "mode": "min", "consecutive": 2},
        [*report_every(10, [3.0, 1.0]), (20, RESTART), *report_every(10, [2.0, 1.5, 1.4], begin=30)],
        60,
    ),
    Run(
        "a restart begins the windows again",
        {"type": "RateBelow", "metric": "n", "threshold": "0.5", "windowSeconds": 100},
        [*[(t, {"n": t}) for t in range(0, 100, 10)], (150, RESTART), (200, {"n": 0}), (290, {"n": 90})],
        299,
    ),
]


def play(run: Run) -> list[tuple[int, int, str]]:
    """Returns when the rule holds, and why."""
    values = {name: value for name, value in run.rule.items() if name != "windowSeconds"}
    rule = MetricRule("r", action="Warn", window_seconds=run.rule.get("windowSeconds", 0), **values)
    rules = MetricRules()
    rules.set_rules([rule], now=0)
    rules.begin_again(now=0)
    records = sorted(run.records, key=lambda each: each[0])
    found: list[tuple[int, int, str]] = []
    for second in range(run.until + 1):
        while records and records[0][0] == second:
            record = records.pop(0)[1]
            if record == RESTART:
                rules.begin_again(now=second)
            elif isinstance(record, int):
                rules.note_steps(record, now=second)
            else:
                metrics = {name: value for name, value in record.items() if name != "commit"}
                rules.note_report(metrics, is_commit="commit" in record, now=second)
        for fired in rules.list_fired(now=second):
            assert fired.rule == rule
            if found and found[-1][1:] == (second - 1, fired.message):
                found[-1] = (found[-1][0], second, fired.message)
            else:
                found.append((second, second, fired.message))
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.what)
def test_a_rule_fires_in_a_recorded_run_when_it_should(run: Run) -> None:
    expected = [(first, last, f"rule r: {text} (spec.metricPolicy.rules[r])") for first, last, text in run.fires]
    assert play(run) == expected


def make_rules(*rules: MetricRule) -> MetricRules:
    made = MetricRules()
    made.begin_again(now=0)
    made.set_rules(rules, now=0)
    return made


def find_names(rules: MetricRules, now: float) -> list[str]:
    return [fired.rule.name for fired in rules.list_fired(now=now)]


def test_several_rules_fire_in_the_order_of_the_spec() -> None:
    rules = make_rules(
        MetricRule("b", "NoCheckpoint", "Warn", window_seconds=5), MetricRule("a", "IsNaN", "Fail", metric="loss")
    )
    rules.note_report({"loss": NAN}, is_commit=False, now=6)
    assert find_names(rules, 6) == ["b", "a"]


def test_a_rule_that_changes_begins_again_and_the_others_go_on() -> None:
    kept = MetricRule("kept", "NoCheckpoint", "Warn", window_seconds=10)
    rules = make_rules(kept, MetricRule("changed", "NoCheckpoint", "Warn", window_seconds=60))
    rules.set_rules([MetricRule("changed", "NoCheckpoint", "Warn", window_seconds=10), kept], now=8)
    assert find_names(rules, 12) == ["kept"]
    assert find_names(rules, 18) == ["changed", "kept"]
    rules.set_rules([], now=18)
    assert not find_names(rules, 30)


LOST = MetricRule("typo", "IsNaN", "Fail", metric="lss")


def test_a_metric_that_no_report_has_is_named_with_those_that_there_are() -> None:
    rules = make_rules(MetricRule("fine", "IsNaN", "Fail", metric="loss"), LOST)
    for second in (0, 300, 600):
        assert not rules.find_missing(now=second)
        rules.note_report({"step": 1, "loss": 0.5}, is_commit=False, now=second)
    assert rules.find_missing(now=600) == (
        "rule typo: no report so far has a number in 'lss', so the rule cannot fire "
        "(spec.metricPolicy.rules[typo].metric); the last report has loss, step"
    )
    rules.note_report({"lss": 0.5}, is_commit=False, now=601)
    assert not rules.find_missing(now=602)
    rules.begin_again(now=602)
    for second in (700, 1000, 1300):
        rules.note_report({"loss": 0.5}, is_commit=False, now=second)
    assert not rules.find_missing(now=1300), "an earlier group had it"


def test_few_reports_are_too_early_to_miss_a_metric() -> None:
    rules = make_rules(LOST)
    rules.note_report({}, is_commit=False, now=0)
    rules.note_report({}, is_commit=False, now=1000)
    assert not rules.find_missing(now=2000)
    rules.note_report({}, is_commit=False, now=2000)
    assert rules.find_missing(now=2000).endswith("the last report has nothing")


def test_steps_are_only_wanted_by_a_rate_without_a_metric() -> None:
    rate = MetricRule("r", "RateBelow", "Warn", threshold="1", window_seconds=60, metric="step")
    assert not make_rules(rate, LOST).wants_steps
    assert make_rules(LOST, MetricRule("r", "RateBelow", "Warn", threshold="1", window_seconds=60)).wants_steps


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (True, 1.0), (np.float32(0.5), 0.5), (np.array(0.25), 0.25), ("1", None), (np.array([1, 2]), None)],
)
def test_a_number_may_be_a_scalar_of_a_library(value: Any, number: float | None) -> None:
    assert read_number({"a": {"b": value}}, "a/b") == number
    assert read_number({}, "a") is None


def test_a_nested_metric_that_is_not_finite_is_named_by_its_path() -> None:
    rules = MetricRules()
    rules.note_report({"step": 7, "val": {"top": {"loss": math.nan}, "acc": 1.0}}, is_commit=False, now=1.0)
    assert rules.find_not_finite().startswith("val/top/loss is NaN, first at step 7;")
