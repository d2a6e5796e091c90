"""The job's own copy of a ConfigMap: made once from what is there, and never again from what is there later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from railhead.api import names
from railhead.api.job import JobKey
from railhead.controller.events import EventRecorder
from railhead.controller.executor import ChildRejected, Executor
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter
from railhead.planning.plan import CopyConfigMap, Plan
from railhead.planning.planner import plan
from tests.unit.builders import UID, make_observed, make_spec
from tests.unit.controller.fake_client import FakeClient

KEY = JobKey("team", "digits")
COPY = names.source_name("digits", UID)
SOURCE = {"data": {"train.py": "x = 1", "other.py": ""}, "binaryData": {"weights.bin": "AAA="}}
NOT_FOUND = Gone(404, "NotFound", "not found")


@dataclass
class Nobody:
    """Learns nothing."""

    def job(self, raw: dict[str, Any]) -> None: ...
    def job_gone(self, key: JobKey, uid: str) -> None: ...
    def pod(self, raw: dict[str, Any]) -> None: ...


def plan_first_attempt(**config_map: Any) -> Plan:
    """What the planner wants for a new job with its code in the ConfigMap `code`."""
    spec = make_spec(source={"configMap": {"name": "code", **config_map}})
    whole = plan(make_observed(spec=spec, namespace="team"))
    return Plan(creates=whole.creates)


async def execute(wanted: Plan, script: Mapping[tuple[str, str], Any]) -> FakeClient:
    client = FakeClient(dict(script))
    executor = Executor(client, Nobody(), EventRecorder(client))
    try:
        await executor.execute(KEY, UID, wanted)
    except (ChildRejected, KubeError) as error:
        client.script[("error", "")] = [error]  # type: ignore[list-item]
    return client


def made(client: FakeClient) -> dict[str, Any]:
    [body] = [r.body for r in client.asked if r.verb == "create" and r.name == COPY]
    return dict(body)


async def test_the_copy_has_all_keys_belongs_to_the_job_and_is_there_before_any_pod() -> None:
    script = {("get", COPY): [NOT_FOUND], ("get", "code"): [SOURCE]}
    client = await execute(plan_first_attempt(), script)
    body = made(client)
    assert (body["data"], body["binaryData"], body["immutable"]) == (SOURCE["data"], SOURCE["binaryData"], True)
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    asked = [(r.verb, r.name) for r in client.asked]
    pods = [place for place, r in enumerate(client.asked) if r.plural == "pods"]
    assert len(pods) == 3
    assert asked.index(("create", COPY)) < min(pods)


async def test_only_the_named_keys_are_copied() -> None:
    items = [{"key": "weights.bin", "path": "data/w.bin"}, {"key": "train.py", "path": "pkg/train.py"}]
    script = {("get", COPY): [NOT_FOUND], ("get", "code"): [SOURCE]}
    body = made(await execute(plan_first_attempt(items=items), script))
    assert (body["data"], body["binaryData"]) == ({"train.py": "x = 1"}, {"weights.bin": "AAA="})


async def test_a_copy_that_exists_is_good_and_its_source_is_not_looked_at() -> None:
    """A later attempt, or the same one after the operator was killed in between."""
    own = {"metadata": {"ownerReferences": [{"kind": names.KIND, "uid": UID, "controller": True}]}}
    client = await execute(plan_first_attempt(), {("get", COPY): [own]})
    assert client.names("get", "configmaps") == [COPY]
    assert COPY not in client.names("create")
    assert len(client.names("create", "pods")) == 3


async def test_another_operator_that_was_first_is_good() -> None:
    exists = Conflict(409, "AlreadyExists", "already exists")
    script = {("get", COPY): [NOT_FOUND], ("get", "code"): [SOURCE], ("create", COPY): [exists]}
    client = await execute(plan_first_attempt(), script)
    assert len(client.names("create", "pods")) == 3


@pytest.mark.parametrize(
    ("items", "answers", "words", "reason"),
    [
        (
            None,
            [NOT_FOUND, NOT_FOUND],
            "spec.source.configMap: ConfigMap team/code not found; create it",
            "SourceNotFound",
        ),
        (
            [{"key": "absent.py", "path": "absent.py"}],
            [NOT_FOUND, SOURCE],
            "spec.source.configMap: ConfigMap team/code has no key absent.py; add it",
            "SourceNotFound",
        ),
        (
            None,
            [NOT_FOUND, Denied(403, "Forbidden", "may not get configmaps")],
            "may not get configmaps",
            "CreateRefused",
        ),
        (None, [Denied(403, "Forbidden", "may not get configmaps")], "may not get configmaps", "CreateRefused"),
        (
            None,
            [{"metadata": {}}],
            f"{COPY} was refused: one of this name exists that is not the job's",
            "CreateRefused",
        ),
    ],
)
async def test_a_source_that_cannot_be_had_is_said_and_no_pod_is_made(
    items: Any, answers: list[Any], words: str, reason: str
) -> None:
    copy, *source = answers
    wanted = plan_first_attempt(**({"items": items} if items else {}))
    client = await execute(wanted, {("get", COPY): [copy], ("get", "code"): source})
    [error] = client.script[("error", "")]
    assert isinstance(error, ChildRejected)
    assert words in str(error)
    assert client.names("create", "pods") == []
    assert error.problem.reason == reason


async def test_no_answer_is_no_missing_source() -> None:
    client = await execute(plan_first_attempt(), {("get", COPY): [RetryAfter(503, "ServiceUnavailable", "starting")]})
    assert isinstance(client.script[("error", "")][0], RetryAfter)
    assert client.names("create", "events") == []
    assert client.names("create", "pods") == []


def test_code_from_elsewhere_is_not_copied() -> None:
    for spec in (make_spec(), make_spec(source={"inline": {"train.py": ""}})):
        assert not [c for c in plan(make_observed(spec=spec)).creates if isinstance(c, CopyConfigMap)]
