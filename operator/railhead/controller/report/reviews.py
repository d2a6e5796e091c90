"""Authenticates tokens with the API server. Caches positive answers for a while, a bounded number of them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from railhead.contract.report import AUDIENCE
from railhead.controller.report.authority import Speaker, read_review
from railhead.kube.client import KubeClient
from railhead.kube.kinds import TOKEN_REVIEW

KEEP_SECONDS = 30.0
KEEP_AT_MOST = 4096


class TokenReviews:
    """TokenReview with a cache of positive answers. Stores no tokens, only their hashes."""

    def __init__(self, client: KubeClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._known: OrderedDict[str, tuple[float, Speaker]] = OrderedDict()

    async def speaker(self, token: str) -> Speaker | None:
        """The pod that the token belongs to; None when it is invalid. Raises KubeError when there is no answer."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        known = self._known.get(digest)
        if known is not None and known[0] > self._monotonic():
            return known[1]
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        speaker = read_review(await self._client.create(TOKEN_REVIEW, body))
        if speaker is not None:
            self._known[digest] = (self._monotonic() + KEEP_SECONDS, speaker)
            self._known.move_to_end(digest)
            while len(self._known) > KEEP_AT_MOST:
                self._known.popitem(last=False)
        return speaker
