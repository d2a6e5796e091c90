"""TokenReviews: what is remembered, and how often the API server is asked."""

from __future__ import annotations

import pytest

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import Speaker
from railhead.controller.report.reviews import (
    KEEP_AT_MOST,
    KEEP_REJECTED_SECONDS,
    KEEP_SECONDS,
    TURN_SECONDS,
    NotYet,
    TokenReviews,
)
from railhead.kube.errors import RetryAfter
from railhead.kube.kinds import SERVICE_ACCOUNT
from tests.model.client import make_client
from tests.model.faults import NEVER_SENT


class Tokens:
    """A server whose pods have tokens. `of[pod]` is the pod's, `client` reviews it."""

    def __init__(self, *pods: str) -> None:
        self.client = make_client()
        self.of: dict[str, str] = {}
        for pod in pods:
            self.issue(pod)

    def issue(self, pod: str, audience: str = AUDIENCE) -> str:
        metadata = {"namespace": "ns", "name": pod, "uid": f"u-{pod}"}
        self.client.api.put({"kind": "Pod", "metadata": metadata, "spec": {}})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": f"u-{pod}"}
        request = {"spec": {"audiences": [audience], "boundObjectRef": bound}}
        answer = self.client.api.request(
            "POST", SERVICE_ACCOUNT.path(namespace="ns", name="default", subresource="token"), request
        )
        self.of[pod] = answer["status"]["token"]
        return self.of[pod]

    @property
    def reviewed(self) -> list[str]:
        """The reviewed tokens, in order."""
        return [r.body["spec"]["token"] for r in self.client.asked]


class Clock:
    """Monotonic time, set by the test."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def ask(reviews: TokenReviews, token: str, *, pod_uid: str = "") -> Speaker | None:
    """Each token names another pod, unless told otherwise."""
    return await reviews.speaker(token, pod_uid=pod_uid or token)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_valid_token_is_reviewed_once_for_a_while(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews, good = TokenReviews(tokens.client, clock), tokens.of["good"]
    for _ in range(3):
        assert await ask(reviews, good) == Speaker("ns", "good", "u-good")
    assert tokens.reviewed == [good]
    clock.now += KEEP_SECONDS - 0.1
    await ask(reviews, good)
    assert tokens.reviewed == [good]
    clock.now += 0.1
    await ask(reviews, good)
    assert tokens.reviewed == [good, good]


async def test_a_revoked_token_is_rejected_once_the_cache_expires(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews, good = TokenReviews(tokens.client, clock), tokens.of["good"]
    await ask(reviews, good)
    tokens.client.api.remove(("pods", "ns", "good"))
    clock.now += KEEP_SECONDS
    assert await ask(reviews, good) is None
    assert await ask(reviews, good) is None


async def test_a_token_is_known_from_its_first_acceptance_to_its_rejection(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews, good = TokenReviews(tokens.client, clock), tokens.of["good"]
    assert not reviews.is_known(good)
    await ask(reviews, good)
    clock.now += KEEP_SECONDS
    assert reviews.is_known(good), "although it is reviewed again"
    tokens.client.api.remove(("pods", "ns", "good"))
    await ask(reviews, good)
    assert not reviews.is_known(good)


async def test_a_token_for_another_audience_is_rejected(clock: Clock) -> None:
    tokens = Tokens()
    assert await ask(TokenReviews(tokens.client, clock), tokens.issue("pod", "https://kubernetes")) is None


async def test_a_rejection_is_remembered_for_a_moment(clock: Clock) -> None:
    """The API server may know the token a moment later."""
    tokens = Tokens("young")
    reviews, young = TokenReviews(tokens.client, clock), tokens.of["young"]
    known = tokens.client.api.tokens.pop(young)
    for _ in range(3):
        assert await ask(reviews, young) is None
    assert tokens.reviewed == [young]
    tokens.client.api.tokens[young] = known
    clock.now += KEEP_REJECTED_SECONDS
    assert await ask(reviews, young) == Speaker("ns", "young", "u-young")


async def test_forged_tokens_that_name_a_pod_cost_one_review_per_second(clock: Clock) -> None:
    """And delay no token of another pod, nor one of this pod that was valid before."""
    tokens = Tokens("good", "other")
    reviews, good = TokenReviews(tokens.client, clock), tokens.of["good"]
    await ask(reviews, good, pod_uid="u-good")
    clock.now += KEEP_SECONDS
    tokens.client.asked.clear()
    refused = 0
    for number in range(1000):
        try:
            assert await ask(reviews, f"forged-{number}", pod_uid="u-good") is None
        except NotYet:
            refused += 1
    assert (len(tokens.reviewed), refused) == (1, 999)
    assert await ask(reviews, good, pod_uid="u-good") == Speaker("ns", "good", "u-good")
    assert await ask(reviews, tokens.of["other"], pod_uid="u-other") == Speaker("ns", "other", "u-other")
    clock.now += TURN_SECONDS
    assert await ask(reviews, "forged-again", pod_uid="u-good") is None
    assert len(reviews._turns) == 1, "nothing is kept of earlier turns"


async def test_tokens_are_compared_in_full(clock: Clock) -> None:
    tokens = Tokens("good", "good2")
    reviews = TokenReviews(tokens.client, clock)
    assert await ask(reviews, tokens.of["good"]) == Speaker("ns", "good", "u-good")
    assert await ask(reviews, tokens.of["good2"]) == Speaker("ns", "good2", "u-good2")
    assert await ask(reviews, tokens.of["good"][:-1]) is None


async def test_a_missing_response_is_raised_and_nothing_is_cached(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews = TokenReviews(tokens.client, clock)
    tokens.client.faults.script["create", ""] = [NEVER_SENT]
    with pytest.raises(RetryAfter):
        await ask(reviews, tokens.of["good"])
    clock.now += TURN_SECONDS
    assert await ask(reviews, tokens.of["good"]) is not None


async def test_the_cache_drops_its_oldest_entries(clock: Clock) -> None:
    tokens = Tokens(*(f"t{number}" for number in range(KEEP_AT_MOST + 1)))
    reviews, known = TokenReviews(tokens.client, clock), list(tokens.of.values())
    for token in known:
        await ask(reviews, token)
    tokens.client.asked.clear()
    clock.now += TURN_SECONDS
    for token in (known[-1], known[1], known[0]):
        await ask(reviews, token)
    assert tokens.reviewed == [known[0]]
