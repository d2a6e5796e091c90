"""Judges the API server's errors about single objects: a refusal, which the job reports, or one to be tried again in
silence.

What admission says is a refusal, whatever its code, and so is what cannot succeed unchanged. Any other error becomes
one when it has lasted for `LASTING_SECONDS` while the API server answers otherwise: an admission plugin, or a proxy,
may answer anything. An API server that is away refuses nothing: the time begins again when it is back.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from railhead.api.parsed_spec import JobKey
from railhead.controller.expiring import Expiring
from railhead.kube.client import KubeClient
from railhead.kube.errors import Conflict, Denied, Gone, KubeError, RetryAfter, is_of_admission
from railhead.kube.kinds import TRAIN_JOB

LASTING_SECONDS = 30.0
# A quota that many pods change at once answers 409 to some of them, to a few of them many times in a row. Its words
# are those of a ResourceQuota and of OpenShift's ClusterResourceQuota.
CONTENDED_TEXT = "resourcequotas"
CONTENDED_TRIES = 20
IN_A_ROW_SECONDS = 180.0  # between two tries in a row at most: three times the longest backoff
# Longer than the longest delay of a next attempt, whose pods have other names and meet the same plugin.
KNOWN_SECONDS = 1200.0
ANSWERED_SECONDS = 5.0  # after an answer, in which the API server counts as there


class Subject(NamedTuple):
    """What a request is about: an object of the job with this uid."""

    uid: str
    verb: Literal["create", "delete", "change"]
    kind: str
    name: str


class Trouble(NamedTuple):
    """Errors in a row about one object; `since`: the time of the first of them."""

    since: float
    tries: int


class Refusals:
    """Remembers which errors last, for all jobs."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._troubles = Expiring[Subject, Trouble](IN_A_ROW_SECONDS)
        self._known = Expiring[tuple[Subject, int], bool](KNOWN_SECONDS)  # refusals that were none by their words
        self._answered_at = float("-inf")

    async def judge(self, key: JobKey, subject: Subject, error: KubeError) -> bool:
        """Returns whether the error is a refusal."""
        # Neither can succeed unchanged, so the job says so at once.
        if isinstance(error, Denied) or is_of_admission(error.message):
            return True
        if error.status == 0:
            self.forget(subject)
            return False
        now = self._client.clock.monotonic()
        before = self._troubles.get(subject, now) or Trouble(now, 0)
        trouble = Trouble(before.since, before.tries + 1)
        self._troubles.put(subject, trouble, at=now)
        # Without the name, as the pods of the next attempt have others and meet the same plugin.
        alike = (subject._replace(name=""), error.status)
        # Contention is over by itself, unless it lasts for very many tries.
        if isinstance(error, Conflict) and CONTENDED_TEXT in error.message:
            return trouble.tries >= CONTENDED_TRIES
        is_lasting = now - trouble.since >= LASTING_SECONDS
        if not is_lasting and self._known.get(alike, now) is None:
            return False
        # Asked last, and only for an error that lasts: it is a request of its own.
        if not await self.answers(key):
            self.forget(subject)
            return False
        self._known.put(alike, True, at=now)
        return True

    def forget(self, subject: Subject) -> None:
        """Ends the row of errors: the request has succeeded, or the API server was away."""
        self._troubles.pop(subject)

    async def answers(self, key: JobKey) -> bool:
        """Returns whether the API server answers a request for the job itself, which no admission looks at."""
        now = self._client.clock.monotonic()
        if now - self._answered_at < ANSWERED_SECONDS:
            return True
        try:
            await self._client.get(TRAIN_JOB, key.name, namespace=key.namespace)
        except RetryAfter:
            return False
        except (Gone, Denied, Conflict):
            pass  # an answer, too
        self._answered_at = now
        return True
