"""Who may read /metrics: whoever the API server lets `get` the path, as for its own /metrics.

An answer is kept for a while, so that a scrape costs no request. Unknown tokens share a small budget of reviews, so
that nobody can make the operator flood the API server; a token that was accepted before does not wait for it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from railhead.controller.config import METRICS_PATH
from railhead.kube.client import KubeClient
from railhead.kube.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from railhead.kube.types import Object

KEEP_SECONDS = 60.0
KEEP_REJECTED_SECONDS = 10.0
KEEP_AT_MOST = 256
UNKNOWN_SECONDS = 0.2  # between two reviews of unknown tokens
MOST_CHARS = 16_384


@dataclass(frozen=True)
class Answer:
    """200, 401 or 403, until it is asked again."""

    code: int
    until: float


class MetricsAccess:
    """TokenReview and SubjectAccessReview, with a cache of answers. Stores no tokens, only their hashes."""

    def __init__(self, client: KubeClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._answers: OrderedDict[str, Answer] = OrderedDict()  # the oldest first
        self._next_unknown = monotonic()

    async def check(self, authorization: str) -> int:
        """200 if the header's bearer token may read the metrics, else 401, 403 or 429.

        Raises:
            KubeError: the API server does not answer.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii() or len(token) > MOST_CHARS:
            return 401
        digest, now = hashlib.sha256(token.encode()).hexdigest(), self._monotonic()
        known = self._answers.get(digest)
        if known is not None and known.until > now:
            return known.code
        if known is None or known.code != 200:
            if now < self._next_unknown:
                return 429
            self._next_unknown = now + UNKNOWN_SECONDS
        code = await self._review(token)
        seconds = KEEP_SECONDS if code == 200 else KEEP_REJECTED_SECONDS
        self._answers.pop(digest, None)
        self._answers[digest] = Answer(code, self._monotonic() + seconds)
        while len(self._answers) > KEEP_AT_MOST:
            self._answers.popitem(last=False)
        return code

    async def _review(self, token: str) -> int:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        found = (await self._client.create(TOKEN_REVIEW, review)).get("status") or {}
        if not found.get("authenticated"):
            return 401
        answer = await self._client.create(SUBJECT_ACCESS_REVIEW, build_access_review(found.get("user") or {}))
        return 200 if (answer.get("status") or {}).get("allowed") is True else 403


def build_access_review(user: Object) -> Object:
    """Whether this user of a TokenReview may get the metrics. Pure."""
    spec = {
        "user": user.get("username") or "",
        "uid": user.get("uid") or "",
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
        "nonResourceAttributes": {"path": METRICS_PATH, "verb": "get"},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
