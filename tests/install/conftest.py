"""A local cluster without Railhead in it, and helm."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.helm import resolve_helm

from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl
from railhead.local.session import Session, default_capacity
from tests.install.release import Releases

PROJECT = Path(__file__).resolve().parents[2]


def say(text: str) -> None:
    print(text, file=sys.stderr)


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[Session]:
    """Control plane and node, RBAC as on any cluster."""
    with tempfile.TemporaryDirectory(prefix="railhead-install-", ignore_cleanup_errors=True) as name:
        session = Session(Path(name))
        capacity = default_capacity()
        session.up(capacity, binaries=resolve(say), say=say, is_ours_only=True, has_operator=False)
        try:
            yield session
        finally:
            session.down()


@pytest.fixture
def releases(bare_cluster: Session) -> Iterator[Releases]:
    """helm on that cluster; releases, jobs and the CRD are removed afterwards."""
    kubectl = Kubectl(bare_cluster.kubectl, bare_cluster.kubeconfig)
    found = Releases(PROJECT / "charts" / "railhead", resolve_helm(say), bare_cluster.kubeconfig, kubectl)
    yield found
    found.remove_all()
