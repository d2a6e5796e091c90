"""The report endpoint with real tokens of the API server: who may report, and what the status shows."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.report import LIMIT_BYTES
from railhead.pki import make_ca
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster, Object
from tests.waiting import wait_until


def begin(cluster: Cluster, name: str) -> tuple[Object, str]:
    """Starts a job whose pods run; returns its head and the head's token."""
    cluster.apply(name)
    for pod in cluster.wait_pods(name, 3).values():
        cluster.run_pod(pod)
    cluster.wait_phase(name, "Starting")
    head = cluster.head(name)
    return head, cluster.token_of(head)


def worker_of(cluster: Cluster, name: str) -> Object:
    return next(pod for pod_name, pod in cluster.pods(name).items() if not pod_name.endswith("-head"))


def test_a_report_is_in_the_status_soon(cluster: Cluster) -> None:
    _, token = begin(cluster, "soon")
    checkpoint = {"uri": "/runs/soon/checkpoint_4", "index": 4, "time": "2026-01-01T00:00:00Z", "metrics": {"a": "1"}}
    fields: dict[str, Any] = {"reports": 5, "joined": 2, "metrics": {"loss": "0.5"}, "checkpoint": checkpoint}
    assert cluster.report("soon", token=token, **fields, run_uri="/runs/soon") == 202
    cluster.wait_reports("soon", 5)
    status = cluster.status("soon")
    assert status["progress"]["metrics"] == {"loss": "0.5"}
    assert status["checkpoint"] == {**checkpoint, "attempt": 1}
    assert status["runURI"] == "/runs/soon"
    cluster.wait_phase("soon", "Running")


def test_the_best_checkpoint_comes_and_goes(cluster: Cluster) -> None:
    _, token = begin(cluster, "best")
    best = {"uri": "/runs/best/c1", "index": 1, "time": "2026-01-01T00:00:00Z", "metrics": {"a": "1"}, "attempt": 1}
    assert cluster.report("best", token=token, reports=1, best_checkpoint=best) == 202
    cluster.wait_reports("best", 1)
    assert cluster.status("best")["bestCheckpoint"] == best
    assert cluster.report("best", token=token, reports=2, best_checkpoint={}) == 202
    cluster.wait_reports("best", 2)
    assert "bestCheckpoint" not in cluster.status("best")


def test_many_reports_cost_few_writes_and_the_last_one_wins(cluster: Cluster, audit: AuditLog) -> None:
    _, token = begin(cluster, "many")
    began = time.monotonic()
    for number in range(1, 51):
        assert cluster.report("many", token=token, reports=number) == 202
    cluster.wait_reports("many", 50)
    seconds = time.monotonic() - began
    asked = Counter((r.resource, r.manager) for r in audit.requests(cluster.namespace))
    assert asked["trainjobs/status", "railhead-reports"] <= seconds + 2  # one at once, then one per second


def test_an_older_checkpoint_never_replaces_a_newer_one(cluster: Cluster) -> None:
    _, token = begin(cluster, "order")
    for number, index in enumerate((7, 3), start=1):
        checkpoint = {"uri": f"/runs/{index}", "index": index, "time": "", "metrics": {}}
        assert cluster.report("order", token=token, reports=number, checkpoint=checkpoint) == 202
        cluster.wait_reports("order", number)
    assert cluster.status("order")["checkpoint"]["index"] == 7


