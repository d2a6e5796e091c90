"""Tokens: what they say is read without trust; what is remembered, and how often the API server is asked."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import Speaker
from railhead.controller.tokens import (
    CLOCK_SECONDS,
    KEEP_AT_MOST,
    KEEP_REJECTED_SECONDS,
    KEEP_SECONDS,
    MOST_CHARS,
    TURN_SECONDS,
    NotYet,
    TokenReviews,
    Verdict,
    judge_pod,
    read_bearer,
    read_claims,
)
from railhead.kube.errors import RetryAfter
from railhead.kube.kinds import SERVICE_ACCOUNT
from tests.model.client import ModelClient, make_client
from tests.model.faults import NEVER_SENT, NOON
from tests.unit.controller.report.facts import SPEAKER, encode, make_token


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
    return (await reviews.judge(token, named=pod_uid or token)).speaker


def make_reviews(client: ModelClient, clock: Clock) -> TokenReviews:
    return TokenReviews(partial(judge_pod, client), clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_valid_token_is_reviewed_once_for_a_while(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews, good = make_reviews(tokens.client, clock), tokens.of["good"]
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
    reviews, good = make_reviews(tokens.client, clock), tokens.of["good"]
    await ask(reviews, good)
    tokens.client.api.remove(("pods", "ns", "good"))
    clock.now += KEEP_SECONDS
    assert await ask(reviews, good) is None
    assert await ask(reviews, good) is None


async def test_a_token_is_known_from_its_first_acceptance_to_its_rejection(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews, good = make_reviews(tokens.client, clock), tokens.of["good"]
    assert not reviews.is_known(good)
    await ask(reviews, good)
    clock.now += KEEP_SECONDS
    assert reviews.is_known(good), "although it is reviewed again"
    tokens.client.api.remove(("pods", "ns", "good"))
    await ask(reviews, good)
    assert not reviews.is_known(good)


async def test_a_token_for_another_audience_is_rejected(clock: Clock) -> None:
    tokens = Tokens()
    other = tokens.issue("pod", "https://kubernetes")
    assert await ask(make_reviews(tokens.client, clock), other) is None
    assert await judge_pod(tokens.client, other) == Verdict(401)


async def test_of_two_reviews_at_once_the_last_answer_counts(clock: Clock) -> None:
    answers = [Verdict(200), Verdict(401)]

    async def review(token: str) -> Verdict:
        await asyncio.sleep(0)
        return answers.pop(0)

    reviews = TokenReviews(review, clock)
    found = tuple(await asyncio.gather(reviews.judge("t", named="a"), reviews.judge("t", named="b")))
    assert found == (Verdict(200), Verdict(401))
    assert await reviews.judge("t", named="a") == Verdict(401)


async def test_a_rejection_is_remembered_for_a_moment(clock: Clock) -> None:
    """The API server may know the token a moment later."""
    tokens = Tokens("young")
    reviews, young = make_reviews(tokens.client, clock), tokens.of["young"]
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
    reviews, good = make_reviews(tokens.client, clock), tokens.of["good"]
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
    assert reviews._turns.count(clock.now) == 1, "nothing is kept of earlier turns"


async def test_tokens_are_compared_in_full(clock: Clock) -> None:
    tokens = Tokens("good", "good2")
    reviews = make_reviews(tokens.client, clock)
    assert await ask(reviews, tokens.of["good"]) == Speaker("ns", "good", "u-good")
    assert await ask(reviews, tokens.of["good2"]) == Speaker("ns", "good2", "u-good2")
    assert await ask(reviews, tokens.of["good"][:-1]) is None


async def test_a_missing_response_is_raised_and_nothing_is_cached(clock: Clock) -> None:
    tokens = Tokens("good")
    reviews = make_reviews(tokens.client, clock)
    tokens.client.faults.script["create", ""] = [NEVER_SENT]
    with pytest.raises(RetryAfter):
        await ask(reviews, tokens.of["good"])
    clock.now += TURN_SECONDS
    assert await ask(reviews, tokens.of["good"]) is not None


async def test_rejected_tokens_are_not_kept_without_end(clock: Clock) -> None:
    reviews = make_reviews(Tokens().client, clock)
    for number in range(KEEP_AT_MOST + 10):
        await ask(reviews, f"x{number}")
    assert reviews._rejected.count(clock.now) == KEEP_AT_MOST


async def test_the_cache_drops_its_oldest_entries(clock: Clock) -> None:
    tokens = Tokens(*(f"t{number}" for number in range(KEEP_AT_MOST + 1)))
    reviews, known = make_reviews(tokens.client, clock), list(tokens.of.values())
    for token in known:
        await ask(reviews, token)
    tokens.client.asked.clear()
    clock.now += TURN_SECONDS
    for token in (known[-1], known[1], known[0]):
        await ask(reviews, token)
    assert tokens.reviewed == [known[0]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_a_token_of_the_api_server_names_its_pod_and_its_end() -> None:
    claims = read_claims(make_token())
    assert claims is not None and (claims.speaker, claims.exp) == (SPEAKER, NOON.timestamp() + 3600)
    assert read_claims(make_token(aud=AUDIENCE)), "one audience need not be a list"


def test_a_token_expires_a_minute_late_as_for_the_api_server() -> None:
    claims, end = read_claims(make_token()), NOON + timedelta(hours=1, seconds=CLOCK_SECONDS)
    assert claims is not None and not claims.is_expired(end) and claims.is_expired(end + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer good", "good"),
        ("bearer  good ", "good"),
        ("", ""),
        ("Bearer", ""),
        ("good", ""),
        ("Basic good", ""),
        ("Bearer gööd", ""),
        ("Bearer " + "x" * MOST_CHARS, "x" * MOST_CHARS),
        ("Bearer " + "x" * (MOST_CHARS + 1), ""),
    ],
)
def test_only_a_header_with_a_possible_token_has_one(header: str, token: str) -> None:
    assert read_bearer(header) == token


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": []},
        {"aud": None},
        {"aud": {AUDIENCE: 1}},
        {"exp": None},
        {"exp": "1"},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": -1},
        {"exp": 10**400},
        {"names": "none"},
        {"names": []},
        {"names": {"namespace": "", "pod": {"name": "a", "uid": "b"}}},
        {"names": {"namespace": "ns", "pod": "a"}},
        {"names": {"namespace": "ns", "pod": {"name": ["a"], "uid": "b"}}},
    ],
    ids=str,
)
def test_anything_else_is_no_token_for_the_endpoint(claims: dict[str, Any]) -> None:
    assert read_claims(make_token(**claims)) is None


def test_deep_nesting_is_no_token() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 5000).decode()
    assert read_claims(f"a.{deep}.c") is None


@given(st.text() | st.builds(lambda values: f"a.{encode(values)}.c", JSON))
def test_reading_never_raises(token: str) -> None:
    assert read_claims(token) is None


@given(JSON, JSON, JSON)
def test_reading_never_raises_on_values_of_any_kind(audience: Any, expires: Any, names: Any) -> None:
    assert read_claims(make_token(aud=audience, exp=expires, names=names)) is None
