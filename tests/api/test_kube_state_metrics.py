"""kube-state-metrics itself, with the configuration that the chart has for it: the series of one job."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tools.go_program import resolve_program

from railhead.api.status import Phase
from railhead.local.addresses import free_port
from railhead.local.control_plane.binaries import GoModule
from tests.api.conftest import Cluster
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.trainjobs import PATH, make_job
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
PROJECT = Path(__file__).resolve().parents[2]
FILE = PROJECT / "charts" / "railhead" / "files" / "kube-state-metrics.yaml"
MODULE = GoModule("kube-state-metrics", package="k8s.io/kube-state-metrics/v2")
VERSION = "2.18.0"
STATUS: dict[str, Any] = {
    "phase": "Running",
    "attempt": 2,
    "restarts": {"application": 1, "disruptions": 3},
    "conditions": [
        {"type": "Trained", "status": "False", "reason": "Training", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": "True", "reason": "Training", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ],
    "checkpoint": {"index": 7, "uri": "/runs/digits/c7", "time": "2026-01-01T00:00:00Z"},
    "progress": {"percentComplete": 40, "estimatedRemainingSeconds": 90, "metrics": {"loss": "0.25", "note": "text"}},
    "goodput": {"percent": "87.50", "productiveSeconds": 70, "lostSeconds": {"starting": 10, "queued": 0}},
}


@pytest.fixture
def metrics_url(cluster: Cluster) -> Iterator[str]:
    program = resolve_program(MODULE, VERSION, lambda text: print(text, file=sys.stderr)) / MODULE.folder
    port = free_port()
    options = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--custom-resource-state-config-file={FILE}",
        "--custom-resource-state-only",
        "--host=127.0.0.1",
        f"--port={port}",
        "--telemetry-host=127.0.0.1",
        f"--telemetry-port={free_port()}",
    ]
    with subprocess.Popen([program, *options]) as process:
        yield f"http://127.0.0.1:{port}/metrics"
        process.kill()


def test_the_series_of_a_job(api_server: ApiServer, metrics_url: str) -> None:
    """Texts have none, and neither has what the status lacks."""
    assert api_server.request("POST", PATH, make_job({"metadata.name": "shown"})).status == 201
    try:
        written = api_server.request("PATCH", f"{PATH}/shown/status", {"status": STATUS}, content_type=MERGE_PATCH)
        assert written.status == 200, written.message
        found = wait_until("kube-state-metrics shows the job", lambda: read_series(metrics_url, "shown"))
    finally:
        api_server.request("DELETE", f"{PATH}/shown")
    phases = {f"phase {phase}": float(phase == "Running") for phase in get_args(Phase) if phase}
    assert found == phases | {
        "condition Ready Training": 1.0,
        "condition Trained Training": 0.0,
        "attempt": 2.0,
        "restarts application": 1.0,
        "restarts disruptions": 3.0,
        "progress_percent": 40.0,
        "remaining_seconds": 90.0,
        "goodput_percent": 87.5,
        "productive_seconds": 70.0,
        "lost_seconds queued": 0.0,
        "lost_seconds starting": 10.0,
        "checkpoint_index": 7.0,
        "checkpoint_timestamp_seconds": 1767225600.0,
        "metric loss": 0.25,
    }


def read_series(url: str, job: str) -> dict[str, float]:
    """Returns the series of a job, by the metric's name and the labels that not all of them have."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        " ".join([sample.name.removeprefix("railhead_trainjob_"), *find_labels(sample.labels)]): sample.value
        for sample in samples
        if sample.labels.get("train_job") == job
    }


def find_labels(labels: Mapping[str, str]) -> list[str]:
    common = ("namespace", "train_job", "customresource_group", "customresource_kind", "customresource_version")
    return [labels[name] for name in sorted(labels) if name not in common]
