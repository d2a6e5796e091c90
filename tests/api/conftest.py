"""Fixtures for tests against a real API server."""

from __future__ import annotations

import gc
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from railhead.api import crd
from railhead.cli.main import main
from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.api.trainjobs import PATH

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVED_SECONDS = 20
Run = Callable[..., int]
# A command ends its event loop while aiohttp still closes a TLS connection, which only a long-lived process would mind.
RUNS_COMMANDS = pytest.mark.filterwarnings(
    "ignore:.*(unclosed|_SelectorTransport|socket.socket):pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="session")
def api_server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """The API server with the CRD of TrainJobs."""
    server = ApiServer(control_plane)
    created = server.request("POST", CRDS, crd.build_crd(), fieldValidation="Strict")
    assert created.status in (201, 409), created.message
    deadline = time.monotonic() + SERVED_SECONDS
    # The kind is served a moment after its CRD is stored, and nothing reports when.
    while server.request("GET", PATH).status != 200:
        assert time.monotonic() < deadline, "the API server does not serve TrainJobs"
        time.sleep(0.05)
    yield server
    server.close()


@dataclass(frozen=True)
class Cluster:
    """The control plane as seen by a user of kubectl.

    Attributes:
        kubeconfig: an administrator's.
        binaries: the folder with kubectl.
    """

    kubeconfig: Path
    binaries: Path

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """The output of kubectl. Raises AssertionError with its error message if it fails."""
        command = [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane, api_server: ApiServer) -> Cluster:
    """kubectl for the API server with the CRD."""
    return Cluster(control_plane.kubeconfig, control_plane.binaries)


@pytest.fixture
def run(control_plane: ControlPlane, api_server: ApiServer) -> Iterator[Run]:
    """Runs a command as the administrator; no job is left behind."""
    kept = {sig: signal.getsignal(sig) for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    yield lambda command, *rest: main([command, "--kubeconfig", str(control_plane.kubeconfig), *rest])
    gc.collect()  # a connection warns here, where the module has RUNS_COMMANDS, instead of in the test of another file
    for sig, handler in kept.items():
        signal.signal(sig, handler)
    assert api_server.request("DELETE", PATH).status == 200
