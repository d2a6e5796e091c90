"""A second operator's namespace, service account and roles, as the chart has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.helm import resolve_helm

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.servers import write_kubeconfig
from railhead.local.install import Kubectl
from tests.chart.chart import Chart, Rendered

CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"
KINDS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@contextmanager
def make_account(
    plane: ControlPlane, namespace: str, values: Mapping[str, Any], kubeconfig: Path
) -> Iterator[Rendered]:
    """Applies what the chart renders for this namespace and writes a kubeconfig; yields what was rendered."""
    chart = Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
    rendered = chart.render({**values, "rbac": {"aggregate": False}}, namespace=namespace)
    kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
    kubectl("create", "namespace", namespace)
    try:
        kubectl.apply([document for kind in KINDS for document in rendered.of(kind)])
        token = kubectl("create", "token", "railhead-operator", "-n", namespace).strip()
        write_kubeconfig(kubeconfig, server=plane.server, pki=plane.pki, token=token)
        yield rendered
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
