"""The configuration for kube-state-metrics names fields that the CRD has, and no metric twice.

tests/api/test_kube_state_metrics.py has kube-state-metrics itself read the file, in a slow test.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from railhead.api.status import Phase

PROJECT = Path(__file__).resolve().parents[2]
FILE = PROJECT / "charts" / "railhead" / "files" / "kube-state-metrics.yaml"
CRD = PROJECT / "crds" / "railhead.dev_trainjobs.yaml"
# Fields of kube-state-metrics' docs/metrics/extend/customresourcestate-metrics.md: it reads its file strictly.
OF_RESOURCE = {"groupVersionKind", "metricNamePrefix", "labelsFromPath", "errorLogV", "metrics"}
KEYS = {"name", "help", "each"}
OF_GAUGE = {"path", "labelFromKey", "labelsFromPath", "valueFrom"}
OF_STATES = {"labelName", "path", "list"}
NUMBERS = ("integer", "number", "string")  # of a string it reads numbers, times, and True and False
NAME = re.compile(r"[a-z][a-z0-9_]*")
DOCUMENT = yaml.safe_load(FILE.read_text())
[RESOURCE] = DOCUMENT["spec"]["resources"]
METRICS: dict[str, dict[str, Any]] = {metric["name"]: metric for metric in RESOURCE["metrics"]}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    [version] = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def find(schema: dict[str, Any], path: list[str]) -> dict[str, Any]:
    for name in path:
        schema = schema["properties"][name]
    return schema


def test_the_kind_is_the_crds_and_each_metric_is_named_once() -> None:
    crd = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)["spec"]
    kind = {"group": crd["group"], "version": crd["versions"][0]["name"], "kind": crd["names"]["kind"]}
    assert RESOURCE["groupVersionKind"] == kind
    assert len(METRICS) == len(RESOURCE["metrics"])
    assert set(DOCUMENT) == {"kind", "spec"} and DOCUMENT["kind"] == "CustomResourceStateMetrics"
    assert set(DOCUMENT["spec"]) == {"resources"} and set(RESOURCE) == OF_RESOURCE


def test_labels_name_fields_of_the_metadata() -> None:
    assert RESOURCE["labelsFromPath"] == {"namespace": ["metadata", "namespace"], "train_job": ["metadata", "name"]}


@pytest.mark.parametrize("name", METRICS)
def test_each_metric_reads_a_field_that_exists(schema: dict[str, Any], name: str) -> None:
    assert set(METRICS[name]) == KEYS
    each = METRICS[name]["each"]
    assert NAME.fullmatch(name) and METRICS[name]["help"].endswith(".")
    if each["type"] == "StateSet":
        assert set(each) == {"type", "stateSet"} and set(each["stateSet"]) == OF_STATES
        assert set(each["stateSet"]["list"]) == set(get_args(Phase)) - {""}
        assert find(schema, each["stateSet"]["path"])["type"] == "string"
        return
    gauge = each["gauge"]
    assert (each["type"], set(each)) == ("Gauge", {"type", "gauge"})
    assert {"path"} <= set(gauge) <= OF_GAUGE
    assert all(map(NAME.fullmatch, (gauge.get("labelFromKey", "a"), *gauge.get("labelsFromPath", {}))))
    field = find(schema, gauge["path"])
    if field["type"] == "array":
        for path in (gauge["valueFrom"], *gauge["labelsFromPath"].values()):
            assert find(field["items"], path)
        assert "maxItems" in field
    else:
        assert (field["type"] == "object") is ("labelFromKey" in gauge)
        values = [field.get("additionalProperties"), *field.get("properties", {}).values()]
        assert all(value["type"] in NUMBERS for value in (values if field["type"] == "object" else [field]) if value)
    if "additionalProperties" in field:
        assert field["maxProperties"] <= 64, "its number of series is bounded"
