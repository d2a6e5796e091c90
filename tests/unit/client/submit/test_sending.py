"""The ConfigMap of a job's code, where one of its name exists; tests/api/test_submit.py has the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from railhead.client.cluster.connection import Cluster
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.code_files import CodeFile
from railhead.client.submit.code_map import make_code_map
from railhead.client.submit.sending import keep_code, send_code
from railhead.json_object import Object
from railhead.kube.errors import Conflict, Gone, RetryAfter
from railhead.kube.kinds import TRAIN_JOB, Kind

CODE = make_code_map("a", [CodeFile("train.py", b"x")])
HELD: Object = {"metadata": {"name": "a", "uid": "new"}, "spec": {"suspend": True}}


@dataclass
class OneConfigMap:
    """An API server with at most one ConfigMap.

    Attributes:
        vanishes: garbage collection removes it before it can be read.
    """

    stored: Object | None = None
    vanishes: bool = False
    patches: list[Object] = field(default_factory=list)
    failure: Exception | None = None

    async def create(self, kind: Kind, body: Object, *, namespace: str) -> Object:
        if self.stored is not None:
            self.stored = None if self.vanishes else self.stored
            raise Conflict(409, "AlreadyExists", "already exists")
        self.stored = {**body, "metadata": {**body["metadata"], "uid": "uid-map"}}
        return self.stored

    async def get(self, kind: Kind, name: str, *, namespace: str) -> Object:
        if self.stored is None:
            raise Gone(404, "NotFound", "not found")
        return self.stored

    async def delete(self, kind: Kind, name: str, *, namespace: str, uid: str) -> Object:
        assert uid == "uid-map"
        self.stored = None
        return {}

    async def patch(self, kind: Kind, name: str, body: Object, *, namespace: str, is_strict: bool) -> Object:
        assert kind == TRAIN_JOB
        if self.failure is not None:
            raise self.failure
        self.patches.append(body)
        return body


def make_stored(job: str, uid: str, **changes: Any) -> Object:
    body = CODE.build("team", job, uid)
    return {**body, "metadata": {**body["metadata"], "uid": "uid-map"}, **changes}


async def send(client: OneConfigMap) -> None:
    cluster = Cluster(client, "team", "team")  # type: ignore[arg-type]
    await send_code(cluster, {"spec": {}}, HELD, CODE)


def find_owner(client: OneConfigMap) -> str:
    assert client.stored is not None
    return str(client.stored["metadata"]["ownerReferences"][0]["uid"])


@pytest.mark.parametrize(
    "client",
    [
        OneConfigMap(),
        OneConfigMap(make_stored("a", "new")),
        OneConfigMap(make_stored("a", "old")),
        OneConfigMap(make_stored("a", "old"), vanishes=True),
        OneConfigMap(make_stored("a", "new", data={"0-train.py": "other"})),
    ],
    ids=["absent", "sent before", "of a deleted job", "collected meanwhile", "of this job with other content"],
)
async def test_the_job_is_resumed_once_it_owns_the_config_map(client: OneConfigMap) -> None:
    await send(client)
    assert find_owner(client) == "new"
    assert client.stored is not None and client.stored["data"] == {"0-train.py": "x"}
    assert [patch["metadata"]["uid"] for patch in client.patches] == ["new"]


@pytest.mark.parametrize(
    "stored", [make_stored("b", "new"), make_stored("a", "new", metadata={"uid": "uid-map"})], ids=["other", "none"]
)
async def test_a_config_map_of_another_owner_stays_and_the_job_suspended(stored: Object) -> None:
    client = OneConfigMap(stored)
    with pytest.raises(ClientError, match="belongs to something else") as error:
        await send(client)
    assert error.value.code == ExitCode.REFUSED
    assert client.stored == stored
    assert not client.patches


@pytest.mark.parametrize("stored", [None, make_stored("a", "old", metadata={"uid": "uid-map"})])
async def test_a_retry_owns_no_config_map_of_the_user(stored: Object | None) -> None:
    client = OneConfigMap(stored)
    job = {"metadata": {"name": "a-r2", "uid": "new"}, "spec": {"source": CODE.source}}
    await keep_code(Cluster(client, "team", "team"), job)  # type: ignore[arg-type]
    assert client.stored == stored


async def test_an_error_says_what_is_left_and_how_to_continue() -> None:
    client = OneConfigMap(failure=RetryAfter(0, "", "connection reset"))
    with pytest.raises(ClientError, match=r"connection reset") as error:
        await send(client)
    assert str(error.value).splitlines()[1].startswith("a exists and stays suspended: run the same command again")
    assert error.value.code == ExitCode.UNREACHABLE
