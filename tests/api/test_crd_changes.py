"""A change of a suspended job is judged as at creation, by the rules of a field and by those about several."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.api.changes import SUSPENDED
from tests.api.bad_jobs import BAD_JOBS, Bad
from tests.api.server import JSON_PATCH, MERGE_PATCH, ApiServer
from tests.api.test_crd_accepts import VALID
from tests.api.trainjobs import ABSENT, PATH, make_job

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "ray", "env": [{"name": "A"}]}]}}
# All that may change has a value, so that a rule that looks at new values only would see none.
BEFORE: dict[str, Any] = {
    "metadata.name": "changed",
    "spec.suspend": True,
    "spec.imagePullSecrets": [{"name": "a"}],
    "spec.env": [{"name": "A", "value": "1"}],
    "spec.envFrom": [{"secretRef": {"name": "a"}}],
    "spec.podTemplate": POD,
    "spec.head": {"resources": {"cpu": 2, "memory": "1Gi"}, "podTemplate": POD},
    "spec.worker": {
        "extraResources": {"cpu": 1},
        "overhead": {"memory": "1Gi"},
        "sharedMemory": "1Gi",
        "objectStore": "1Gi",
        "podTemplate": POD,
    },
    "spec.scaling.resourcesPerWorker": {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "1Gi"},
    "spec.scaling.rayLabelSelector": {"a": "b"},
    "spec.logs": {"forward": "None"},
    "spec.ray": {"dashboard": True},
    "spec.scheduling.gangScheduler": "PodGroup",
    "spec.scheduling.priorityClassName": "high",
    "spec.scheduling.queueName": "team-b",
}
RUNTIME_ENV = {"spec.runtimeEnv": {"env_vars": {"A": "1"}}, "spec.trainer.trainLoopConfig": {"lr": 0.1}}
FIELDS = [f"{path}.{name}"[1:] for path, names in SUSPENDED.items() for name in names]


def may_change(path: str, value: Any) -> bool:
    return value is not ABSENT and any(f"{path}.".startswith(f"spec.{field}.") for field in FIELDS)


JUDGED = [bad for bad in BAD_JOBS if any(may_change(path, value) for path, value in bad.changes.items())]


def find(job: dict[str, Any], field: str) -> Any:
    found: Any = job["spec"]
    for step in field.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def prepare(changes: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A job as in the changes, but for what may change while it is suspended, and a JSON Patch for the rest."""
    wanted = make_job(changes)
    fixed = {path: value for path, value in changes.items() if not may_change(path, value)}
    more = {} if "entrypoint" in wanted["spec"]["trainer"] else RUNTIME_ENV
    if wanted["spec"].get("scaling", {}).get("useGPU"):
        fixed = {"spec.scaling.acceleratorType": "A100", **fixed}
    before = make_job({**BEFORE, **more, **fixed, "metadata.name": "changed"})
    patch = []
    for field in FIELDS:
        value = find(wanted, field)
        if value is not None and value != find(before, field):
            patch.append({"op": "add", "path": f"/spec/{field.replace('.', '/')}", "value": value})
    return before, patch


def send(api_server: ApiServer, before: dict[str, Any], patch: list[dict[str, Any]]) -> tuple[int, str]:
    """Answer to the patch of the job, once it is suspended."""
    created = api_server.request("POST", PATH, before)
    assert created.status == 201, created.message
    path = f"{PATH}/changed"
    try:
        status = {"status": {"phase": "Suspended"}}
        assert api_server.request("PATCH", f"{path}/status", status, content_type=MERGE_PATCH).status == 200
        answer = api_server.request("PATCH", path, patch, content_type=JSON_PATCH, fieldValidation="Strict")
        return answer.status, answer.message
    finally:
        api_server.request("DELETE", path)


@pytest.mark.parametrize("bad", JUDGED, ids=lambda bad: f"{bad.field}: {bad.message}")
def test_a_change_is_judged_as_at_creation(api_server: ApiServer, bad: Bad) -> None:
    status, message = send(api_server, *prepare(bad.changes))
    assert status in (400, 422), message
    assert bad.field in message and bad.message in message


@pytest.mark.parametrize("name", VALID)
def test_what_may_be_created_may_be_changed_to(api_server: ApiServer, name: str) -> None:
    before, patch = prepare({path: value for path, value in VALID[name].items() if not path.startswith("metadata")})
    if patch:
        status, message = send(api_server, before, patch)
        # What makes one valid job may contradict what another one has.
        assert status == 200 or "number of GPUs" in message or "another volume at /dev/shm" in message, message


def test_enough_changes_are_judged() -> None:
    assert len(JUDGED) >= 60
