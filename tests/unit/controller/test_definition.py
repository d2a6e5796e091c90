"""The check of the CRD at startup, by its OpenAPI document."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from railhead.api import names
from railhead.api.crd import build_crd
from railhead.api.served import PATH
from railhead.controller.installation import TRIES, WrongDefinition, check_definition, find_problem
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.errors import Denied, Gone, KubeError
from tests.unit.kube.no_transport import NoTransport

GONE = Gone(404, "NotFound", "not found")


@cache
def read_schema() -> dict[str, Any]:
    """Once: it takes a tenth of a second, and the documents of several tests are made when they are collected."""
    schema: dict[str, Any] = build_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def make_document(*missing: str, newer: bool = False) -> dict[str, Any]:
    """The document of a CRD without these fields of the spec; a newer one has another field."""
    schema = copy.deepcopy(read_schema())
    fields = schema["properties"]["spec"]["properties"]
    for name in missing:
        del fields[name]
    if newer:
        fields["ofTomorrow"] = {"type": "string"}
    schema["x-kubernetes-group-version-kind"] = [{"group": names.GROUP, "version": names.VERSION, "kind": names.KIND}]
    return {"components": {"schemas": {"a.list": {"type": "object"}, "a.kind": schema}}}


class Server(KubeClient):
    """Gives these responses in order, and repeats the last one."""

    def __init__(self, *answers: dict[str, Any] | KubeError) -> None:
        super().__init__(NoTransport())
        self.replies = list(answers)
        self.pauses: list[float] = []

    async def get_object(self, path: str) -> Object:
        assert path == PATH
        answer = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def check(self) -> None:
        await check_definition(self, sleep=self.sleep)


@pytest.mark.parametrize("answers", [[make_document()], [make_document(newer=True)], [Denied(403, "Forbidden", "no")]])
async def test_a_current_a_newer_and_an_unreadable_definition_are_accepted_at_once(answers: list[Any]) -> None:
    server = Server(*answers)
    await server.check()
    assert server.pauses == []


async def test_waits_for_a_definition_that_is_served_a_moment_later() -> None:
    server = Server(GONE, make_document("env"), make_document())
    await server.check()
    assert len(server.pauses) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (GONE, "The API server has no CRD trainjobs.railhead.dev. Apply the CRD of"),
        (make_document("env", "run"), "is older than this operator needs (spec.run: missing; "),
        ({"components": {}}, "is older than this operator needs"),
    ],
)
async def test_an_older_definition_is_rejected_with_the_fix(answer: Any, message: str) -> None:
    server = Server(answer)
    with pytest.raises(WrongDefinition) as caught:
        await server.check()
    assert message in str(caught.value)
    assert "kubectl apply --server-side -f crds/" in str(caught.value)
    assert len(server.pauses) == TRIES - 1


def test_many_missing_fields_are_listed_briefly() -> None:
    message = find_problem(make_document("env", "run", "scaling", "head", "worker", "datasets"))
    assert " more)" in message
    assert len(message) < 600
