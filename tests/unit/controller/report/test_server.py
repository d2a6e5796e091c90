"""The report endpoint over HTTP: every answer that any client may get."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.contract.answer import Answer
from railhead.contract.failure import FailureRule
from railhead.contract.metric_rule import MetricRule
from railhead.contract.report import LIMIT_BYTES, PATH
from railhead.controller.report.authority import JobFacts, Speaker
from railhead.controller.tokens import Verdict
from railhead.kube.errors import RetryAfter
from tests.model.faults import NOON
from tests.unit.builders import make_worker
from tests.unit.controller.report.endpoint import FORGED, GOOD, STRANGE, Endpoint, body_of
from tests.unit.controller.report.facts import HEAD, SPEAKER, make_facts, make_report, make_token


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    async with endpoint.client:
        yield endpoint


NAN_RULE = MetricRule("nan", "IsNaN", "Fail", metric="loss")


@pytest.mark.parametrize("deadline", [600, None])
async def test_the_response_is_the_answer_for_the_job_as_the_driver_reads_it(
    endpoint: Endpoint, deadline: int | None
) -> None:
    answer = Answer(deadline, "Restart", 2, (FailureRule("Fail", reasons=("A",)),), (NAN_RULE,))
    endpoint.jobs[JobKey("default", "digits")] = replace(make_facts(), answer=answer)
    data = json.dumps(body_of()).encode()
    async with endpoint.client.post(PATH, data=data, headers=GOOD) as response:
        body = await response.read()
    assert json.loads(body)["message"] == "accepted"
    assert Answer.from_json(body) == replace(answer, next_report_seconds=8.0)


async def test_a_valid_report_is_accepted(endpoint: Endpoint) -> None:
    assert await endpoint.post(body_of(unknown="of a newer driver")) == 202
    assert endpoint.writer.reports == [make_report()]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {make_token()}"},
        {"Authorization": make_token()},
        {"Authorization": "Bearer guessed"},
        {"Authorization": "Bearer gööd"},
        FORGED,
    ],
)
async def test_a_request_without_a_valid_token_is_rejected(endpoint: Endpoint, headers: dict[str, str]) -> None:
    assert await endpoint.post(body_of(), headers=headers) == 401
    assert endpoint.writer.reports == []


async def test_the_scheme_is_case_insensitive(endpoint: Endpoint) -> None:
    assert await endpoint.post(body_of(), headers={"Authorization": f"bearer  {make_token()}"}) == 202
    assert endpoint.reviews.reviewed == [make_token()]


WORKER = make_worker(0)
ENDED = replace(HEAD, phase="Failed", exit_code=1)
POD = {"name": SPEAKER.pod, "uid": SPEAKER.pod_uid}


@pytest.mark.parametrize(
    ("token", "body", "facts", "code"),
    [
        ("no-token", {}, None, 401),
        (f"{make_token()}.more", {}, None, 401),
        (make_token().rpartition(".")[0] + ".", {}, None, 401),  # alg none: without a signature
        ("x" * 8000, {}, None, 401),
        ("a.!!!.c", {}, None, 401),
        (make_token(aud=["https://kubernetes.default.svc"]), {}, None, 401),
        (make_token(exp=NOON.timestamp() - 61), {}, None, 401),
        (make_token(exp="later"), {}, None, 401),
        (make_token(names={"namespace": "default"}), {}, None, 401),
        (make_token(names={"namespace": "default", "pod": {"name": 1, "uid": "u"}}), {}, None, 401),
        (make_token(STRANGE), {}, None, 403),
        (make_token(Speaker("default", WORKER.name, WORKER.uid)), {}, None, 403),
        (make_token(Speaker("default", SPEAKER.pod, "deleted")), {}, None, 403),
        (make_token(), {"name": "other"}, None, 404),
        (make_token(), {"uid": "another"}, None, 404),
        (make_token(), {"attempt": 2}, None, 409),
        (make_token(), {}, make_facts(ENDED), 409),
    ],
)
async def test_a_token_that_cannot_be_right_costs_the_api_server_nothing(
    endpoint: Endpoint, token: str, body: dict[str, Any], facts: JobFacts | None, code: int
) -> None:
    if facts is not None:
        endpoint.jobs[JobKey("default", "digits")] = facts
    assert await endpoint.post(body_of(**body), headers={"Authorization": f"Bearer {token}"}) == code
    assert endpoint.reviews.reviewed == []
    assert endpoint.writer.reports == []


async def test_a_pod_that_too_many_tokens_name_is_asked_to_wait(endpoint: Endpoint) -> None:
    endpoint.reviews.is_busy = True
    assert await endpoint.post(body_of()) == 429
    endpoint.reviews.is_busy = False
    assert await endpoint.post(body_of()) == 202


async def test_a_job_that_changes_during_the_review_gets_no_report(endpoint: Endpoint) -> None:
    reviews, key = endpoint.reviews, JobKey("default", "digits")

    async def end_meanwhile(token: str, *, named: str) -> Verdict:
        endpoint.jobs[key] = make_facts(ENDED)
        return Verdict(200, SPEAKER)

    reviews.judge = end_meanwhile  # type: ignore[method-assign]
    assert await endpoint.post(body_of()) == 409
    assert endpoint.writer.reports == []


async def test_a_rejected_sender_gets_the_code_of_the_rejection(endpoint: Endpoint) -> None:
    assert await endpoint.post(body_of(), headers={"Authorization": f"Bearer {make_token(STRANGE)}"}) == 403
    assert await endpoint.post(body_of(attempt=2)) == 409
    assert await endpoint.post(body_of(name="other")) == 404
    assert endpoint.writer.reports == []


INVALID_REPORTS: list[Any] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe{}",
    b"[" * 50_000,
    b'{"attempt": ' + b"9" * 5000 + b"}",
    body_of(attempt="1"),
    body_of(attempt=True),
    body_of(attempt=1.0),
    body_of(attempt=None),
    body_of(state="DANCING"),
    body_of(reports=True),
    body_of(metrics=[]),
    body_of(time=7),
    body_of(run_uri=None),
    body_of(checkpoint="text"),
    body_of(resumed_from=[]),
    {key: value for key, value in body_of().items() if key != "uid"},
]


@pytest.mark.parametrize("body", INVALID_REPORTS, ids=lambda body: str(body)[:20])
async def test_a_malformed_report_is_rejected_before_its_token_is_reviewed(endpoint: Endpoint, body: Any) -> None:
    assert await endpoint.post(body) == 400
    assert endpoint.reviews.reviewed == []
    assert endpoint.writer.reports == []


async def test_a_body_over_the_limit_is_rejected(endpoint: Endpoint) -> None:
    assert await endpoint.post(body_of(time="x" * LIMIT_BYTES)) == 413
    assert endpoint.reviews.reviewed == []
    assert await endpoint.post(body_of(time="x" * (LIMIT_BYTES - 1000))) == 202


async def test_a_body_without_a_length_is_limited_too(endpoint: Endpoint) -> None:
    async def pour() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    async with endpoint.client.post(PATH, data=pour(), headers=GOOD) as response:
        assert response.status == 413


async def test_an_api_server_that_does_not_answer_is_no_rejection(endpoint: Endpoint) -> None:
    """With 401 the driver would give up; after 503 it tries again."""
    endpoint.reviews.error = RetryAfter(0, "NoAnswer", "reset")
    assert await endpoint.post(body_of()) == 503
    endpoint.reviews.error = None
    assert await endpoint.post(body_of()) == 202


@pytest.mark.parametrize(
    ("method", "path", "code"), [("GET", PATH, 405), ("POST", "/", 404), ("POST", PATH + "/x", 404)]
)
async def test_only_one_path_and_one_method_exist(endpoint: Endpoint, method: str, path: str, code: int) -> None:
    async with endpoint.client.request(method, path, headers=GOOD) as response:
        assert response.status == code


async def test_every_response_is_counted(endpoint: Endpoint) -> None:
    body = json.dumps(make_report().to_dict())
    for headers, data in ((GOOD, body), ({}, body), (GOOD, "no json"), (GOOD, "x" * (LIMIT_BYTES + 1))):
        await endpoint.client.post(PATH, data=data, headers=headers)
    await endpoint.client.get(PATH)
    assert endpoint.counted == [202, 401, 400, 413, 405]
