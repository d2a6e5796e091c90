"""Every delete of a pass is tried, whatever the API server answers to the others, as long as it answers at all."""

from __future__ import annotations

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.events import EventRecorder
from railhead.controller.executor import Executor
from railhead.kube.errors import Conflict, Gone, KubeError, RetryAfter
from railhead.planning.observed import Remove
from railhead.planning.plan import Delete, Plan
from tests.model.actors.denying_policy import DENIALS, Answer
from tests.model.client import ModelClient, make_client
from tests.unit.builders import UID
from tests.unit.controller.raws import JOB_OWNER
from tests.unit.controller.test_executor import RecordedCache, make_job

KEY = JobKey("default", "digits")
POD_NAMES = [f"pod-{number:02}" for number in range(12)]
DELETES = Plan(deletes=tuple(Delete(name, f"uid-{name}") for name in POD_NAMES))
PLAIN = Answer(500, "no decision").to_error()


@pytest.fixture
def client() -> ModelClient:
    """Its server has the job and twelve pods."""
    pods = [{"kind": "Pod", "metadata": {"namespace": "default", "name": name}, "spec": {}} for name in POD_NAMES]
    return make_client(make_job(), *pods)


@pytest.fixture
def cache() -> RecordedCache:
    return RecordedCache()


@pytest.fixture
def executor(client: ModelClient, cache: RecordedCache) -> Executor:
    return Executor(client, cache, EventRecorder(client))


def fail(client: ModelClient, error: KubeError, names: list[str]) -> None:
    for name in names:
        client.faults.script["delete", name] = [error]


@pytest.mark.parametrize("failing", [1, 4, 11])
async def test_each_delete_is_tried_and_the_first_error_raised_at_the_end(
    client: ModelClient, executor: Executor, failing: int
) -> None:
    fail(client, PLAIN, POD_NAMES[:failing])
    with pytest.raises(RetryAfter, match="no decision"):
        await executor.execute(KEY, UID, DELETES)
    assert sorted(client.names("delete")) == POD_NAMES
    assert sorted(name for plural, _, name in client.api.objects if plural == "pods") == POD_NAMES[:failing]
    assert len(client.names("get")) <= 3, "the API server is asked at most once at a time whether it is there"


async def test_few_deletes_are_tried_while_the_api_server_is_away(client: ModelClient, executor: Executor) -> None:
    fail(client, PLAIN, POD_NAMES)
    client.faults.script["get", KEY.name] = [RetryAfter(503, "", "no leader")] * 9
    with pytest.raises(RetryAfter):
        await executor.execute(KEY, UID, DELETES)
    assert 3 <= len(client.names("delete")) <= 6


async def test_no_further_delete_is_tried_without_an_answer(client: ModelClient, executor: Executor) -> None:
    fail(client, RetryAfter(0, "NoAnswer", "reset"), POD_NAMES)
    with pytest.raises(RetryAfter):
        await executor.execute(KEY, UID, DELETES)
    assert len(client.names("delete")) == 1


@pytest.mark.parametrize("answer", DENIALS, ids=lambda answer: f"{answer.code} {answer.text[:50]}")
async def test_a_denial_is_neither_an_object_that_is_gone_nor_another_of_its_name(
    client: ModelClient, executor: Executor, cache: RecordedCache, answer: Answer
) -> None:
    metadata = {"namespace": "default", "name": "digits-input", "ownerReferences": [JOB_OWNER]}
    client.api.put({"kind": "ConfigMap", "metadata": metadata})
    fail(client, answer.to_error(), ["pod-03", "digits-input"])
    await executor.execute(KEY, UID, Plan(deletes=DELETES.deletes, removes=(Remove("ConfigMap", "digits-input"),)))
    assert sorted(cache.denied) == [("ConfigMap", "digits-input", answer.text), ("Pod", "pod-03", answer.text)]
    assert [name for plural, _, name in client.api.objects if plural == "pods"] == ["pod-03"]


GONE = [
    Gone(404, "NotFound", 'pods "pod-03" not found'),
    Conflict(
        409,
        "Conflict",
        'Operation cannot be fulfilled on Pod "pod-03": the UID in the precondition (a) does not '
        "match the UID in record (b). The object might have been deleted and then recreated",
    ),
    Conflict(409, "Conflict", "StorageError: invalid object, Code: 4: Precondition failed: UID in precondition: a"),
]


@pytest.mark.parametrize("error", GONE, ids=lambda error: error.message[:40])
async def test_an_object_that_is_gone_counts_as_deleted(
    client: ModelClient, executor: Executor, cache: RecordedCache, error: KubeError
) -> None:
    fail(client, error, ["pod-03"])
    await executor.execute(KEY, UID, DELETES)
    assert not cache.denied and "pod-03" in cache.deleted


@pytest.mark.parametrize("code", [404, 409])
async def test_an_answer_that_does_not_say_so_is_tried_again(
    client: ModelClient, executor: Executor, cache: RecordedCache, code: int
) -> None:
    fail(client, Answer(code, "the policy engine has no decision").to_error(), ["pod-03"])
    with pytest.raises(KubeError):
        await executor.execute(KEY, UID, DELETES)
    assert not cache.denied and "pod-03" not in cache.deleted
