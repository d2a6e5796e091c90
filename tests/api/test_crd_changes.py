"""A change of a suspended job is judged as at creation, by the rules of a field and by those about several."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.api.changes import SUSPENDED
from tests.api.bad_jobs import BAD_JOBS, Bad
from tests.api.server import JSON_PATCH, MERGE_PATCH, ApiServer
from tests.api.test_crd_accepts import VALID
from tests.api.trainjobs import ABSENT, PATH, make_job
from tests.slow_cases import slow_after

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
# One of each field is tried first. The others are slow: test_crd_refuses tries them at creation.
FIRST = list({bad.field: bad for bad in reversed(JUDGED)}.values())
CASES = slow_after(len(FIRST), [*FIRST, *(bad for bad in JUDGED if bad not in FIRST)])


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


class SuspendedJobs:
    """Jobs of which each is stored once, and never changes: each change is a dry run."""

    def __init__(self, api_server: ApiServer) -> None:
        self._api_server = api_server
        self._paths: dict[str, str] = {}

    def store(self, job: dict[str, Any]) -> str:
        """Returns the path of the job, which is suspended."""
        text = json.dumps(job, sort_keys=True)
        if text in self._paths:
            return self._paths[text]
        name = f"changed-{len(self._paths)}"
        created = self._api_server.request("POST", PATH, {**job, "metadata": {**job["metadata"], "name": name}})
        assert created.status == 201, created.message
        path = f"{PATH}/{name}"
        self._paths[text] = path
        status = {"status": {"phase": "Suspended"}}
        written = self._api_server.request("PATCH", f"{path}/status", status, content_type=MERGE_PATCH)
        assert written.status == 200, written.message
        return path

    def change(self, job: dict[str, Any], patch: list[dict[str, Any]]) -> tuple[int, str]:
        """Returns the answer to the patch of the job."""
        answer = self._api_server.request(
            "PATCH", self.store(job), patch, content_type=JSON_PATCH, fieldValidation="Strict", dryRun="All"
        )
        return answer.status, answer.message

    def delete(self) -> None:
        for path in self._paths.values():
            self._api_server.request("DELETE", path)


@pytest.fixture(scope="module")
def suspended(api_server: ApiServer) -> Iterator[SuspendedJobs]:
    jobs = SuspendedJobs(api_server)
    yield jobs
    jobs.delete()


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: f"{bad.field}: {bad.message}")
def test_a_change_is_judged_as_at_creation(suspended: SuspendedJobs, bad: Bad) -> None:
    status, message = suspended.change(*prepare(bad.changes))
    assert status in (400, 422), message
    assert bad.field in message and bad.message in message


@pytest.mark.parametrize("name", VALID)
def test_what_may_be_created_may_be_changed_to(suspended: SuspendedJobs, name: str) -> None:
    before, patch = prepare({path: value for path, value in VALID[name].items() if not path.startswith("metadata")})
    if patch:
        status, message = suspended.change(before, patch)
        # What makes one valid job may contradict what another one has.
        assert status == 200 or "number of GPUs" in message or "another volume at /dev/shm" in message, message


def test_enough_changes_are_judged() -> None:
    assert len(JUDGED) >= 60
