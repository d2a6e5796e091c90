"""The job's own copy of a ConfigMap: created once, and never updated from its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.events import EventRecorder
from railhead.controller.executor import ChildRejected, Executor
from railhead.kube.errors import Denied, RetryAfter
from railhead.planning.observed import Denial
from railhead.planning.plan import CopyConfigMap, Plan
from railhead.planning.planner import plan
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_source_name
from tests.model.api_server import Object
from tests.model.client import ModelClient, make_client
from tests.model.faults import Fault
from tests.unit.builders import SETTINGS, UID, make_observed, make_spec
from tests.unit.controller.raws import JOB_OWNER

KEY = JobKey("team", "digits")
COPY = build_source_name(JobRef("team", "digits", UID), SETTINGS)
CONTENT: Object = {"data": {"train.py": "x = 1", "other.py": ""}, "binaryData": {"weights.bin": "AAA="}}


def make_config_map(name: str, **body: Any) -> Object:
    metadata = {"namespace": "team", "name": name, **body.pop("metadata", {})}
    return {"kind": "ConfigMap", "metadata": metadata, **body}


SOURCE = make_config_map("code", **CONTENT)
UNOWNED = make_config_map(COPY)
OWN = make_config_map(COPY, metadata={"ownerReferences": [JOB_OWNER]}, immutable=True)
CHANGEABLE = {**OWN, "immutable": False}
FORBIDDEN = Denied(403, "Forbidden", "may not get configmaps")
Script = dict[tuple[str, str], list[Fault | None]]


@dataclass
class NoCache:
    """Caches nothing."""

    def record_job(self, raw: dict[str, Any]) -> None: ...
    def record_job_gone(self, key: JobKey, uid: str) -> None: ...
    def record_pod(self, raw: dict[str, Any]) -> None: ...
    def record_workload(self, raw: dict[str, Any]) -> None: ...
    def record_denial(self, key: JobKey, uid: str, denial: Denial) -> None: ...
    def forget_denial(self, uid: str, name: str) -> None: ...


def plan_first_attempt(**config_map: Any) -> Plan:
    """The plan for a new job with its code in the ConfigMap `code`."""
    spec = make_spec(source={"configMap": {"name": "code", **config_map}})
    complete = plan(make_observed(spec=spec, namespace="team"))
    return Plan(creates=complete.creates)


async def execute(client: ModelClient, to_execute: Plan) -> None:
    await Executor(client, NoCache(), EventRecorder(client)).execute(KEY, UID, to_execute)


def created_copy(client: ModelClient) -> dict[str, Any]:
    [body] = [r.body for r in client.asked if r.verb == "create" and r.name == COPY]
    return dict(body)


async def test_the_copy_has_all_keys_is_owned_by_the_job_and_precedes_all_pods() -> None:
    client = make_client(SOURCE)
    await execute(client, plan_first_attempt())
    body = created_copy(client)
    assert (body["data"], body["binaryData"], body["immutable"]) == (CONTENT["data"], CONTENT["binaryData"], True)
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    requests = [(r.verb, r.name) for r in client.asked]
    pods = [index for index, r in enumerate(client.asked) if r.plural == "pods"]
    assert len(pods) == 3
    assert requests.index(("create", COPY)) < min(pods)


async def test_only_the_named_keys_are_copied() -> None:
    items = [{"key": "weights.bin", "path": "data/w.bin"}, {"key": "train.py", "path": "pkg/train.py"}]
    client = make_client(SOURCE)
    await execute(client, plan_first_attempt(items=items))
    body = created_copy(client)
    assert (body["data"], body["binaryData"]) == ({"train.py": "x = 1"}, {"weights.bin": "AAA="})


async def test_an_existing_copy_is_used_and_its_source_is_not_read() -> None:
    """A later attempt, or the same one after the operator was killed in between."""
    client = make_client(OWN)
    await execute(client, plan_first_attempt())
    assert COPY in client.names("get", "configmaps") and SOURCE["metadata"]["name"] not in client.names("get")
    assert COPY not in client.names("create")
    assert len(client.names("create", "pods")) == 3


async def test_a_copy_made_by_another_operator_is_used() -> None:
    client = make_client(SOURCE)
    client.taken = lambda request: request.name == "code" and client.api.put(OWN)
    await execute(client, plan_first_attempt())
    assert client.api.objects["configmaps", "team", COPY]["metadata"]["uid"] == f"uid-{COPY}", "the other operator's"
    assert len(client.names("create", "pods")) == 3


@pytest.mark.parametrize(
    ("items", "existing", "script", "message", "reason"),
    [
        (
            None,
            [],
            {},
            "spec.source.configMap: ConfigMap team/code not found; create it",
            "SourceNotFound",
        ),
        (
            [{"key": "absent.py", "path": "absent.py"}],
            [SOURCE],
            {},
            "spec.source.configMap: ConfigMap team/code has no key absent.py; add it",
            "SourceNotFound",
        ),
        (
            None,
            [SOURCE],
            {("get", "code"): [FORBIDDEN]},
            "may not get configmaps",
            "CreateRefused",
        ),
        (None, [SOURCE], {("get", COPY): [FORBIDDEN]}, "may not get configmaps", "CreateRefused"),
        (
            None,
            [SOURCE, UNOWNED],
            {},
            f"{COPY} was rejected: a ConfigMap of this name exists that this TrainJob does not own",
            "ForeignObject",
        ),
        (None, [SOURCE, CHANGEABLE], {}, "that this TrainJob does not own; delete it", "ForeignObject"),
    ],
)
async def test_a_source_that_cannot_be_read_is_reported_and_no_pod_is_created(
    items: Any, existing: list[Object], script: Script, message: str, reason: str
) -> None:
    client = make_client(*existing)
    client.faults.script.update({request: list(answers) for request, answers in script.items()})
    with pytest.raises(ChildRejected) as caught:
        await execute(client, plan_first_attempt(**({"items": items} if items else {})))
    assert message in str(caught.value)
    assert client.names("create", "pods") == []
    assert caught.value.problem.reason == reason


async def test_a_source_does_not_count_as_missing_when_the_api_server_does_not_answer() -> None:
    client = make_client(SOURCE)
    client.faults.script["get", COPY] = [RetryAfter(503, "ServiceUnavailable", "starting")]
    with pytest.raises(RetryAfter):
        await execute(client, plan_first_attempt())
    assert client.names("create", "events") == []
    assert client.names("create", "pods") == []


def test_only_code_from_a_config_map_is_copied() -> None:
    for spec in (make_spec(), make_spec(source={"inline": {"train.py": ""}})):
        assert not [c for c in plan(make_observed(spec=spec)).creates if isinstance(c, CopyConfigMap)]
