"""What all tests share: a real control plane, started once for a run when a test asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd, API server, controller manager and scheduler, without a node."""
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), binaries=resolve(lambda text: print(text, file=sys.stderr)))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
