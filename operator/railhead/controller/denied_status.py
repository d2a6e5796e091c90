"""Tells of changes of a job's status that the API server denies, in an event: no condition can have its words."""

from __future__ import annotations

from railhead.api.parsed_spec import JobKey
from railhead.controller.events import EventRecorder
from railhead.controller.refusals import Refusals, Subject
from railhead.kube.client import KubeClient
from railhead.kube.errors import KubeError
from railhead.kube.kinds import TRAIN_JOB
from railhead.planning.facts.reasons import STATUS_DENIED
from railhead.planning.plan import Event

# An Event's message has at most 1,024 characters.
MAX_WORDS = 900


class StatusDenials:
    """Judges errors of such writes as those of any other object, and posts one event per job."""

    def __init__(self, client: KubeClient, events: EventRecorder) -> None:
        self._refusals = Refusals(client)
        self._events = events

    async def note(self, key: JobKey, uid: str, error: KubeError) -> None:
        """Posts the event if the error is a refusal, and does nothing about one that may soon be over."""
        if not await self._refusals.judge(key, _subject(key, uid), error):
            return
        words = error.message[:MAX_WORDS]
        message = f"The API server denies the operator to change the job's status, which is out of date: {words}"
        await self._events.record(key, uid, Event("Warning", STATUS_DENIED, message, is_series=True))

    def forget(self, key: JobKey, uid: str) -> None:
        """Ends the row of errors: a write has succeeded."""
        self._refusals.forget(_subject(key, uid))


def _subject(key: JobKey, uid: str) -> Subject:
    return Subject(uid, "change", TRAIN_JOB.kind, key.name)
