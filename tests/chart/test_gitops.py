"""The ready-made files for Argo CD and Flux apply objects in the right order."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import yaml

from tests.chart.chart import Chart, Object
from tests.chart.test_manifests import BLOCK, MANIFESTS, build, build_pages, load

WAVE = "argocd.argoproj.io/sync-wave"
OPTIONS = "argocd.argoproj.io/sync-options"


def find(objects: list[Object], kind: str, name: str = "") -> Object:
    [found] = [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]
    return found


def test_the_pages_kustomization_orders_crd_operator_and_jobs(kubectl: Path, tmp_path: Path) -> None:
    [built] = build_pages(kubectl, tmp_path, "how-to/gitops.md")
    waves = {o["kind"]: int(o["metadata"].get("annotations", {}).get(WAVE, 0)) for o in built.objects}
    assert waves["CustomResourceDefinition"] < waves["Deployment"] < waves["TrainJob"]
    crd, job = built.one("CustomResourceDefinition"), built.one("TrainJob")
    assert crd["metadata"]["annotations"][OPTIONS] == "Prune=false,Delete=false"
    assert job["metadata"]["annotations"][OPTIONS] == "SkipDryRunOnMissingResource=true"
    assert job["metadata"]["name"] == "digits"


def test_no_tool_may_replace_a_job(kubectl: Path) -> None:
    application = yaml.safe_load((MANIFESTS / "gitops" / "argocd" / "application.yaml").read_text())
    options = application["spec"]["syncPolicy"]["syncOptions"]
    assert not {"Replace=true", "Force=true"} & set(options)
    for each in load((MANIFESTS / "gitops" / "flux" / "sync.yaml").read_text()).objects:
        assert not each["spec"].get("force")


def test_flux_waits_for_the_operator_before_the_jobs(kubectl: Path) -> None:
    objects = load((MANIFESTS / "gitops" / "flux" / "sync.yaml").read_text()).objects
    operator, jobs = find(objects, "Kustomization", "railhead-operator"), find(objects, "Kustomization", "jobs")
    assert jobs["spec"]["dependsOn"] == [{"name": operator["metadata"]["name"]}]
    assert operator["spec"]["wait"] and jobs["spec"]["wait"]
    assert jobs["spec"]["targetNamespace"], "the examples name no namespace, and Flux has no default"
    sources = {o["metadata"]["name"] for o in objects if o["kind"] == "GitRepository"}
    assert {o["spec"]["sourceRef"]["name"] for o in (operator, jobs)} == sources
    [release] = build(kubectl, MANIFESTS.parent / operator["spec"]["path"]).objects
    assert (MANIFESTS.parent / release["spec"]["chart"]["spec"]["chart"] / "Chart.yaml").is_file()
    assert release["spec"]["chart"]["spec"]["sourceRef"]["name"] == operator["spec"]["sourceRef"]["name"]


def test_the_pages_patch_turns_on_the_gate_of_flux(kubectl: Path, tmp_path: Path) -> None:
    page = (MANIFESTS.parent / "docs" / "how-to" / "gitops.md").read_text()
    [block] = [textwrap.dedent(block) for _, block in BLOCK.findall(page) if "kustomize-controller" in block]
    container = {"name": "manager", "args": ["--watch-all-namespaces"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kustomize-controller"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    (tmp_path / "deployment.yaml").write_text(yaml.safe_dump(deployment))
    (tmp_path / "kustomization.yaml").write_text(f"resources: [deployment.yaml]\n{block}")
    arguments = build(kubectl, tmp_path).container["args"]
    assert arguments == [*container["args"], "--feature-gates=CancelHealthCheckOnNewRevision=true"]


def test_the_chart_accepts_the_values_of_the_flux_release(chart: Chart) -> None:
    release = yaml.safe_load((MANIFESTS / "gitops" / "flux" / "operator" / "helmrelease.yaml").read_text())
    container = chart.render(release["spec"]["values"], release=release["spec"]["releaseName"]).container
    assert container["image"] == "registry.example.com/railhead/operator:0.1.0"


def test_the_argocd_patch_applies_to_its_config_map(kubectl: Path, tmp_path: Path) -> None:
    current = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": {"url": "https://x"}}
    (tmp_path / "argocd-cm.json").write_text(yaml.safe_dump(current))
    patch = MANIFESTS / "gitops" / "argocd" / "argocd-cm.yaml"
    command = [str(kubectl), "patch", "--local", "-f", str(tmp_path / "argocd-cm.json"), "--type=merge", "-o", "yaml"]
    done = subprocess.run([*command, "--patch-file", str(patch)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load(done.stdout)["data"]
    assert set(data) == {"url", "resource.customizations.health.railhead.dev_TrainJob"}
