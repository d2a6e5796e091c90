"""Who may read /metrics, what is remembered, and how often the API server is asked; then the answers over HTTPS."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from railhead.controller.metrics_access import (
    KEEP_AT_MOST,
    KEEP_REJECTED_SECONDS,
    KEEP_SECONDS,
    MOST_CHARS,
    UNKNOWN_SECONDS,
    MetricsAccess,
    build_access_review,
)
from railhead.controller.metrics_server import serve_metrics
from railhead.controller.probes import serve_probes
from railhead.controller.report.server import present
from railhead.kube.errors import KubeError, RetryAfter
from railhead.kube.kinds import Kind
from railhead.kube.types import Object
from railhead.local.ports import free_port
from railhead.pki import issue, make_ca
from tests.model.client import ModelClient, make_client

SCRAPER = "system:serviceaccount:monitoring:scraper"


class Reviewer(ModelClient):
    """An API server with two users, one of whom may read the metrics. `asked_for` has the kinds of its requests."""

    def __init__(self) -> None:
        super().__init__(make_client().api)
        self.users: dict[str, dict[str, Any]] = {"good": {"username": SCRAPER, "groups": ["g"]}, "other": {}}
        self.allowed = {SCRAPER}
        self.asked_for: list[str] = []
        self.error: KubeError | None = None

    async def create(self, kind: Kind, body: Object, **options: Any) -> Object:
        self.asked_for.append(kind.kind)
        if self.error is not None:
            raise self.error
        if kind.kind == "TokenReview":
            user = self.users.get(body["spec"]["token"])
            return {"status": {"authenticated": user is not None, "user": user}}
        return {"status": {"allowed": body["spec"]["user"] in self.allowed}}


class Clock:
    """Monotonic time, set by the test."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reviewer() -> Reviewer:
    return Reviewer()


@pytest.fixture
def access(reviewer: Reviewer, clock: Clock) -> MetricsAccess:
    return MetricsAccess(reviewer, clock)


BOTH = ["TokenReview", "SubjectAccessReview"]


@pytest.mark.parametrize(
    ("header", "code", "asked"),
    [
        ("Bearer good", 200, BOTH),
        ("bearer  good", 200, BOTH),
        ("Bearer other", 403, BOTH),
        ("Bearer unknown", 401, BOTH[:1]),
        ("", 401, []),
        ("Bearer", 401, []),
        ("good", 401, []),
        ("Basic good", 401, []),
        ("Bearer gööd", 401, []),
        ("Bearer " + "x" * (MOST_CHARS + 1), 401, []),
    ],
)
async def test_only_a_token_with_the_right_may_read(
    access: MetricsAccess, reviewer: Reviewer, header: str, code: int, asked: list[str]
) -> None:
    assert await access.check(header) == code
    assert reviewer.asked_for == asked


def test_the_review_is_about_the_whole_user() -> None:
    user = {"username": "u", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}}
    spec = build_access_review(user)["spec"]
    assert spec == {
        "user": "u",
        "uid": "1",
        "groups": ["g"],
        "extra": {"a": ["b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(("token", "seconds"), [("good", KEEP_SECONDS), ("other", KEEP_REJECTED_SECONDS)])
async def test_an_answer_is_kept_for_a_while(
    access: MetricsAccess, reviewer: Reviewer, clock: Clock, token: str, seconds: float
) -> None:
    first = await access.check(f"Bearer {token}")
    clock.now += seconds - 0.1
    assert await access.check(f"Bearer {token}") == first
    assert reviewer.asked_for == BOTH
    reviewer.allowed = {"", SCRAPER} if token == "other" else set()
    clock.now += 0.1
    assert await access.check(f"Bearer {token}") == (200 if token == "other" else 403)
    assert reviewer.asked_for == BOTH * 2


async def test_unknown_tokens_share_a_budget_that_known_ones_need_not(
    access: MetricsAccess, reviewer: Reviewer, clock: Clock
) -> None:
    assert await access.check("Bearer good") == 200
    clock.now += KEEP_SECONDS
    reviewer.asked_for.clear()
    assert [await access.check(f"Bearer x{number}") for number in range(1000)] == [401] + [429] * 999
    assert await access.check("Bearer good") == 200
    assert reviewer.asked_for == ["TokenReview", *BOTH]
    clock.now += UNKNOWN_SECONDS
    assert await access.check("Bearer other") == 403


async def test_the_answers_are_bounded(access: MetricsAccess, clock: Clock) -> None:
    for number in range(KEEP_AT_MOST + 10):
        clock.now += UNKNOWN_SECONDS
        await access.check(f"Bearer x{number}")
    assert len(access._answers) == KEEP_AT_MOST


async def test_a_missing_answer_is_raised_and_not_kept(access: MetricsAccess, reviewer: Reviewer, clock: Clock) -> None:
    reviewer.error = RetryAfter(0, "NoAnswer", "reset")
    with pytest.raises(RetryAfter):
        await access.check("Bearer good")
    reviewer.error = None
    clock.now += UNKNOWN_SECONDS
    assert await access.check("Bearer good") == 200


async def test_the_metrics_are_served_over_https_and_the_probes_stay_open(reviewer: Reviewer, clock: Clock) -> None:
    begin = datetime.now(UTC) - timedelta(hours=1)
    ca = make_ca("ca", now=begin, days=1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    present(context, issue(ca, "server", now=begin, days=1, names=["127.0.0.1"]))
    client = ssl.create_default_context(cadata=ca.certificate)
    secure, probes = free_port(), free_port()
    access = MetricsAccess(reviewer, clock)
    async with (
        serve_metrics(f"127.0.0.1:{secure}", context, access, lambda: b"a 1\n"),
        serve_probes(f"127.0.0.1:{probes}", lambda: True, None, list),
        aiohttp.ClientSession() as session,
    ):

        async def get(token: str, path: str = "/metrics") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            url = f"https://127.0.0.1:{secure}{path}"
            async with session.get(url, headers=headers, ssl=client) as response:
                return response.status, await response.text()

        assert await get("good") == (200, "a 1\n")
        assert (await get(""))[0] == 401
        reviewer.error = RetryAfter(0, "NoAnswer", "reset")
        clock.now += UNKNOWN_SECONDS
        assert (await get("other"))[0] == 503
        assert (await get("good"))[0] == 200, "its answer is known"
        reviewer.error = None
        assert (await get("other"))[0] == 429
        clock.now += UNKNOWN_SECONDS
        assert (await get("other"))[0] == 403
        assert (await get("good", "/healthz"))[0] == 404
        for path, code in (("healthz", 200), ("readyz", 200), ("metrics", 404)):
            async with session.get(f"http://127.0.0.1:{probes}/{path}") as response:
                assert response.status == code
