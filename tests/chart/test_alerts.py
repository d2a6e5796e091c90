"""The chart's alerts: their form, and by promtool the minutes in which they fire."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.go_program import resolve_program

from railhead.local.control_plane.binaries import GoModule
from tests.chart.alert_cases import CASES, Case
from tests.chart.chart import Chart

PROJECT = Path(__file__).resolve().parents[2]
RUNBOOK = PROJECT / "docs" / "operate" / "runbook.md"
METRICS = PROJECT / "docs" / "reference" / "metrics.md"  # a test compares it with what the operator exports
SERIES = re.compile(r"\brailhead_\w+")
PARTS = re.compile(r"_(?:bucket|count|sum)$")  # of a histogram
# Service discovery is half of its code.
PROMTOOL = GoModule("promtool", package="github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd")
PROMTOOL_VERSION = "0.316.0"
URL = "https://docs.example/runbook.html"

Rule = dict[str, Any]


@pytest.fixture(scope="module")
def spec(chart: Chart) -> dict[str, Any]:
    values = {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "runbookURL": URL}}
    rule = chart.render(values).one("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    found: dict[str, Any] = rule["spec"]
    return found


@pytest.fixture(scope="module")
def rules(spec: dict[str, Any]) -> dict[str, Rule]:
    """By the alert's name."""
    found = [rule for group in spec["groups"] for rule in group["rules"]]
    by_name = {rule["alert"]: rule for rule in found}
    assert len(by_name) == len(found)
    return by_name


def test_the_rule_is_off_by_default(chart: Chart) -> None:
    assert chart.render().of("PrometheusRule") == []


def test_every_alert_has_severity_summary_description_and_runbook(rules: dict[str, Rule]) -> None:
    for name, rule in rules.items():
        notes = rule["annotations"]
        assert name.startswith("Railhead")
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert notes["summary"].endswith("."), name
        assert "{{" not in notes["summary"], f"{name}: a summary has no labels"
        assert len(notes["summary"]) < 80, name
        assert notes["description"].endswith("."), name
        assert notes["runbook_url"] == f"{URL}#{name.lower()}"


def test_without_an_address_of_the_runbook_no_alert_has_a_dead_link(chart: Chart) -> None:
    rule = chart.render({"prometheusRule": {"enabled": True}}).one("PrometheusRule")
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts
    assert [alert["alert"] for alert in alerts if "runbook_url" in alert["annotations"]] == []


def test_the_runbook_has_an_entry_for_every_alert_and_no_other(rules: dict[str, Rule]) -> None:
    assert re.findall(r"^### (Railhead\w+)$", RUNBOOK.read_text(), re.MULTILINE) == list(rules)


def test_the_alerts_use_only_metrics_that_are_documented(rules: dict[str, Rule]) -> None:
    documented = set(re.findall(r"^\| `(railhead_\w+)`", METRICS.read_text(), re.MULTILINE))
    used = {PARTS.sub("", name) for rule in rules.values() for name in SERIES.findall(rule["expr"])}
    assert used <= documented


def test_every_alert_has_a_case(rules: dict[str, Rule]) -> None:
    assert {case.alert for case in CASES} == set(rules)


def write_test(case: Case, rule: Rule) -> dict[str, Any]:
    """Returns promtool's test of one firing: not one minute before, in its minute, and not after its end."""
    firing = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "description": case.description},
    }
    times: tuple[tuple[int, list[Rule]], ...] = ((case.fires - 1, []), (case.fires, [firing]), (case.ends, []))
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": expected} for minute, expected in times
        ],
    }


@pytest.mark.slow  # builds promtool
def test_each_alert_fires_in_its_minute_and_not_before_or_after(
    spec: dict[str, Any], rules: dict[str, Rule], tmp_path: Path
) -> None:
    promtool = str(resolve_program(PROMTOOL, PROMTOOL_VERSION, print) / "promtool")
    file, test = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(spec))
    tests = [write_test(case, rules[case.alert]) for case in CASES]
    test.write_text(yaml.safe_dump({"rule_files": [str(file)], "evaluation_interval": "1m", "tests": tests}))
    for command in (["check", "rules", "--lint=all", "--lint-fatal", str(file)], ["test", "rules", str(test)]):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
