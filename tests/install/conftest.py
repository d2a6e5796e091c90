"""A cluster without Railhead (KUBECONFIG's with --kubeconfig, otherwise a local one), and helm."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.helm import resolve_helm

from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl
from railhead.local.session import Session, default_capacity
from tests.install.release import CRD, LOCAL, Releases, Target, split_image

PROJECT = Path(__file__).resolve().parents[2]


def echo(text: str) -> None:
    print(text, file=sys.stderr)


@pytest.fixture(scope="package")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """RBAC is enforced in either."""
    option = request.config.getoption
    if option("--kubeconfig"):
        yield use_cluster(option)
        return
    with tempfile.TemporaryDirectory(prefix="railhead-install-", ignore_cleanup_errors=True) as name:
        session = Session(Path(name))
        capacity = default_capacity()
        session.up(capacity, binaries=resolve(echo), echo=echo, is_ours_only=True, has_operator=False)
        try:
            kubectl = Kubectl(session.kubectl, session.kubeconfig)
            yield Target(kubectl, session.kubeconfig, option("--image"), LOCAL, is_local=True)
        finally:
            session.down()


def use_cluster(option: Callable[[str], Any]) -> Target:
    """A given cluster, which must not have Railhead: the tests remove the CRD and all jobs."""
    image = option("--operator-image")
    assert image, "--operator-image is needed: the chart's default is in no registry"
    kubeconfig, folder = Path(option("--kubeconfig")), option("--volume-folder")
    kubectl = Kubectl(Path(option("--kubectl")), kubeconfig)
    assert not kubectl("get", "crd", CRD, "--ignore-not-found"), "this cluster has TrainJobs, which would be deleted"
    values = {"image": split_image(image)}
    return Target(kubectl, kubeconfig, option("--image"), values, volume_folder=Path(folder) if folder else None)


@pytest.fixture
def releases(target: Target) -> Iterator[Releases]:
    """helm for that cluster; removes releases, jobs and the CRD afterwards."""
    found = Releases(PROJECT / "charts" / "railhead", resolve_helm(echo), target)
    yield found
    found.remove_all()
