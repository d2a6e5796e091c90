"""The chart as helm renders it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools.helm import resolve_helm

from tests.chart.chart import Chart

CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"


@pytest.fixture(scope="session")
def chart() -> Chart:
    return Chart(CHART, resolve_helm(lambda text: print(text, file=sys.stderr)))
