"""The report endpoint with real tokens of the API server's own making: who may speak, and what becomes of it."""

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
from tests.operator.stage import Object, Stage
from tests.waiting import wait_until


def begin(stage: Stage, name: str) -> tuple[Object, str]:
    """A job whose pods run; its head and the head's token."""
    stage.apply(name)
    for pod in stage.wait_pods(name, 3).values():
        stage.run_pod(pod)
    stage.wait_phase(name, "Starting")
    head = stage.head(name)
    return head, stage.token_of(head)


def worker_of(stage: Stage, name: str) -> Object:
    return next(pod for pod_name, pod in stage.pods(name).items() if not pod_name.endswith("-head"))


def test_a_report_is_in_the_status_soon(stage: Stage) -> None:
    _, token = begin(stage, "soon")
    checkpoint = {"uri": "/runs/soon/checkpoint_4", "index": 4, "time": "2026-01-01T00:00:00Z", "metrics": {"a": "1"}}
    told: dict[str, Any] = {"reports": 5, "joined": 2, "metrics": {"loss": "0.5"}, "checkpoint": checkpoint}
    assert stage.report("soon", token=token, **told, run_uri="/runs/soon") == 202
    stage.wait_reports("soon", 5)
    status = stage.status("soon")
    assert status["progress"]["metrics"] == {"loss": "0.5"}
    assert status["checkpoint"] == {**checkpoint, "attempt": 1}
    assert status["runURI"] == "/runs/soon"
    stage.wait_phase("soon", "Running")


def test_the_best_checkpoint_comes_and_goes(stage: Stage) -> None:
    _, token = begin(stage, "best")
    best = {"uri": "/runs/best/c1", "index": 1, "time": "2026-01-01T00:00:00Z", "metrics": {"a": "1"}, "attempt": 1}
    assert stage.report("best", token=token, reports=1, best_checkpoint=best) == 202
    stage.wait_reports("best", 1)
    assert stage.status("best")["bestCheckpoint"] == best
    assert stage.report("best", token=token, reports=2, best_checkpoint={}) == 202
    stage.wait_reports("best", 2)
    assert "bestCheckpoint" not in stage.status("best")


def test_many_reports_are_few_writes_and_the_last_one_stands(stage: Stage, audit: AuditLog) -> None:
    _, token = begin(stage, "many")
    began = time.monotonic()
    for number in range(1, 51):
        assert stage.report("many", token=token, reports=number) == 202
    stage.wait_reports("many", 50)
    seconds = time.monotonic() - began
    asked = Counter((r.resource, r.manager) for r in audit.requests(stage.namespace))
    assert asked["trainjobs/status", "railhead-reports"] <= seconds + 2  # one at once, then one a second


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(stage: Stage) -> None:
    _, token = begin(stage, "order")
    for number, index in enumerate((7, 3), start=1):
        checkpoint = {"uri": f"/runs/{index}", "index": index, "time": "", "metrics": {}}
        assert stage.report("order", token=token, reports=number, checkpoint=checkpoint) == 202
        stage.wait_reports("order", number)
    assert stage.status("order")["checkpoint"]["index"] == 7


def test_only_the_live_head_of_the_current_attempt_is_heard(stage: Stage, other_stage: Stage) -> None:
    head, token = begin(stage, "strict")
    other_head, other_token = begin(other_stage, "strict")
    stage.apply("neighbour")
    stage.wait_pods("neighbour", 3)
    neighbour = stage.token_of(stage.head("neighbour"))
    refused = {
        "no token": (stage.report("strict", token=""), 401),
        "a guessed token": (stage.report("strict", token="guessed"), 401),
        "a token for the API server": (
            stage.report("strict", token=stage.token_of(head, audience="https://kubernetes.default.svc")),
            401,
        ),
        "a worker": (stage.report("strict", token=stage.token_of(worker_of(stage, "strict"))), 403),
        "another job's head": (stage.report("strict", token=neighbour), 403),
        "a head of another namespace": (stage.report("strict", token=other_token), 403),
        "an attempt that is not": (stage.report("strict", token=token, attempt=2), 409),
        "another job of this name": (stage.report("strict", token=token, uid="another"), 404),
        "a job that is not there": (stage.report("strict", token=token, name="nobody"), 404),
    }
    assert {who: told for who, (told, _) in refused.items()} == {who: wanted for who, (_, wanted) in refused.items()}
    assert "reports" not in stage.status("strict").get("progress", {})
    assert stage.report("strict", token=token) == 202
    assert other_head["metadata"]["namespace"] != head["metadata"]["namespace"]


def test_a_head_whose_attempt_is_over_is_not_heard(stage: Stage) -> None:
    head, token = begin(stage, "over")
    lost = Outcome("Infrastructure", reason="RayLost", message="the head is gone")
    stage.end_pod(head, code=FailureClass("Infrastructure").exit_code, outcome=lost)
    wait_until("attempt 2", lambda: stage.status("over").get("attempt") == 2)
    assert stage.report("over", token=token) in (401, 403, 409)
    assert stage.report("over", token=token, attempt=2) in (401, 403, 409)


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
def test_what_is_no_report_is_refused(stage: Stage, body: bytes, code: int) -> None:
    _, token = begin(stage, "hostile")
    assert stage.operator.post(body, token=token, ca=stage.authority_of("hostile")) == code


def test_hostile_values_are_cut_to_what_the_status_holds(stage: Stage) -> None:
    _, token = begin(stage, "bounds")
    metrics = {f"m{number}": "x" * 400 for number in range(100)}
    checkpoint = {"uri": "/runs/" + "x" * 5000, "index": 1}
    told: dict[str, Any] = {"reports": 2**40, "joined": -3, "metrics": metrics, "checkpoint": checkpoint}
    assert stage.report("bounds", token=token, **told) == 202
    wait_until("the report", lambda: stage.status("bounds").get("progress", {}).get("reports"))
    progress = stage.status("bounds")["progress"]
    assert (progress["reports"], progress["joined"]) == (2**31 - 1, 0)
    assert len(progress["metrics"]) == 64
    assert {len(value) for value in progress["metrics"].values()} == {256}
    assert "checkpoint" not in stage.status("bounds")  # a URI that was cut would lead elsewhere


def test_the_endpoint_proves_itself_to_the_drivers(stage: Stage) -> None:
    _, token = begin(stage, "proof")
    stranger = make_ca("stranger", now=datetime.now(UTC), days=1).certificate
    with pytest.raises(urllib.error.URLError) as caught:
        stage.operator.post(json.dumps({}).encode(), token=token, ca=stranger)
    assert isinstance(caught.value.reason, ssl.SSLCertVerificationError)


def test_a_restarted_operator_is_still_trusted(stage: Stage) -> None:
    """Its authority is kept in a Secret: the jobs that run know no other."""
    _, token = begin(stage, "trusts")
    stage.operator.stop()
    stage.operator.start()
    wait_until("the report", lambda: stage.report("trusts", token=token, reports=1) == 202)
    stage.wait_reports("trusts", 1)


def test_what_was_taken_is_written_before_the_operator_ends(stage: Stage) -> None:
    _, token = begin(stage, "last")
    for number in (1, 2, 3):  # the second and third wait for their turn when it is asked to end
        assert stage.report("last", token=token, reports=number) == 202
    assert stage.operator.end() == 0
    try:
        assert stage.status("last")["progress"]["reports"] == 3
    finally:
        stage.operator.start()
