"""A stored TrainJob: its mutable fields, its lookup, and the output of `kubectl get`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.api.crd import MUTABLE_FIELDS, build_crd
from railhead.planning.facts.report import keep_time
from tests.api.conftest import Cluster
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.trainjobs import PATH, make_job

SOME_TIME = "2026-01-01T00:00:00Z"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FULL: dict[str, Any] = {
    "metadata.name": "immutable",
    "spec.source": {"configMap": {"name": "code"}},
    "spec.env": [{"name": "A", "value": "1"}],
    "spec.runtimeEnv": {"pip": ["a==1", "b"], "env_vars": {"A": "1"}, "conda": {"dependencies": ["a"]}},
    "spec.podTemplate": {"spec": {"nodeSelector": {"a": "b"}}},
    "spec.trainer.trainLoopConfig": {"lr": 0.1, "nested": {"a": 1}},
}
# Field, new value; None removes the field.
CHANGES: list[tuple[str, Any]] = [
    ("image", "other:2"),
    ("imagePullPolicy", "Always"),
    ("imagePullSecrets", [{"name": "a"}]),
    ("trainer", {"trainFunc": "other:train"}),
    ("trainer", {"trainLoopConfig": {"lr": 0.2}}),
    ("trainer", {"trainLoopConfig": {"nested": {"a": 2}}}),
    ("trainer", {"backend": {"name": "gloo"}}),
    ("trainer", {"trainFunc": None, "build": "other:make"}),
    ("trainer", {"trainFunc": None, "entrypoint": ["python", "train.py"]}),
    ("source", None),
    ("source", {"configMap": {"name": "other"}}),
    ("scaling", {"numWorkers": 2}),
    ("scaling", {"gpuResourceName": "amd.com/gpu", "useGPU": True}),
    ("run", {"storagePath": "/other"}),
    ("run", {"name": "other"}),
    ("datasets", {"train": {"format": "csv", "uri": "/data"}}),
    ("env", None),
    ("env", [{"name": "A", "value": "2"}]),
    ("envFrom", [{"secretRef": {"name": "a"}}]),
    ("runtimeEnv", None),
    ("runtimeEnv", {"env_vars": {"A": "2"}}),
    ("runtimeEnv", {"pip": ["a==2", "b"]}),
    ("runtimeEnv", {"pip": {"packages": ["a==1", "b"]}}),
    ("runtimeEnv", {"pip": None}),
    ("runtimeEnv", {"uv": ["a"]}),
    ("runtimeEnv", {"conda": {"dependencies": ["b"]}}),
    ("podTemplate", None),
    ("podTemplate", {"spec": {"nodeSelector": {"a": "c"}}}),
    ("podTemplate", {"spec": {"tolerations": [{"operator": "Exists"}]}}),
    ("head", {"resources": {"cpu": "1"}}),
    ("worker", {"objectStore": "1Gi"}),
    ("managedBy", "other.example/operator"),
    ("suspendGraceSeconds", 5),
    ("worker", {"drainSeconds": 30}),
    ("resumeFrom", {"trainJob": "other"}),
    ("logs", {"forward": "None"}),
]


@pytest.fixture(scope="module")
def stored(api_server: ApiServer) -> Iterator[str]:
    """Path of a stored job."""
    job = make_job(FULL)
    path = f"{PATH}/{job['metadata']['name']}"
    assert api_server.request("POST", PATH, job).status == 201
    yield path
    api_server.request("DELETE", path)


@pytest.mark.parametrize(("field", "value"), CHANGES, ids=[f"{f}={v}" for f, v in CHANGES])
def test_no_field_changes_after_creation(api_server: ApiServer, stored: str, field: str, value: Any) -> None:
    patch = {"spec": {field: value}}
    answer = api_server.request("PATCH", stored, patch, content_type=MERGE_PATCH, dryRun="All")
    assert answer.status == 422, answer.body
    changed = f"scaling.{next(iter(value))}" if field == "scaling" else field
    assert f"spec.{changed}: Invalid value" in answer.message
    assert f"{changed}: field is immutable" in answer.message


def test_every_field_is_among_the_changes() -> None:
    properties = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert {field for field, _ in CHANGES} == set(properties) - MUTABLE_FIELDS


def test_a_job_may_be_suspended_and_resumed_at_any_time(api_server: ApiServer, stored: str) -> None:
    for value in (True, False, None, True):
        patch = {"spec": {"suspend": value}}
        answer = api_server.request("PATCH", stored, patch, content_type=MERGE_PATCH, dryRun="All")
        assert answer.status == 200, answer.message


@pytest.mark.parametrize(
    "field",
    [
        "activeDeadlineSeconds",
        "startDeadlineSeconds",
        "restartDeadlineSeconds",
        "progressDeadlineSeconds",
        "keepPodsSeconds",
        "ttlSecondsAfterFinished",
        "backoffLimit",
        "backoffResetSeconds",
        "noProgressLimit",
        "disruptionLimit",
    ],
)
def test_a_limit_may_be_added_changed_and_removed_while_the_job_runs(api_server: ApiServer, field: str) -> None:
    path = f"{PATH}/limited"
    assert api_server.request("POST", PATH, make_job({"metadata.name": "limited"})).status == 201
    for value, status in ((60, 200), (30, 200), (-1, 422), (None, 200), (90, 200)):
        answer = api_server.request("PATCH", path, {"spec": {field: value}}, content_type=MERGE_PATCH)
        assert answer.status == status, (value, answer.message)
    api_server.request("DELETE", path)


def test_the_failure_policy_may_be_added_changed_and_removed_while_the_job_runs(api_server: ApiServer) -> None:
    path = f"{PATH}/ruled"
    assert api_server.request("POST", PATH, make_job({"metadata.name": "ruled"})).status == 201
    for action, status in (("Fail", 200), ("RestartAndIgnore", 200), ("Retry", 422)):
        policy = {"rules": [{"action": action, "onClass": ["Hang"]}]}
        answer = api_server.request("PATCH", path, {"spec": {"failurePolicy": policy}}, content_type=MERGE_PATCH)
        assert answer.status == status, (action, answer.message)
    answer = api_server.request("PATCH", path, {"spec": {"failurePolicy": None}}, content_type=MERGE_PATCH)
    assert answer.status == 200 and "failurePolicy" not in answer.body["spec"]
    api_server.request("DELETE", path)


def test_an_elastic_job_may_change_its_desired_workers(api_server: ApiServer) -> None:
    path = f"{PATH}/elastic"
    job = make_job({"metadata.name": "elastic", "spec.scaling": {"minWorkers": 2, "maxWorkers": 4}})
    assert api_server.request("POST", PATH, job).status == 201
    for scaling, status in (
        ({"desiredWorkers": 3}, 200),
        ({"desiredWorkers": 2}, 200),
        ({"desiredWorkers": None}, 200),
        ({"desiredWorkers": 5}, 422),
        ({"maxWorkers": 5}, 422),
        ({"minWorkers": 1}, 422),
        ({"minWorkers": None, "maxWorkers": None}, 422),
        ({"startWaitSeconds": 5}, 422),
    ):
        answer = api_server.request("PATCH", path, {"spec": {"scaling": scaling}}, content_type=MERGE_PATCH)
        assert answer.status == status, (scaling, answer.message)
    api_server.request("DELETE", path)


def test_metadata_may_change_and_applying_again_changes_nothing(api_server: ApiServer, stored: str) -> None:
    labels = {"metadata": {"labels": {"team": "vision"}}}
    assert api_server.request("PATCH", stored, labels, content_type=MERGE_PATCH).status == 200
    again = {"spec": make_job(FULL)["spec"]}
    before = api_server.request("GET", stored).body
    after = api_server.request("PATCH", stored, again, content_type=MERGE_PATCH).body
    assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1


@pytest.fixture
def running(api_server: ApiServer) -> Iterator[str]:
    """Path of a job whose status is Running."""
    job = make_job({"metadata.name": "running"})
    path = f"{PATH}/running"
    assert api_server.request("POST", PATH, job).status == 201
    status = {
        "phase": "Running",
        "attempt": 2,
        "observedGeneration": 1,
        "workers": {"desired": 4, "ready": 3, "joined": 3},
        "head": {"pod": "running-0f1e2d-2-head", "node": "n1"},
        "progress": {"metrics": {"loss": "0.12"}},
        "checkpoint": {"uri": "s3://bucket/checkpoint_7", "index": 7},
        "conditions": [{"type": "Running", "status": "True", "reason": "Training", "lastTransitionTime": SOME_TIME}],
    }
    written = api_server.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE_PATCH)
    assert written.status == 200, written.message
    yield path
    api_server.request("DELETE", path)


@pytest.mark.parametrize(
    "text",
    [SOME_TIME, "2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00-08:00", "0001-01-01T00:00:00+23:59", "", "now"],
)
def test_the_api_server_accepts_the_times_that_the_operator_accepts_from_a_driver(
    api_server: ApiServer, running: str, text: str
) -> None:
    """Otherwise one report would make every status write fail."""
    status = {"status": {"progress": {"updateTime": text}}}
    answer = api_server.request("PATCH", f"{running}/status", status, content_type=MERGE_PATCH)
    assert answer.status == 200 or keep_time(text) is None, answer.message


def test_jobs_are_selected_by_phase(api_server: ApiServer, running: str, stored: str) -> None:
    found = api_server.request("GET", PATH, fieldSelector="status.phase=Running").body["items"]
    assert [job["metadata"]["name"] for job in found] == ["running"]


def test_kubectl_get_has_the_expected_columns(api_server: ApiServer, running: str) -> None:
    table = api_server.request("GET", running, accept=TABLE).body
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [
        ("Name", 0),
        ("Phase", 0),
        ("Workers", 0),
        ("Attempt", 0),
        ("Checkpoint", 0),
        ("Age", 0),
        ("Loss", 1),
        ("Head", 1),
        ("URI", 1),
    ]
    cells = dict(zip((name for name, _ in columns), table["rows"][0]["cells"], strict=True))
    del cells["Age"]
    assert cells == {
        "Name": "running",
        "Phase": "Running",
        "Workers": 3,
        "Attempt": 2,
        "Checkpoint": 7,
        "Loss": "0.12",
        "Head": "running-0f1e2d-2-head",
        "URI": "s3://bucket/checkpoint_7",
    }


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"phase": "Paused"}, "status.phase"),
        ({"attempt": "two"}, "status.attempt"),
        ({"progress": {"metrics": {"loss": 0.5}}}, "status.progress.metrics.loss"),
        ({"progress": {"metrics": {"loss": "0" * 300}}}, "status.progress.metrics.loss"),
        ({"conditions": [{"type": "Running", "status": "Yes", "reason": "A"}]}, "status.conditions[0].status"),
        ({"conditions": [{"type": "Running", "status": "True"}]}, "status.conditions[0].reason"),
    ],
    ids=["a phase of a later version", "not a number", "a float", "too long a metric", "bad status", "no reason"],
)
def test_an_invalid_status_is_rejected(api_server: ApiServer, running: str, status: dict[str, Any], field: str) -> None:
    answer = api_server.request("PATCH", f"{running}/status", {"status": status}, content_type=MERGE_PATCH)
    assert answer.status == 422, answer.body
    assert field in answer.message


def test_the_kind_has_a_short_name_and_a_category(api_server: ApiServer) -> None:
    kinds = api_server.request("GET", "/apis/railhead.dev/v1alpha1").body["resources"]
    kind = next(k for k in kinds if k["name"] == "trainjobs")
    assert (kind["shortNames"], kind["categories"], kind["namespaced"]) == (["rtj"], ["railhead"], True)


def test_kubectl_applies_lists_and_explains(cluster: Cluster) -> None:
    job = json.dumps(make_job({"metadata.name": "shown"}))
    assert "created" in cluster.kubectl("apply", "-f", "-", stdin=job)
    assert "unchanged" in cluster.kubectl("apply", "-f", "-", stdin=job)
    header = cluster.kubectl("get", "rtj", "shown", "-o", "wide").splitlines()[0].split()
    assert header == ["NAME", "PHASE", "WORKERS", "ATTEMPT", "CHECKPOINT", "AGE", "LOSS", "HEAD", "URI"]
    assert "trainjob.railhead.dev/shown" in cluster.kubectl("get", "railhead", "-o", "name")
    assert "runs once per worker" in cluster.kubectl("explain", "rtj.spec.trainer.trainFunc")
    cluster.kubectl("delete", "rtj", "shown", "--wait=false")


def test_kubectl_names_a_mistyped_field(cluster: Cluster) -> None:
    job = json.dumps(make_job({"spec.scaling.numWorker": 2}))
    with pytest.raises(AssertionError, match=r'unknown field "spec\.scaling\.numWorker"'):
        cluster.kubectl("apply", "-f", "-", stdin=job)
