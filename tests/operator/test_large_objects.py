"""One tenant's largest objects, and what they cost the operator of all tenants: memory below its limit."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from railhead.api import names
from railhead.api.base import Object
from railhead.local.control_plane import ControlPlane
from railhead.local.control_plane.binaries import resolve
from railhead.local.install import Kubectl, install, make_operator_kubeconfig
from tests.api.server import ApiServer
from tests.conftest import echo
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

VALUES = Path(__file__).resolve().parents[2] / "charts" / "railhead" / "values.yaml"
COUNT = 400
BYTES = 1_300_000  # an object of 1.5 MB is too large for etcd
JOBS = "/apis/railhead.dev/v1alpha1/namespaces/default/trainjobs"
EVENTS = "/api/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """Its own: half a gigabyte stays in etcd."""
    plane = ControlPlane(tmp_path / "plane", binaries=resolve(echo))
    try:
        plane.start(("etcd", "kube-apiserver"))
        kubectl = Kubectl(plane.binaries / "kubectl", plane.kubeconfig)
        install(kubectl)
        kubectl("create", "serviceaccount", "default")  # no controller does
        yield plane
    finally:
        plane.stop()


def make_noise(size: int = BYTES) -> str:
    """Returns a text that does not compress."""
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()


def make_large_job(number: int, config: Object, *, is_suspended: bool) -> Object:
    return {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": f"large-{number}"},
        "spec": {
            "image": "none",
            "suspend": is_suspended,
            "trainer": {"trainFunc": "m:f", "trainLoopConfig": config},
            "run": {"storagePath": "/runs"},
        },
    }


def make_job_of_text(number: int) -> Object:
    return make_large_job(number, {"text": make_noise()}, is_suspended=number % 2 == 0)


def make_job_of_lists(number: int) -> Object:
    """Parsed, it takes 20 times its bytes."""
    return make_large_job(number, {"lists": [[]] * (BYTES // 3)}, is_suspended=number % 2 == 0)


def make_pod(number: int) -> Object:
    """As a user may create it: it has the label of a job's pods."""
    env = [{"name": f"A{part}", "value": make_noise(BYTES // 10)} for part in range(10)]
    labels = {names.LABEL_JOB_UID: "large", names.LABEL_ROLE: names.WORKER}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"large-{number}", "labels": labels},
        "spec": {"containers": [{"name": "ray", "image": "none", "env": env}]},
    }


def read_peak(pid: int) -> int:
    """Returns the most memory that the process has had, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def read_limit() -> int:
    """Returns the memory limit of the chart's operator, in MiB."""
    text = yaml.safe_load(VALUES.read_text())["resources"]["limits"]["memory"]
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "make", "count"),
    # The API server itself takes seconds for a list of a few jobs of lists.
    [(JOBS, make_job_of_text, COUNT), (JOBS, make_job_of_lists, 20), (PODS, make_pod, COUNT)],
)
def test_the_largest_objects_of_a_tenant_leave_the_operator_below_its_limit(
    plane: ControlPlane,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    path: str,
    make: Callable[[int], Object],
    count: int,
) -> None:
    """They exist when the operator starts, so it lists them; then each job's status is written."""
    server = ApiServer(plane)
    request.addfinalizer(server.close)
    assert {server.request("POST", path, make(number)).status for number in range(count)} == {201}
    kubeconfig = tmp_path / "operator.kubeconfig"
    make_operator_kubeconfig(Kubectl(plane.binaries / "kubectl", plane.kubeconfig), plane, kubeconfig)
    operator = RunningOperator(kubeconfig, tmp_path)
    operator.start()
    try:
        assert operator._process is not None
        print(f"{make.__name__}, listed: {read_peak(operator._process.pid)} MiB")
        if path == JOBS:
            wait_until("all Events", lambda: count_refused(server) == count, seconds=120, pause=1)
        assert not operator.has_ended
        peak = read_peak(operator._process.pid)
        print(f"{make.__name__}, at the end: {peak} MiB")
        assert peak < read_limit()
    finally:
        operator.stop()


def count_refused(server: ApiServer) -> int:
    """Returns how many jobs have an Event that says that they are too large."""
    events = server.request("GET", EVENTS, fieldSelector="reason=InvalidSpec").body["items"]
    return sum("more than 128 KiB in total" in event["message"] for event in events)
