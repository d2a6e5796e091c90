"""The operator's answer to a report survives JSON, also between versions."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import pytest

from railhead.contract.answer import Answer
from railhead.contract.failure import FailureRule
from railhead.contract.loss_rate import JobLosses, LossHistory
from railhead.contract.metric_rule import MetricRule

FULL = Answer(
    progress_deadline_seconds=600,
    hang_policy="Restart",
    restarts_in_place=2,
    failure_rules=(FailureRule("Fail", reasons=("A",)), FailureRule("Restart", exit_codes=(3, 4), is_not_in=True)),
    metric_rules=(
        MetricRule("nan", "IsNaN", "Restart", metric="loss"),
        MetricRule("slow", "RateBelow", "Warn", threshold="60%", window_seconds=600, consecutive=2),
    ),
    losses=LossHistory(2, 7200.0, JobLosses(5, 3.6e6)),
    next_report_seconds=8.5,
)


def test_each_field_arrives() -> None:
    same = [each.name for each in fields(Answer) if getattr(FULL, each.name) == getattr(Answer(), each.name)]
    assert not same, "this test does not set them"
    assert Answer.from_json(json.dumps({"message": "accepted", **asdict(FULL)})) == FULL
    assert FULL.metric_rules[0].path == "spec.metricPolicy.rules[nan]"


def test_what_only_a_newer_operator_knows_is_left_out_and_what_an_older_one_lacks_has_its_default() -> None:
    values = json.loads(json.dumps(asdict(FULL)))
    values["of_a_newer_operator"] = {"a": 1}
    values["metric_rules"][0]["severity"] = "High"
    values["failure_rules"][0]["nodes"] = ["a"]
    values["metric_rules"].append({"name": "new", "type": "Drifts", "action": "Warn"})
    assert Answer.from_json(json.dumps(values)) == FULL
    assert Answer.from_json('{"message": "accepted"}') == Answer()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "null",
        "[]",
        "1",
        '{"progress_deadline_seconds": "soon"}',
        '{"progress_deadline_seconds": null, "restarts_in_place": "many"}',
        '{"next_report_seconds": null}',
        '{"failure_rules": ["a"]}',
        '{"failure_rules": 1}',
        '{"failure_rules": [null]}',
        '{"failure_rules": null}',
        '{"losses": null}',
        '{"losses": {"number": "many"}}',
        '{"losses": {"others": null}}',
        '{"losses": {"others": {"gpu_seconds": "much"}}}',
        '{"hang_policy": null}',
        '{"metric_rules": [{"type": "IsNaN"}]}',
    ],
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Answer.from_json(text)
