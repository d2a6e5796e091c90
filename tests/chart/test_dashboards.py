"""The Grafana dashboards: their ConfigMaps, and the rules of Grafana's dashboard linter that apply to them.

The linter is a Go module that the module proxy does not have, so its rules are tests here.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.go_program import resolve_program

from tests.chart.chart import Chart
from tests.chart.test_alerts import METRICS as DOCUMENT
from tests.chart.test_alerts import PARTS, PROMTOOL, PROMTOOL_VERSION, SERIES
from tests.chart.test_kube_state_metrics import METRICS as OF_JOBS
from tests.chart.test_kube_state_metrics import RESOURCE

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RANGE = re.compile(r"\[([^]]*)\]")
NAMES = ("operator", "job")

Dashboard = dict[str, Any]


@pytest.fixture(scope="module")
def dashboards(chart: Chart) -> dict[str, Dashboard]:
    """By their names, as the ConfigMaps contain them."""
    maps = chart.render({"dashboards": {"enabled": True, "labels": {"grafana_dashboard": "yes"}}}).of("ConfigMap")
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in maps} == {"yes"}
    return {
        name: json.loads(each["data"][f"railhead-{name}.json"]) for name, each in zip(sorted(NAMES), maps, strict=True)
    }


def test_the_dashboards_are_off_by_default(chart: Chart) -> None:
    assert chart.render().of("ConfigMap") == []


@pytest.mark.parametrize("name", NAMES)
def test_variables_and_panels_follow_the_linters_rules(dashboards: dict[str, Dashboard], name: str) -> None:
    found = dashboards[name]
    variables = {each["name"]: each for each in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert "namespace" in variables
    assert found["uid"].startswith("railhead-")
    assert found["editable"] is False
    ids = [panel["id"] for panel in found["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in found["panels"]:
        assert panel["title"], panel["id"]
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == SOURCE
        for target in panel["targets"]:
            assert target["datasource"] == SOURCE
            assert target["legendFormat"], panel["title"]
            assert set(RANGE.findall(target["expr"])) <= {"$__rate_interval"}, panel["title"]


def test_the_dashboards_use_only_metrics_that_exist(dashboards: dict[str, Dashboard]) -> None:
    known = set(re.findall(r"^\| `(railhead_\w+)`", DOCUMENT.read_text(), re.MULTILINE))
    known |= {f"{RESOURCE['metricNamePrefix']}_{name}" for name in OF_JOBS}
    texts = [json.dumps(found) for found in dashboards.values()]
    used = {PARTS.sub("", name) for text in texts for name in SERIES.findall(text)}
    assert used <= known
    assert f"{RESOURCE['metricNamePrefix']}_phase" in used


@pytest.mark.slow  # builds promtool
def test_promtool_parses_each_expression(dashboards: dict[str, Dashboard], tmp_path: Path) -> None:
    """Grafana replaces the variables first: those in strings are valid as they are."""
    promtool = str(resolve_program(PROMTOOL, PROMTOOL_VERSION, print) / "promtool")
    targets = [each for found in dashboards.values() for panel in found["panels"] for each in panel["targets"]]
    expressions = [each["expr"].replace("$__rate_interval", "5m") for each in targets]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
