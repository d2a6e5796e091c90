"""Authenticates tokens with the API server, seldom enough that nobody can make the operator flood it.

A valid token is remembered for a while, and one that was valid once is always reviewed again. An invalid one is
remembered for a moment, and one that is not known waits for its pod's turn: so somebody who forges
tokens can only delay the reports of the job whose pod they name.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from railhead.contract.report import AUDIENCE
from railhead.controller.expiry import drop_until
from railhead.controller.report.authority import Speaker, read_review
from railhead.kube.client import KubeClient
from railhead.kube.kinds import TOKEN_REVIEW

KEEP_SECONDS = 30.0
KEEP_REJECTED_SECONDS = 5.0  # an API server that has just started may not know the pod yet
KEEP_AT_MOST = 4096
TURN_SECONDS = 1.0


class NotYet(Exception):
    """Another token that names the pod was reviewed a moment ago."""


@dataclass(frozen=True)
class Answer:
    """The API server's, until it is asked again."""

    speaker: Speaker | None
    until: float


class TokenReviews:
    """TokenReview with a cache of answers. Stores no tokens, only their hashes."""

    def __init__(self, client: KubeClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._rejected: OrderedDict[str, Answer] = OrderedDict()
        self._turns: dict[str, float] = {}  # by the pod's uid, the oldest first

    def is_expired(self, expires: float) -> bool:
        """By the API server's clock, which allows a minute, too."""
        return expires + 60 < self._client.clock.now().timestamp()

    def is_known(self, token: str) -> bool:
        """It was valid, and has not been rejected since."""
        return _digest(token) in self._known

    async def speaker(self, token: str, *, pod_uid: str) -> Speaker | None:
        """The pod that the token belongs to; None when it is invalid. `pod_uid` is the pod that it names.

        Raises:
            NotYet: ask again in TURN_SECONDS.
            KubeError: the API server does not answer.
        """
        digest = _digest(token)
        for answers in (self._known, self._rejected):
            known = answers.get(digest)
            if known is not None and known.until > self._monotonic():
                return known.speaker
        if digest not in self._known:
            self._take_turn(pod_uid)
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        speaker = read_review(await self._client.create(TOKEN_REVIEW, body))
        self._known.pop(digest, None)
        seconds = KEEP_REJECTED_SECONDS if speaker is None else KEEP_SECONDS
        answers = self._rejected if speaker is None else self._known
        answers[digest] = Answer(speaker, self._monotonic() + seconds)
        while len(answers) > KEEP_AT_MOST:
            answers.popitem(last=False)
        return speaker

    def _take_turn(self, pod_uid: str) -> None:
        now = self._monotonic()
        drop_until(self._turns, now - TURN_SECONDS)
        if pod_uid in self._turns:
            raise NotYet
        self._turns[pod_uid] = now


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
