"""A stored TrainJob: its mutable fields, its lookup, and the output of `kubectl get`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.api.changes import ALWAYS, SUSPENDED
from railhead.api.crd import build_crd
from railhead.api.fit import keep_time
from railhead.api.goodput import MOST, MOST_INTERRUPTIONS, GoodputStatus, LostSeconds, SettledStatus
from tests.api.conftest import Cluster
from tests.api.server import MERGE_PATCH, Answer, ApiServer
from tests.api.trainjobs import PATH, make_job

SOME_TIME = "2026-01-01T00:00:00Z"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
FULL: dict[str, Any] = {
    "metadata.name": "immutable",
    "spec.suspend": True,
    "spec.source": {"configMap": {"name": "code"}},
    "spec.env": [{"name": "A", "value": "1"}],
    "spec.runtimeEnv": {"pip": ["a==1", "b"], "env_vars": {"A": "1"}, "conda": {"dependencies": ["a"]}},
    "spec.podTemplate": {"spec": {"nodeSelector": {"a": "b"}}},
    "spec.trainer.trainLoopConfig": {"lr": 0.1, "nested": {"a": 1}},
}
# Field, new value; None removes the field.
CHANGES: list[tuple[str, Any]] = [
    ("trainer.trainFunc", "other:train"),
    ("trainer.framework", "Torch"),
    ("trainer.backend", {"name": "gloo"}),
    ("trainer.validationFunction", "other:validate"),
    ("trainer.build", "other:make"),
    ("trainer.entrypoint", ["python", "train.py"]),
    ("source", None),
    ("source", {"configMap": {"name": "other"}}),
    ("scaling.numWorkers", 2),
    ("scaling.minWorkers", 2),
    ("scaling.maxWorkers", 2),
    ("scaling.startWaitSeconds", 2),
    ("scaling.elasticResizeMonitorIntervalSeconds", 2),
    ("scaling.useGPU", True),
    ("scaling.gpuResourceName", "amd.com/gpu"),
    ("scaling.workersPerPod", 2),
    ("scaling.placementStrategy", "SPREAD"),
    ("run", {"storagePath": "/other"}),
    ("run", {"name": "other"}),
    ("datasets", {"train": {"format": "csv", "uri": "/data"}}),
    ("managedBy", "other.example/operator"),
    ("suspendGraceSeconds", 5),
    ("resumeFrom", {"trainJob": "other"}),
    ("metrics", {"port": 9400}),
]
CHANGES_WHILE_SUSPENDED: list[tuple[str, Any]] = [
    ("image", "other:2"),
    ("imagePullPolicy", "Always"),
    ("imagePullSecrets", [{"name": "a"}]),
    ("trainer.trainLoopConfig", None),
    ("trainer.trainLoopConfig", {"lr": 0.2}),
    ("trainer.trainLoopConfig", {"nested": {"a": 2}}),
    ("scaling.resourcesPerWorker", {"memory": "4Gi"}),
    ("scaling.rayLabelSelector", {"a": "b"}),
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
    ("podUser", "Cluster"),
    ("childMetadata", {"labels": {"team": "vision"}}),
    ("head", {"resources": {"cpu": "1"}}),
    ("worker", {"objectStore": "1Gi"}),
    ("worker", {"drainSeconds": 30}),
    ("logs", {"forward": "None"}),
    ("ray", {"dashboard": True}),
    ("scheduling.gangScheduler", "Volcano"),
    ("scheduling.priorityClassName", "high"),
    ("scheduling.topology", {"key": "rack", "policy": "Preferred"}),
    ("scheduling.queueName", "team-a"),
]
ACCELERATOR = "scaling.acceleratorType"  # only a job with GPUs has one


@pytest.fixture(scope="module")
def stored(api_server: ApiServer) -> Iterator[str]:
    """Path of a job that the operator has not seen yet."""
    yield from store(api_server, FULL, phase=None)


@pytest.fixture(scope="module")
def suspended(api_server: ApiServer) -> Iterator[str]:
    yield from store(api_server, {**FULL, "metadata.name": "suspended"}, phase="Suspended")


@pytest.fixture(scope="module")
def suspended_gpus(api_server: ApiServer) -> Iterator[str]:
    """Path of a suspended job whose workers have 8 GPUs each."""
    scaling = {"useGPU": True, "acceleratorType": "H100", "resourcesPerWorker": {"cpu": 8, "nvidia.com/gpu": 8}}
    changes = {"metadata.name": "gpus", "spec.suspend": True, "spec.scaling": scaling}
    yield from store(api_server, changes, phase="Suspended")


def store(api_server: ApiServer, changes: dict[str, Any], *, phase: str | None) -> Iterator[str]:
    job = make_job(changes)
    path = f"{PATH}/{job['metadata']['name']}"
    answer = api_server.request("POST", PATH, job)
    assert answer.status == 201, answer.message
    set_phase(api_server, path, phase)
    yield path
    api_server.request("DELETE", path)


def set_phase(api_server: ApiServer, path: str, phase: str | None) -> None:
    """As the operator writes it; None = it has not seen the job yet."""
    if phase is not None:
        written = api_server.request("PATCH", f"{path}/status", {"status": {"phase": phase}}, content_type=MERGE_PATCH)
        assert written.status == 200, written.message


def change(api_server: ApiServer, path: str, field: str, value: Any, **more: Any) -> Answer:
    """The answer to a change of one field of the spec, which is not stored."""
    for step in reversed(field.split(".")):
        value = {step: value}
    patch = {"spec": {**value, **more}}
    return api_server.request("PATCH", path, patch, content_type=MERGE_PATCH, dryRun="All")


def names(changes: list[tuple[str, Any]]) -> list[str]:
    return [f"{field}={value}" for field, value in changes]


@pytest.mark.parametrize(("field", "value"), CHANGES, ids=names(CHANGES))
def test_no_field_changes_after_creation(api_server: ApiServer, suspended: str, field: str, value: Any) -> None:
    """Not in phase Suspended either."""
    answer = change(api_server, suspended, field, value)
    assert answer.status == 422, answer.body
    assert f"spec.{field}: Invalid value" in answer.message
    assert f"{field}: field is immutable" in answer.message


def refuses_to_change(api_server: ApiServer, path: str, field: str, value: Any) -> bool:
    answer = change(api_server, path, field, value)
    return answer.status == 422 and f"can change only while the job is suspended: spec.{field};" in answer.message


@pytest.mark.parametrize(("field", "value"), CHANGES_WHILE_SUSPENDED, ids=names(CHANGES_WHILE_SUSPENDED))
def test_what_pods_are_made_from_changes_in_phase_suspended_only(
    api_server: ApiServer, stored: str, suspended: str, field: str, value: Any
) -> None:
    """The same change may resume the job."""
    answer = change(api_server, stored, field, value)
    assert answer.status == 422 and f"spec.{field}" in answer.message and "wait for phase Suspended" in answer.message
    for resumes in (False, True):
        answer = change(api_server, suspended, field, value, suspend=not resumes)
        assert answer.status == 200, answer.message
        assert answer.body["metadata"]["generation"] == 2


@pytest.mark.parametrize("phase", ["Pending", "Starting", "Running", "Restarting", "Suspending", "Succeeded", "Failed"])
def test_a_change_waits_for_phase_suspended(api_server: ApiServer, phase: str) -> None:
    name = phase.lower()
    for path in store(api_server, {"metadata.name": name, "spec.suspend": True}, phase=phase):
        assert refuses_to_change(api_server, path, "image", "other:2")
        assert refuses_to_change(api_server, path, "scaling.resourcesPerWorker", {"memory": "4Gi"})
        for resting in ("Suspended", "Queued"):
            set_phase(api_server, path, resting)
            assert change(api_server, path, "image", "other:2").status == 200
        set_phase(api_server, path, phase)
        assert refuses_to_change(api_server, path, "image", "other:2")


def test_a_refused_change_names_every_field(api_server: ApiServer, stored: str) -> None:
    spec = {"image": "other:2", "env": [], "worker": {"objectStore": "1Gi"}, "suspend": False}
    answer = api_server.request("PATCH", stored, {"spec": spec}, content_type=MERGE_PATCH, dryRun="All")
    assert (
        "can change only while the job is suspended: spec.image spec.env spec.worker; set spec.suspend"
        in answer.message
    )


def test_the_largest_numbers_of_goodput_are_stored(api_server: ApiServer, stored: str) -> None:
    lost = LostSeconds(**dict.fromkeys(LostSeconds.model_fields, MOST))
    goodput = GoodputStatus(
        wall_seconds=MOST,
        productive_seconds=MOST,
        lost_seconds=lost,
        gpu_seconds=MOST,
        lost_gpu_seconds=MOST,
        interruptions={"Infrastructure": MOST_INTERRUPTIONS},
        settled=SettledStatus(**{**dict.fromkeys(SettledStatus.model_fields, MOST), "attempt": MOST_INTERRUPTIONS}),
    )
    body = {"status": {"goodput": goodput.model_dump(by_alias=True, exclude_none=True)}}
    answer = api_server.request("PATCH", f"{stored}/status", body, content_type=MERGE_PATCH, dryRun="All")
    assert answer.status == 200, answer.message
    assert answer.body["status"]["goodput"] == body["status"]["goodput"]


def test_a_status_write_and_a_change_in_one_request_change_the_one_that_it_is_for(
    api_server: ApiServer, stored: str
) -> None:
    """Else a status in the change of a spec could pass for a status write."""
    body = {"spec": {"image": "other:2"}, "status": {"phase": "Suspended", "progress": {"updateTime": SOME_TIME}}}
    answer = api_server.request("PATCH", stored, body, content_type=MERGE_PATCH, dryRun="All")
    assert answer.status == 422 and "suspended: spec.image;" in answer.message
    answer = api_server.request("PATCH", f"{stored}/status", body, content_type=MERGE_PATCH, dryRun="All")
    assert answer.status == 200 and answer.body["spec"]["image"] != "other:2"


def test_the_type_of_gpus_may_change_and_their_number_not(api_server: ApiServer, suspended_gpus: str) -> None:
    assert change(api_server, suspended_gpus, ACCELERATOR, "A100").status == 200
    assert change(api_server, suspended_gpus, ACCELERATOR, None).status == 200
    resources = "scaling.resourcesPerWorker"
    more = {"cpu": 16, "memory": "64Gi", "example.com/rdma": 1}
    assert change(api_server, suspended_gpus, resources, more).status == 200
    for value in ({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": None}, None):
        answer = change(api_server, suspended_gpus, resources, value)
        assert answer.status == 422
        assert "spec.scaling.resourcesPerWorker: the number of GPUs per worker cannot change" in answer.message


def test_every_field_is_among_the_changes() -> None:
    spec = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    parts = {path[1:] for path in ALWAYS.keys() | SUSPENDED.keys() if path}
    fields = {name for name in spec if name not in parts}
    fields |= {f"{part}.{name}" for part in parts for name in spec[part]["properties"]}
    always, suspended = (
        {f"{path}.{name}"[1:] for path, names in table.items() for name in names} for table in (ALWAYS, SUSPENDED)
    )
    assert {field for field, _ in CHANGES} == fields - always - suspended
    assert {field for field, _ in CHANGES_WHILE_SUSPENDED} == suspended - {ACCELERATOR}


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
        "partialStartDeadlineSeconds",
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


def test_a_metric_rule_may_be_added_changed_and_removed_while_the_job_runs(api_server: ApiServer) -> None:
    path = f"{PATH}/measured"
    assert api_server.request("POST", PATH, make_job({"metadata.name": "measured"})).status == 201
    for changes, status in (({}, 200), ({"consecutive": 3}, 200), ({"threshold": "1"}, 422), ({"type": "Above"}, 422)):
        policy = {"rules": [{"name": "nan", "type": "IsNaN", "metric": "loss", "action": "Fail", **changes}]}
        answer = api_server.request("PATCH", path, {"spec": {"metricPolicy": policy}}, content_type=MERGE_PATCH)
        assert answer.status == status, (changes, answer.message)
    answer = api_server.request("PATCH", path, {"spec": {"metricPolicy": None}}, content_type=MERGE_PATCH)
    assert answer.status == 200 and "metricPolicy" not in answer.body["spec"]
    api_server.request("DELETE", path)


def test_node_avoidance_may_be_changed_at_any_time(api_server: ApiServer) -> None:
    path = f"{PATH}/placed"
    assert api_server.request("POST", PATH, make_job({"metadata.name": "placed"})).status == 201
    for value, status in (("None", 200), ("Auto", 200), ("Always", 422), (None, 200)):
        spec = {"scheduling": {"nodeAvoidance": value}}
        answer = api_server.request("PATCH", path, {"spec": spec}, content_type=MERGE_PATCH)
        assert answer.status == status, (value, answer.message)
    assert api_server.request("GET", path).body["spec"]["scheduling"] == {
        "nodeAvoidance": "Auto",
        "gangScheduler": "None",
    }
    answer = api_server.request("PATCH", path, {"spec": {"scheduling": None}}, content_type=MERGE_PATCH)
    assert answer.status == 200 and "scheduling" not in answer.body["spec"]
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
        "progress": {"metrics": {"loss": "0.12"}, "percentComplete": 40, "remaining": "3h20m"},
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
        ("Progress", 0),
        ("Remaining", 0),
        ("Age", 0),
        ("Workers", 1),
        ("Attempt", 1),
        ("Checkpoint", 1),
        ("Loss", 1),
        ("Head", 1),
        ("URI", 1),
    ]
    cells = dict(zip((name for name, _ in columns), table["rows"][0]["cells"], strict=True))
    del cells["Age"]
    assert cells == {
        "Name": "running",
        "Phase": "Running",
        "Progress": 40,
        "Remaining": "3h20m",
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
    assert header[:5] == ["NAME", "PHASE", "PROGRESS", "REMAINING", "AGE"]
    assert header[5:] == ["WORKERS", "ATTEMPT", "CHECKPOINT", "LOSS", "HEAD", "URI"]
    assert "trainjob.railhead.dev/shown" in cluster.kubectl("get", "railhead", "-o", "name")
    assert "runs once per worker" in cluster.kubectl("explain", "rtj.spec.trainer.trainFunc")
    cluster.kubectl("delete", "rtj", "shown", "--wait=false")


def test_kubectl_names_a_mistyped_field(cluster: Cluster) -> None:
    job = json.dumps(make_job({"spec.scaling.numWorker": 2}))
    with pytest.raises(AssertionError, match=r'unknown field "spec\.scaling\.numWorker"'):
        cluster.kubectl("apply", "-f", "-", stdin=job)
