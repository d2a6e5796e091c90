"""The rules survive the way to the driver, and one that only a newer operator knows is left out."""

from __future__ import annotations

import json
from dataclasses import asdict

from railhead.contract.metric_policy import MetricRule, read_metric_rules


def test_the_rules_survive_json_and_unknown_ones_are_left_out() -> None:
    rules = (
        MetricRule("nan", "IsNaN", "Restart", metric="loss"),
        MetricRule("slow", "RateBelow", "Warn", threshold="60%", window_seconds=600, consecutive=2),
    )
    values = json.loads(json.dumps([asdict(rule) for rule in rules]))
    values[0]["severity"] = "of a newer operator"
    assert read_metric_rules([*values, {"name": "new", "type": "Drifts", "action": "Warn"}]) == rules
    assert rules[0].path == "spec.metricPolicy.rules[nan]"
