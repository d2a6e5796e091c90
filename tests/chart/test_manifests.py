"""Base, overlays and install.yaml match the chart, and kustomize can move them to another namespace."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.chart import NAMESPACE, Chart, Object, Rendered

PROJECT = Path(__file__).resolve().parents[2]
MANIFESTS = PROJECT / "manifests"
OVERLAYS = sorted(folder.name for folder in (MANIFESTS / "overlays").iterdir())
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")
BLOCK = re.compile(r"^( *)```yaml\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def build(kubectl: Path, folder: Path) -> Rendered:
    done = subprocess.run([str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return load(done.stdout)


def build_pages(kubectl: Path, folder: Path, page: str) -> list[Rendered]:
    """Builds each kustomization of a page in a folder beside this checkout, which the page names `railhead`."""
    (folder / "railhead").symlink_to(PROJECT)
    (folder / "own").mkdir()
    (folder / "own" / "digits.yaml").write_text((MANIFESTS / "examples" / "digits.yaml").read_text())
    blocks = [textwrap.dedent(block) for _, block in BLOCK.findall((PROJECT / "docs" / page).read_text())]
    built = []
    for block in blocks:
        if "kind: Kustomization" in block:
            (folder / "own" / "kustomization.yaml").write_text(block)
            built.append(build(kubectl, folder / "own"))
    assert {each.container["image"] for each in built} == {"registry.example.com/railhead/operator:0.1.0"}
    return built


def load(text: str) -> Rendered:
    return Rendered([document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document])


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """The objects by kind and name, without the labels that only Helm sets."""
    found = {}
    for each in objects:
        labels = {k: v for k, v in (each["metadata"].get("labels") or {}).items() if k not in HELM_LABELS}
        metadata = {**each["metadata"], "labels": labels}
        found[each["kind"], str(metadata["name"])] = {**each, "metadata": metadata}
    return found


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_equals_the_chart_with_its_values(chart: Chart, kubectl: Path, name: str) -> None:
    values: dict[str, Any] = yaml.safe_load((MANIFESTS / "overlays" / name / "values.yaml").read_text()) or {}
    charts = by_name(chart.render(values).objects)
    built = build(kubectl, MANIFESTS / "overlays" / name).objects
    added = {"Namespace", "CustomResourceDefinition"}
    assert by_name([o for o in built if o["kind"] not in added]) == charts
    assert {o["kind"] for o in built} & added == (set() if name == "namespaced" else added)
    assert not any(label in o["metadata"].get("labels", {}) for o in built for label in HELM_LABELS)


def test_install_yaml_is_the_default_overlay(kubectl: Path) -> None:
    installed = load((MANIFESTS / "install.yaml").read_text()).objects
    assert by_name(installed) == by_name(build(kubectl, MANIFESTS / "overlays" / "default").objects)
    assert [o["kind"] for o in installed[:2]] == ["Namespace", "CustomResourceDefinition"]  # dependencies first


def test_high_availability_is_more_than_replicas(kubectl: Path) -> None:
    built = build(kubectl, MANIFESTS / "overlays" / "ha")
    assert built.one("Deployment")["spec"]["replicas"] == 2
    assert "--leader-election" in built.container["args"]
    assert built.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert built.pod["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"


def test_the_namespaced_overlay_moves_to_any_namespace(kubectl: Path, tmp_path: Path) -> None:
    """Kustomize does not change arguments, so none of them may contain the namespace."""
    _, built = build_pages(kubectl, tmp_path, "operate/install.md")
    namespaced = [o for o in built.objects if not o["kind"].startswith("Cluster")]
    assert {o["metadata"]["namespace"] for o in namespaced} == {"team-a"}
    subjects = [s for kind in ("RoleBinding", "ClusterRoleBinding") for b in built.of(kind) for s in b["subjects"]]
    assert {s["namespace"] for s in subjects} == {"team-a"}
    assert not any(NAMESPACE in argument for argument in built.container["args"])
    assert {right[0] for right in built.grants("Role")} == {"team-a"}
    assert built.grants("ClusterRole") == {("", "create", "authentication.k8s.io", "tokenreviews")}


def test_reports_stale_manifests(
    chart: Chart, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tools import manifests

    monkeypatch.setattr(manifests, "build_all", lambda _: iter([(MANIFESTS / "install.yaml", "other")]))
    monkeypatch.setattr(sys, "argv", ["manifests", "--check"])
    assert manifests.main() == 1
    assert "manifests/install.yaml is stale: run `make generate`" in capsys.readouterr().err
