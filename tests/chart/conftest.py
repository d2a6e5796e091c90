"""The chart as helm renders it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools.helm import resolve_helm

from railhead.local.control_plane.binaries import resolve
from tests.chart.chart import Chart

CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"


@pytest.fixture(scope="session")
def chart() -> Chart:
    return Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """Path of the binary; to render, it needs no cluster."""
    return resolve(lambda text: print(text, file=sys.stderr)) / "kubectl"
