"""Kueue's stand-in on the operator's API server, with the rights for it that the chart gives the operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tools.helm import resolve_helm

from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl
from tests.api.server import ApiServer
from tests.chart.chart import Chart
from tests.kueue.stand_in import install_kueue, remove_kueue
from tests.operator.account import CHART


@contextmanager
def serve_kueue(server: ApiServer, plane: ControlPlane) -> Iterator[None]:
    """The API server has Kueue's kinds, and the operator the chart's roles with queue.kueue.enabled."""
    install_kueue(server)
    _apply_roles(plane, is_enabled=True)
    try:
        yield
    finally:
        remove_kueue(server)
        _apply_roles(plane, is_enabled=False)


def _apply_roles(plane: ControlPlane, *, is_enabled: bool) -> None:
    chart = Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
    rendered = chart.render({"queue": {"kueue": {"enabled": is_enabled}}})
    Kubectl(plane.binaries / "kubectl", plane.kubeconfig).apply(rendered.of("ClusterRole"))
