"""The chart's CRD equals the project's."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.chart.chart import Chart

CRD = Path(__file__).resolve().parents[2] / "crds" / "railhead.dev_trainjobs.yaml"
KEEP = "helm.sh/resource-policy"


def test_the_charts_crd_equals_the_one_in_crds(chart: Chart) -> None:
    """Except for added labels and annotations of the release."""
    ours = yaml.load(CRD.read_text(), Loader=yaml.CSafeLoader)
    charts = chart.render({"crds": {"enabled": True}}).one("CustomResourceDefinition")
    assert {**charts, "metadata": None} == {**ours, "metadata": None}
    for key in ("labels", "annotations"):
        added, own = charts["metadata"].pop(key), ours["metadata"].pop(key, {})
        assert own.items() <= added.items()
    assert charts["metadata"] == ours["metadata"]


def test_the_crd_survives_an_uninstall_by_default(chart: Chart) -> None:
    kept = chart.render({"crds": {"annotations": {"team": "ml"}}}).one("CustomResourceDefinition")
    assert kept["metadata"]["annotations"] == {KEEP: "keep", "team": "ml"} | kept["metadata"]["annotations"]
    not_kept = chart.render({"crds": {"keep": False}}).one("CustomResourceDefinition")
    assert KEEP not in not_kept["metadata"].get("annotations", {})


def test_the_crd_can_be_disabled(chart: Chart) -> None:
    assert chart.render({"crds": {"enabled": False}}).of("CustomResourceDefinition") == []


def test_helm_upgrades_the_crd(chart: Chart) -> None:
    """Helm never upgrades what is in a chart's folder crds."""
    assert not (chart.folder / "crds").exists()
