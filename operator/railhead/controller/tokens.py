"""The bearer tokens of requests: what they say of themselves, and what the API server says of them.

What a token says is not verified; it only spares the API server the tokens that cannot be right.

The API server is asked seldom enough that no sender can make the operator flood it. A token that was accepted is
remembered for a while, and always reviewed again. A rejected one is remembered for a moment, and one that is not known
waits for the turn of whom it names: so forged tokens can only delay the reports of the job whose pod they name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import AliasPath, BaseModel, Field

from railhead.contract.report import AUDIENCE
from railhead.controller.expiring import Expiring
from railhead.controller.report.authority import Speaker, read_review
from railhead.json_object import Object
from railhead.kube.client import KubeClient
from railhead.kube.kinds import TOKEN_REVIEW

KEEP_SECONDS = 30.0
# An API server that has just started may not know the pod yet.
KEEP_REJECTED_SECONDS = 5.0
# A driver reports more often, and the API server issues tokens for an hour.
KNOWN_SECONDS = 3600.0
KEEP_AT_MOST = 4096
TURN_SECONDS = 1.0
# One of the API server's has about 1,200.
MOST_CHARS = 8192
CLOCK_SECONDS = 60  # that the API server allows a clock to differ

Text = Annotated[str, Field(min_length=1)]


class Claims(BaseModel):
    """What a token of a pod says of itself: its audiences, the end of its validity in seconds since 1970, its pod."""

    aud: list[object] | str
    exp: float = Field(ge=0, le=1e11)
    namespace: Text = Field(validation_alias=AliasPath("kubernetes.io", "namespace"))
    pod: Text = Field(validation_alias=AliasPath("kubernetes.io", "pod", "name"))
    pod_uid: Text = Field(validation_alias=AliasPath("kubernetes.io", "pod", "uid"))

    @property
    def speaker(self) -> Speaker:
        return Speaker(self.namespace, self.pod, self.pod_uid)

    def is_expired(self, now: datetime) -> bool:
        return self.exp + CLOCK_SECONDS < now.timestamp()


def read_bearer(header: str) -> str:
    """Returns the token of an Authorization header; "" if there is none that the API server could have issued."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    if scheme.lower() == "bearer" and token.isascii() and len(token) <= MOST_CHARS:
        return token
    return ""


def read_claims(token: str) -> Claims | None:
    """Returns None when it is no token of a pod for the report endpoint. Never raises."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return None
    try:
        # JWTs leave out the padding, and Python ignores what is too much of it.
        claims = Claims.model_validate_json(base64.urlsafe_b64decode(parts[1] + "==="), strict=True)
    except ValueError:
        return None
    if AUDIENCE in (claims.aud if isinstance(claims.aud, list) else [claims.aud]):
        return claims
    return None


class NotYet(Exception):
    """Another unknown token that names the same was reviewed a moment ago; ask again in TURN_SECONDS."""


@dataclass(frozen=True)
class Verdict:
    """The API server's answer about a token.

    Attributes:
        code: 200, or the status with which the request is rejected.
        speaker: the pod that the token is bound to.
    """

    code: int
    speaker: Speaker | None = None


class TokenReviews:
    """Asks the API server about tokens and remembers its answers. Stores no tokens, only their hashes."""

    def __init__(self, ask: Callable[[str], Awaitable[Verdict]], monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._accepted = Expiring[str, Verdict](KEEP_SECONDS, most=KEEP_AT_MOST)
        self._rejected = Expiring[str, Verdict](KEEP_REJECTED_SECONDS, most=KEEP_AT_MOST)
        self._known = Expiring[str, bool](KNOWN_SECONDS, most=KEEP_AT_MOST)
        self._turns = Expiring[str, bool](TURN_SECONDS)  # by whom an unknown token names

    def is_known(self, token: str) -> bool:
        """Returns whether it was accepted in the last hour, and has not been rejected since."""
        return self._known.get(_digest(token), self._monotonic()) is not None

    async def judge(self, token: str, *, named: str) -> Verdict:
        """Returns the verdict on the token. `named`: whose turn an unknown one takes.

        Raises:
            NotYet: it is not the turn of an unknown token.
            KubeError: the API server does not answer.
        """
        digest = _digest(token)
        now = self._monotonic()
        verdict = self._accepted.get(digest, now) or self._rejected.get(digest, now)
        if verdict is not None:
            return verdict
        if not self._known.get(digest, now):
            # One unknown token a second for each pod that is named: a flood of forged ones reaches the API server as a
            # trickle.
            if self._turns.get(named, now):
                raise NotYet
            self._turns.put(named, True, now)
        verdict = await self._ask(token)
        now = self._monotonic()
        if verdict.code == 200:
            self._accepted.put(digest, verdict, now)
            self._known.put(digest, True, now)
        else:
            self._rejected.put(digest, verdict, now)
            self._accepted.pop(digest)
            self._known.pop(digest)
        return verdict


async def review(client: KubeClient, token: str, *audiences: str) -> Object:
    """Returns the TokenReview with the API server's answer. Raises KubeError."""
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    return await client.create(TOKEN_REVIEW, body)


async def judge_pod(client: KubeClient, token: str) -> Verdict:
    """Returns 200 with its pod for a token of a pod for the report endpoint, else 401. Raises KubeError."""
    speaker = read_review(await review(client, token, AUDIENCE))
    if speaker is None:
        return Verdict(401)
    return Verdict(200, speaker)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
