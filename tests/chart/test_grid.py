"""A real API server accepts what the chart renders: many combinations of values, by server-side dry runs."""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.local.control_plane import ControlPlane
from tests.chart.chart import RELEASES, Chart
from tests.slow_cases import slow_after

NAMESPACE = "grid"
WATCHED = ("grid-a", "grid-b")
PEER = {"namespaceSelector": {"matchLabels": {"team": "ml"}}}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
FEATURES: dict[str, dict[str, Any]] = {
    "crd": {"crds": {"enabled": True, "annotations": {"team": "ml"}}},
    "names": {"nameOverride": "other", "fullnameOverride": "grid-other"},
    "labels": {"commonLabels": {"cost": "42"}, "podLabels": {"pod": "yes"}, "podAnnotations": {"note": "a: b"}},
    "digest": {"image": {"repository": "r.example:5000/railhead", "digest": "sha256:" + "0" * 64}},
    "pull": {"image": {"pullPolicy": "Always"}, "imagePullSecrets": [{"name": "registry"}]},
    "replicas": {"replicas": 3, "leaderElection": {"leaseSeconds": 30}},
    "alone": {"replicas": 1, "leaderElection": {"enabled": False}},
    "watched": {"watchNamespaces": list(WATCHED)},
    "own": {"watchNamespaces": [NAMESPACE]},
    "selected": {"jobSelector": "team in (a, b),!legacy"},
    "flow": {"flowSchema": {"enabled": True, "concurrencyShares": 5}},
    "resources": {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}},
    "placement": {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
        "priorityClassName": "system-cluster-critical",
    },
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        ]
    },
    "budget": {"podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"}},
    "no policy": {"networkPolicy": {"enabled": False}},
    "narrow": {
        "networkPolicy": {"enabled": True, "extraFrom": [PEER], "probesFrom": [PEER], "egress": [{"to": [PEER]}]}
    },
    "jobs": {"jobNetworkPolicy": {"extraFrom": [PEER], "metricsFrom": [PEER], "egress": [{"to": [PEER]}]}},
    "no policies of jobs": {"jobNetworkPolicy": {"enabled": False}},
    "log archive": {"jobs": {"logArchive": {"default": "All", "most": "Failed"}}},
    "accounts": {"jobs": {"allowedServiceAccounts": ["trainer"]}},
    "restricted": {"jobs": {"restrictPodTemplate": True, "allowedSecrets": ["*"], "allowedClaims": ["runs"]}},
    "probes": {
        "startupProbe": {"periodSeconds": 3},
        "livenessProbe": {"initialDelaySeconds": 1},
        "readinessProbe": {"periodSeconds": 7},
    },
    "extra": {
        "extraArgs": ["--log-level=DEBUG"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca", "readOnly": True}],
        "extraObjects": ["{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Release.Name }}-extra'}}"],
    },
    "account": {"serviceAccount": {"create": False, "name": "default"}},
    "annotated": {"serviceAccount": {"annotations": {"a": "b"}}, "service": {"annotations": {"c": "d"}, "port": 443}},
    "rights": {"rbac": {"create": False}},
    "metrics": {"metrics": {"authentication": True}},
    "people": {"rbac": {"aggregate": False}},
}


def grid() -> Iterator[tuple[str, dict[str, Any]]]:
    """The defaults, one with most of the features, each feature, and each pair of neighbours in the list."""
    yield "defaults", {}
    names = list(FEATURES)
    several = (name for name in names if name not in ("alone", "own", "account", "rights"))
    yield "most", {key: value for name in several for key, value in FEATURES[name].items()}
    yield from FEATURES.items()
    for first, second in itertools.pairwise(names):
        if {first, second} != {"replicas", "alone"}:  # rejected, see test_values.py
            yield f"{first}+{second}", {**FEATURES[first], **FEATURES[second]}


GRID = dict(grid())
# The others are slow: "most" has these features too, and what may clash.
ALONE = [name for name, values in FEATURES.items() if not values.items() <= GRID["most"].items()]
NAMES = slow_after(2 + len(ALONE), dict.fromkeys(["defaults", "most", *ALONE, *GRID]))


@pytest.fixture(scope="module")
def to_server(control_plane: ControlPlane) -> list[str]:
    """kubectl for a server with the namespaces, which warns about what Pod Security "restricted" would reject."""
    command = [str(control_plane.binaries / "kubectl"), "--kubeconfig", str(control_plane.kubeconfig)]
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    for name in (NAMESPACE, *WATCHED):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        subprocess.run([*command, "apply", "-f", "-"], input=json.dumps(body), text=True, check=True)
    return command


def test_the_grid_is_large_enough() -> None:
    assert len(GRID) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_accepts_the_chart(chart: Chart, to_server: list[str], name: str) -> None:
    check(chart, to_server, {"crds": {"enabled": False}, **GRID[name]}, release="grid")


# The others are slow: test_operator has the names that come of them.
@pytest.mark.parametrize("release", slow_after(2, RELEASES))
def test_the_api_server_accepts_the_names_of_any_release(chart: Chart, to_server: list[str], release: str) -> None:
    check(chart, to_server, {"crds": {"enabled": False}, "watchNamespaces": list(WATCHED)}, release=release)


def check(chart: Chart, to_server: list[str], values: dict[str, Any], *, release: str) -> None:
    text = chart.template(values, release=release, namespace=NAMESPACE)
    command = [*to_server, "apply", "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # If another test created the CRD by server-side apply, kubectl only warns that it will annotate it.
    warnings = [
        line for line in done.stderr.splitlines() if "Warning" in line and "last-applied-configuration" not in line
    ]
    assert not warnings
    assert len(done.stdout.splitlines()) == len(chart.render(values, release=release, namespace=NAMESPACE).objects)


def test_the_api_server_warns_about_unrestricted_pods(chart: Chart, to_server: list[str]) -> None:
    """So the tests above would notice."""
    text = chart.template({"securityContext": {"allowPrivilegeEscalation": True}}, release="grid", namespace=NAMESPACE)
    command = [*to_server, "apply", "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert "would violate PodSecurity" in done.stderr


@pytest.mark.parametrize("watched", [[], ["grid-a"]])
def test_the_notes_list_the_next_three_commands(
    chart: Chart, to_server: list[str], control_plane: ControlPlane, watched: list[str]
) -> None:
    command = [str(chart.helm), "install", "grid", str(chart.folder), "--kubeconfig", str(control_plane.kubeconfig)]
    options = ["-n", NAMESPACE, "--dry-run=server", "--set", "crds.enabled=false", "-f", "-"]
    values = json.dumps({"watchNamespaces": watched})
    done = subprocess.run([*command, *options], input=values, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("NOTES:\n")[2]
    where = "-n grid-a" if watched else "-A"
    assert [line.strip() for line in notes.splitlines() if line.startswith("     ")] == [
        "kubectl -n grid rollout status deployment/grid-railhead-operator",
        f"kubectl apply {'-n grid-a ' if watched else ''}-f digits.yaml",
        f"kubectl get rtj {where} -w",
    ]
    assert "is not part of this release (crds.enabled=false)" in notes
