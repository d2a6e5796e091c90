"""The report endpoint with a fake API server and writer behind it."""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import cached_property
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from railhead.api import names
from railhead.api.parsed_spec import JobKey
from railhead.contract.report import PATH, Report
from railhead.controller.denied_status import StatusDenials
from railhead.controller.events import EventRecorder
from railhead.controller.report.authority import JobFacts, Speaker
from railhead.controller.report.schedule import WriteSchedule
from railhead.controller.report.server import BODY_SECONDS, ReportHandler, build_app
from railhead.controller.report.writer import ReportWriter
from railhead.controller.tokens import NotYet, TokenReviews, Verdict
from railhead.kube.errors import KubeError
from railhead.listener import Listener
from tests.model.client import make_client
from tests.model.faults import NOON
from tests.unit.controller.report.facts import SPEAKER, make_facts, make_report, make_token

STRANGE = Speaker("other", SPEAKER.pod, SPEAKER.pod_uid)
GOOD = {"Authorization": f"Bearer {make_token()}"}
FORGED = {"Authorization": f"Bearer {make_token(jti='forged')}"}


class Reviews(TokenReviews):
    """One token belongs to the head, one to a pod of another namespace."""

    def __init__(self) -> None:
        super().__init__(self.find, lambda: 0.0)
        self.speakers = {make_token(): SPEAKER, make_token(STRANGE): STRANGE}
        self.error: KubeError | None = None
        self.is_busy = False
        self.reviewed: list[str] = []

    def is_known(self, token: str) -> bool:
        return token in self.reviewed and token in self.speakers

    async def judge(self, token: str, *, named: str) -> Verdict:
        self.reviewed.append(token)
        if self.is_busy:
            raise NotYet
        if self.error:
            raise self.error
        return await self.find(token)

    async def find(self, token: str) -> Verdict:
        return Verdict(200, self.speakers[token]) if token in self.speakers else Verdict(401)


class FakeWriter(ReportWriter):
    """Keeps the reports that it receives."""

    def __init__(self) -> None:
        client = make_client()
        super().__init__(
            client,
            WriteSchedule(25.0, lambda: 0.0),
            lookup=lambda key: None,
            record_job=lambda raw: None,
            call_later=asyncio.get_running_loop().call_later,
            denials=StatusDenials(client, EventRecorder(client)),
        )
        self.reports: list[Report] = []

    def put(self, report: Report) -> float:
        self.reports.append(report)
        return 8.04


class Endpoint:
    """The handler with one job, and what it has accepted and counted."""

    def __init__(self, listener: Listener | None = None, *, body_seconds: float = BODY_SECONDS) -> None:
        self.reviews = Reviews()
        self.writer = FakeWriter()
        self.jobs: dict[JobKey, JobFacts] = {JobKey("default", "digits"): make_facts()}
        self.counted: list[int] = []
        self.listener = listener or Listener(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.handler = ReportHandler(
            self,
            self.reviews,
            self.writer,
            listener=self.listener,
            now=lambda: NOON,
            body_seconds=body_seconds,
        )

    @cached_property
    def client(self) -> TestClient[web.Request, web.Application]:
        """Returns a client of a server without TLS."""
        return TestClient(TestServer(build_app(self.handler, self.counted.append)))

    def find_facts(self, key: JobKey) -> JobFacts | None:
        return self.jobs.get(key)

    def is_head(self, pod_uid: str) -> bool:
        pods = [pod for facts in self.jobs.values() for pod in facts.pods]
        return any(pod.uid == pod_uid and pod.role == names.HEAD for pod in pods)

    async def post(self, body: Any, *, headers: dict[str, str] = GOOD) -> int:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(PATH, data=data, headers=headers) as response:
            if response.content_type == "application/json":
                assert (await response.json())["message"], "every answer has a message"
            return response.status


def body_of(**changes: Any) -> dict[str, Any]:
    """A valid report, changed."""
    return {**make_report().to_dict(), **changes}
