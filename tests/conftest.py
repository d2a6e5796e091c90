"""Shared by all tests: their order, and a real control plane, started once per run when a test needs it."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from tools.go_program import NotBuilt
from tools.other_kubernetes import resolve_kubernetes
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from tests.tried import Tried, note_tried, sum_up, sum_up_seconds

PROJECT = Path(__file__).resolve().parents[1]
# Tests start in this order: first those of the operator, of the API, of local mode and of the page, which mostly wait;
# the tests of the model, each of which needs one processor for seconds, fill all processors at the end.
ORDER = ("operator", "api", "local", "ui", "architecture", "unit", "e2e", "ray", "install", "chart", "model", "fuzz")
# Tests of a folder that share a cluster run in one process, those of the operator in two, each with its own cluster.
# All others are spread test by test, or file by file; with --kubeconfig also those of tests/e2e, where each process has
# a namespace.
ONE_CLUSTER = ("api", "e2e", "install", "operator")
BY_TEST = ("architecture", "fuzz", "model", "unit")
# Ranks are forked from a process that has imported torch and Ray. In one process of pytest, that happens only once.
WITH_RANKS = "tests/unit/training/"
# A run started in the background ignores SIGINT, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# `timeout` and CI end a run by SIGTERM: as with Ctrl-C, each test then ends the processes that it has started.
signal.signal(signal.SIGTERM, signal.default_int_handler)
# Of each property. `make test-all` tries 600.
EXAMPLES = int(os.environ.get("RAILHEAD_EXAMPLES", "40"))
# By the clock, an example may take 200 ms, and the choice of examples a second: too little on a busy machine.
settings.register_profile(
    "railhead", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=EXAMPLES
)
settings.load_profile("railhead")
# For kube-apiserver, etcd and kubectl: a quarter less processor time, for 100 MB more. The part `faults` of all tests
# would make it 4 GB more: from the limit on, garbage is collected as often as it takes to stay there.
os.environ.setdefault("GOGC", "400")
os.environ.setdefault("GOMEMLIMIT", "2GiB")
gc.disable()  # until all modules are imported, which makes little garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kubernetes", help="run the tests against this minor version: 1.34 or 1.37")
    group = parser.getgroup("railhead", "the cluster of tests/e2e and tests/install; by default, their own local one")
    group.addoption("--kubeconfig", help="run tests/e2e or tests/install against this cluster")
    group.addoption("--kubectl", default="kubectl", help="with --kubeconfig: the kubectl to use")
    group.addoption("--image", default="railhead/examples:0.1.0", help="image of the jobs' pods")
    group.addoption(
        "--operator-image",
        help="with --kubeconfig: install the operator with this image",
    )
    group.addoption("--volume-folder", help="with --kubeconfig: a folder of the node, for volumes of the tests")


def pytest_configure(config: pytest.Config) -> None:
    """All that asks for the control plane's programs gets those of `--kubernetes`."""
    version = config.getoption("--kubernetes")
    if version and not hasattr(config, "workerinput"):  # processes of pytest-xdist inherit the variable
        try:
            os.environ["KUBEBUILDER_ASSETS"] = str(resolve_kubernetes(version, echo))
        except NotBuilt as error:
            raise pytest.UsageError(str(error)) from None


def pytest_collection_finish() -> None:
    """The collector skips all modules and tests from here on: they cost 0.4 s each time that a test calls it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # after the shuffle, whose order is kept within each folder
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: ORDER.index(folder) if (folder := find_folder(item.nodeid)) in ORDER else len(ORDER))


def find_folder(nodeid: str) -> str:
    """The folder below tests/; files that use the same control plane count as one folder."""
    if nodeid.startswith(("tests/chart/test_grid.py", "tests/local/test_control_plane.py", "tests/local/test_node")):
        return "api"
    return nodeid.removeprefix("tests/").partition("/")[0]


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    """Which tests pytest-xdist keeps in one process."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        # pytest-xdist counts what is left of all scopes of a process after each test, also of those that are done:
        # with thousands of them, that takes as long as the tests.
        scope = self._split_scope(self.registered_collections[node][item_index])
        units = self.assigned_work[node]
        if all(units[scope].values()):
            del units[scope]

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(WITH_RANKS):
            return WITH_RANKS
        folder, file = find_folder(nodeid), nodeid.partition("::")[0]
        if folder in ONE_CLUSTER and not (folder == "e2e" and self.config.getoption("--kubeconfig")):
            return f"{folder} {crc32(file.encode()) % 2}" if folder == "operator" else folder
        return nodeid if folder in BY_TEST else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread | None:
    return Spread(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = [report for reports in terminalreporter.stats.values() for report in reports]
    reports = [report for report in found if isinstance(report, pytest.TestReport)]
    for title, lines in (
        ("faults and schedules tried", sum_up(reports)),
        ("seconds by folder", sum_up_seconds(reports, find_folder)),
    ):
        if lines:
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.line(line)


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Tried:
    return note_tried(record_property)


def echo(text: str) -> None:
    print(text, file=sys.stderr)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real etcd, API server, controller manager and scheduler, no node."""
    options = ["--allow-privileged=true"]  # as in most clusters: Pod Security decides
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), binaries=resolve(echo), api_server_options=options)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