def test_only_reports_of_the_current_attempts_live_head_are_accepted(cluster: Cluster, other_cluster: Cluster) -> None:
    head, token = begin(cluster, "strict")
    other_head, other_token = begin(other_cluster, "strict")
    cluster.apply("neighbour")
    cluster.wait_pods("neighbour", 3)
    neighbour = cluster.token_of(cluster.head("neighbour"))
    rejected = {
        "no token": (cluster.report("strict", token=""), 401),
        "a guessed token": (cluster.report("strict", token="guessed"), 401),
        "a token for the API server": (
            cluster.report("strict", token=cluster.token_of(head, audience="https://kubernetes.default.svc")),
            401,
        ),
        "a worker": (cluster.report("strict", token=cluster.token_of(worker_of(cluster, "strict"))), 403),
        "another job's head": (cluster.report("strict", token=neighbour), 403),
        "a head of another namespace": (cluster.report("strict", token=other_token), 403),
        "an attempt that is not": (cluster.report("strict", token=token, attempt=2), 409),
        "another job of this name": (cluster.report("strict", token=token, uid="another"), 404),
        "a job that does not exist": (cluster.report("strict", token=token, name="nobody"), 404),
    }
    assert {who: code for who, (code, _) in rejected.items()} == {who: wanted for who, (_, wanted) in rejected.items()}
    assert "reports" not in cluster.status("strict").get("progress", {})
    assert cluster.report("strict", token=token) == 202
    assert other_head["metadata"]["namespace"] != head["metadata"]["namespace"]


def test_reports_of_a_head_whose_attempt_is_over_are_rejected(cluster: Cluster) -> None:
    head, token = begin(cluster, "over")
    lost = Outcome("Infrastructure", reason="RayLost", message="the head is gone")
    cluster.end_pod(head, code=FailureClass("Infrastructure").exit_code, outcome=lost)
    wait_until("attempt 2", lambda: cluster.status("over").get("attempt") == 2)
    assert cluster.report("over", token=token) in (401, 403, 409)
    assert cluster.report("over", token=token, attempt=2) in (401, 403, 409)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no json", 400),
        (b"[]", 400),
        (b'{"namespace": "x"}', 400),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
        (b" " * (LIMIT_BYTES + 1), 413),
    ],
)
def test_an_invalid_report_is_rejected(cluster: Cluster, body: bytes, code: int) -> None:
    _, token = begin(cluster, "hostile")
    assert cluster.operator.post(body, token=token, ca=cluster.authority_of("hostile")) == code


def test_hostile_values_are_truncated_to_the_bounds_of_the_status(cluster: Cluster) -> None:
    _, token = begin(cluster, "bounds")
    metrics = {f"m{number}": "x" * 400 for number in range(100)}
    checkpoint = {"uri": "/runs/" + "x" * 5000, "index": 1}
    fields: dict[str, Any] = {"reports": 2**40, "joined": -3, "metrics": metrics, "checkpoint": checkpoint}
    assert cluster.report("bounds", token=token, **fields) == 202
    wait_until("the report", lambda: cluster.status("bounds").get("progress", {}).get("reports"))
    progress = cluster.status("bounds")["progress"]
    assert (progress["reports"], progress["joined"]) == (2**31 - 1, 0)
    assert len(progress["metrics"]) == 64
    assert {len(value) for value in progress["metrics"].values()} == {256}
    assert "checkpoint" not in cluster.status("bounds")  # a truncated URI would lead elsewhere


def test_drivers_can_verify_the_endpoint(cluster: Cluster) -> None:
    _, token = begin(cluster, "proof")
    stranger = make_ca("stranger", now=datetime.now(UTC), days=1).certificate
    with pytest.raises(urllib.error.URLError) as caught:
        cluster.operator.post(json.dumps({}).encode(), token=token, ca=stranger)
    assert isinstance(caught.value.reason, ssl.SSLCertVerificationError)


def test_a_restarted_operator_is_still_trusted(cluster: Cluster) -> None:
    """Its CA is kept in a Secret: running jobs trust no other."""
    _, token = begin(cluster, "trusts")
    cluster.operator.stop()
    cluster.operator.start()
    wait_until("the report", lambda: cluster.report("trusts", token=token, reports=1) == 202)
    cluster.wait_reports("trusts", 1)


def test_accepted_reports_are_written_before_the_operator_ends(cluster: Cluster) -> None:
    _, token = begin(cluster, "last")
    for number in (1, 2, 3):  # the second and third are still queued at SIGTERM
        assert cluster.report("last", token=token, reports=number) == 202
    assert cluster.operator.end() == 0
    try:
        assert cluster.status("last")["progress"]["reports"] == 3
    finally:
        cluster.operator.start()
