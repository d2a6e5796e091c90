"""Kueue on the operator's API server, with the rights for it that the chart gives the operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools.helm import resolve_helm

from railhead.local.control_plane import ControlPlane
from railhead.local.install import Kubectl
from tests.api.server import ApiServer
from tests.chart.chart import Chart, Rendered
from tests.kueue.client import Installation
from tests.kueue.definitions import GROUP
from tests.kueue.real import RealInstallation
from tests.kueue.stand_in import StandInInstallation
from tests.operator.account import CHART

REAL = "RAILHEAD_KUEUE"
needs_real = pytest.mark.skipif(REAL not in os.environ, reason=f"{REAL} doesn't name a folder with Kueue's program")


@contextmanager
def serve_kueue(server: ApiServer, plane: ControlPlane, folder: Path) -> Iterator[Installation]:
    """The stand-in, or Kueue's own program where the environment names its folder."""
    source = os.environ.get(REAL)
    kueue: Installation = StandInInstallation(server)
    if source:
        kueue = RealInstallation(folder, source=Path(source), server=server, plane=plane)
    kueue.install()
    _apply_roles(plane, is_enabled=True)
    try:
        yield kueue
    finally:
        _apply_roles(plane, is_enabled=False)
        kueue.remove()


def find_rights() -> set[tuple[str, str]]:
    """Returns the verbs and resources of Kueue's group that the chart's roles grant the operator."""
    granted = _render(is_enabled=True).grants("ClusterRole")
    return {(verb, resource) for _, verb, group, resource in granted if group == GROUP}


def _apply_roles(plane: ControlPlane, *, is_enabled: bool) -> None:
    rendered = _render(is_enabled=is_enabled)
    Kubectl(plane.binaries / "kubectl", plane.kubeconfig).apply(rendered.of("ClusterRole"))


def _render(*, is_enabled: bool) -> Rendered:
    chart = Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
    return chart.render({"queue": {"kueue": {"enabled": is_enabled}}})
