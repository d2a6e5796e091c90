"""Whose a token is: asked once for a while when it is good, asked again when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import POD_NAME, POD_UID, Speaker
from railhead.controller.report.reviews import KEEP_AT_MOST, KEEP_SECONDS, TokenReviews
from railhead.kube.errors import KubeError, RetryAfter
from railhead.kube.kinds import Kind
from tests.unit.controller.fake_client import FakeClient


class Reviewer(FakeClient):
    """Tokens are good by list; the speaker's pod is named as the token."""

    def __init__(self, *good: str) -> None:
        super().__init__()
        self.good = set(good)
        self.reviewed: list[str] = []
        self.error: KubeError | None = None

    async def create(self, kind: Kind, body: dict[str, Any], **where: Any) -> dict[str, Any]:
        assert (kind.path(), where) == ("/apis/authentication.k8s.io/v1/tokenreviews", {})
        assert body["spec"]["audiences"] == [AUDIENCE]
        if self.error:
            raise self.error
        token = body["spec"]["token"]
        self.reviewed.append(token)
        if token not in self.good:
            return {"status": {"error": "no such token"}}
        user = {"username": "system:serviceaccount:ns:runner", "extra": {POD_NAME: [token], POD_UID: [f"u-{token}"]}}
        return {"status": {"authenticated": True, "audiences": [AUDIENCE], "user": user}}


class Clock:
    """Monotonic time as a test says."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_good_token_is_asked_once_for_a_while(clock: Clock) -> None:
    client = Reviewer("good")
    reviews = TokenReviews(client, clock)
    for _ in range(3):
        assert await reviews.speaker("good") == Speaker("ns", "good", "u-good")
    assert client.reviewed == ["good"]
    clock.now += KEEP_SECONDS - 0.1
    await reviews.speaker("good")
    assert client.reviewed == ["good"]
    clock.now += 0.1
    await reviews.speaker("good")
    assert client.reviewed == ["good", "good"]


async def test_a_token_that_is_not_good_any_more_is_refused_after_that_while(clock: Clock) -> None:
    client = Reviewer("good")
    reviews = TokenReviews(client, clock)
    await reviews.speaker("good")
    client.good.clear()
    clock.now += KEEP_SECONDS
    assert await reviews.speaker("good") is None
    assert await reviews.speaker("good") is None


async def test_a_refusal_is_not_kept(clock: Clock) -> None:
    """The API server may come to know a token a moment later."""
    client = Reviewer()
    reviews = TokenReviews(client, clock)
    assert await reviews.speaker("young") is None
    client.good.add("young")
    assert await reviews.speaker("young") == Speaker("ns", "young", "u-young")


async def test_tokens_are_told_apart_by_all_of_them(clock: Clock) -> None:
    reviews = TokenReviews(Reviewer("good", "good2"), clock)
    assert await reviews.speaker("good") == Speaker("ns", "good", "u-good")
    assert await reviews.speaker("good2") == Speaker("ns", "good2", "u-good2")
    assert await reviews.speaker("goo") is None


async def test_without_an_answer_it_is_raised_and_nothing_is_kept(clock: Clock) -> None:
    client = Reviewer("good")
    reviews = TokenReviews(client, clock)
    client.error = RetryAfter(0, "NoAnswer", "reset")
    with pytest.raises(RetryAfter):
        await reviews.speaker("good")
    client.error = None
    assert await reviews.speaker("good") is not None


async def test_the_oldest_make_room_for_the_newest(clock: Clock) -> None:
    tokens = [f"t{number}" for number in range(KEEP_AT_MOST + 1)]
    client = Reviewer(*tokens)
    reviews = TokenReviews(client, clock)
    for token in tokens:
        await reviews.speaker(token)
    client.reviewed.clear()
    for token in (tokens[-1], tokens[1], tokens[0]):
        await reviews.speaker(token)
    assert client.reviewed == [tokens[0]]
