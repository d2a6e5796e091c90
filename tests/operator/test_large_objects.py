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
from railhead.json_object import Object
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


def make_job(number: int) -> Object:
    """Every second one is suspended, which the operator keeps in another way."""
    return {
        "apiVersion": "railhead.dev/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": f"large-{number}"},
        "spec": {
            "image": "none",
            "suspend": number % 2 == 0,
            "trainer": {"trainFunc": "m:f", "trainLoopConfig": {"text": make_noise()}},
            "run": {"storagePath": "/runs"},
        },
    }


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
@pytest.mark.parametrize(("path", "make"), [(JOBS, make_job), (PODS, make_pod)])
def test_the_largest_objects_of_a_tenant_leave_the_operator_below_its_limit(
    plane: ControlPlane,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    path: str,
    make: Callable[[int], Object],
) -> None:
    """They exist when the operator starts, so it lists them; then each job's status is written."""
    server = ApiServer(plane)
    request.addfinalizer(server.close)
    assert {server.request("POST", path, make(number)).status for number in range(COUNT)} == {201}
    kubeconfig = tmp_path / "operator.kubeconfig"
    make_operator_kubeconfig(Kubectl(plane.binaries / "kubectl", plane.kubeconfig), plane, kubeconfig)
    operator = RunningOperator(kubeconfig, tmp_path)
    operator.start()
    try:
        assert operator._process is not None
        print(f"{make.__name__}, listed: {read_peak(operator._process.pid)} MiB")
        if path == JOBS:
            wait_until("all Events", lambda: count_refused(server) == COUNT, seconds=120, pause=1)
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
