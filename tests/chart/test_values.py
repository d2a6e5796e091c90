"""Values: all are described and have a schema, and wrong ones are rejected with a clear message."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tools.chart_values import build_table

from railhead._version import __version__
from tests.chart.chart import Chart, RenderFailed


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"replicas": 4}, "at '/replicas': maximum: got 4, want 3"),
        ({"replicas": 2, "leaderElection": {"enabled": False}}, "replicas: 2 pods need leaderElection.enabled=true"),
        ({"replicas": "1"}, "at '/replicas': got string, want integer"),
        ({"logLevel": "debug"}, "at '/logLevel': value must be one of 'DEBUG', 'INFO', 'WARNING', 'ERROR'"),
        ({"image": {"digest": "1234"}}, "at '/image/digest': '1234' does not match pattern"),
        ({"image": {"repository": ""}}, "at '/image/repository': minLength: got 0, want 1"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of"),
        ({"crds": {"enabled": "yes"}}, "at '/crds/enabled': got string, want boolean"),
        ({"watchNamespaces": ["Team_A"]}, "at '/watchNamespaces/0': 'Team_A' does not match pattern"),
        ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
        ({"prometheusRule": {"runbookURL": "docs/operate/runbook.md"}}, "at '/prometheusRule/runbookURL': 'docs"),
        ({"jobSelector": ["team=a"]}, "at '/jobSelector': got array, want string"),
        ({"jobs": {"allowedSecrets": ["Keys"]}}, "at '/jobs/allowedSecrets/0': 'Keys' does not match pattern"),
        ({"jobs": {"allowedServiceAccounts": ["a'] + ['b"]}}, "at '/jobs/allowedServiceAccounts/0'"),
        ({"jobs": {"allowedSecrets": ["keys"]}}, "jobs.allowedSecrets and jobs.allowedClaims need jobs.restrictPodTem"),
        ({"jobs": {"allowedClaims": ["a"], "allowedServiceAccounts": ["b"]}}, "need jobs.restrictPodTemplate=true"),
        ({"flowSchema": {"concurrencyShares": 0}}, "at '/flowSchema/concurrencyShares': minimum: got 0, want 1"),
        ({"imagePullSecrets": ["registry"]}, "at '/imagePullSecrets/0': got string, want object"),
        ({"extraArgs": "--x"}, "at '/extraArgs': got string, want array"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "at '/podDisruptionBudget/maxUnavailable'"),
        ({"podMonitor": {"interval": "30"}}, "at '/podMonitor/interval': '30' does not match pattern"),
        (
            {"metrics": {"authentication": True}, "podMonitor": {"enabled": True}},
            "podMonitor.tokenSecret.name is required with metrics.authentication",
        ),
        ({"service": {"port": 0}}, "at '/service/port': minimum: got 0, want 1"),
        ({"podLabels": {"a": 1}}, "at '/podLabels/a': got number, want string"),
        ({"livenessProbe": {"period": 1}}, "at '/livenessProbe': additional properties 'period' not allowed"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is required with serviceAccount.create=false"),
    ],
    ids=json.dumps,
)
def test_wrong_values_are_rejected_with_a_clear_message(chart: Chart, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RenderFailed) as caught:
        chart.render(values)
    assert message in str(caught.value)


def test_an_old_kubernetes_is_rejected(chart: Chart) -> None:
    with pytest.raises(RenderFailed, match=r"requires kubeVersion: >=1\.31"):
        chart.render(options="--kube-version 1.30.9")
    chart.render(options="--kube-version 1.31.0-gke.1")


def test_helm_lint_passes(chart: Chart) -> None:
    done = subprocess.run([str(chart.helm), "lint", "--strict", str(chart.folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def paths(values: dict[str, Any], schema: dict[str, Any], *, prefix: str = "") -> Iterator[str]:
    """Paths of the values, down to those whose schema has no properties."""
    for name, value in values.items():
        inner = schema["properties"].get(name, {})
        if isinstance(value, dict) and inner.get("properties"):
            yield from paths(value, inner, prefix=f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_value_has_a_schema_and_vice_versa(chart: Chart) -> None:
    values = yaml.safe_load((chart.folder / "values.yaml").read_text())
    schema = json.loads((chart.folder / "values.schema.json").read_text())
    unknown = [path for path in paths(values, schema) if not is_known(path, schema)]
    assert unknown == []
    assert set(schema["properties"]) - set(values) == {"global"}  # Helm's own
    for name in (
        "crds",
        "image",
        "serviceAccount",
        "rbac",
        "service",
        "leaderElection",
        "certManager",
        "podMonitor",
        "prometheusRule",
        "dashboards",
        "podDisruptionBudget",
        "networkPolicy",
        "jobs",
    ):
        assert set(schema["properties"][name]["properties"]) == set(values[name]), name


def is_known(path: str, schema: dict[str, Any]) -> bool:
    node = schema
    for part in path.split("."):
        node = (node.get("properties") or {}).get(part)  # type: ignore[assignment]
        if node is None:
            return False
    return True


def test_the_chart_has_the_operators_version(chart: Chart) -> None:
    about = yaml.safe_load((chart.folder / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == __version__


def test_the_table_requires_a_comment_for_each_value() -> None:
    assert build_table("# -- So.\na: {b: 1}\nc:\n  # -- More.\n  d: []\n").splitlines()[2:] == [
        '| `a` | `{"b": 1}` | So. |',
        "| `c.d` | `[]` | More. |",
    ]
    with pytest.raises(ValueError, match=r"c\.e has no comment"):
        build_table("c:\n  # -- More.\n  d: []\n  e: 1\n")
    with pytest.raises(ValueError, match=r"line 2: the comment 'Lost\.' has no value below it"):
        build_table("# -- Lost.\n\na: 1\n")
