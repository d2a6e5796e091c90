"""The HTTPS server: parses a report, authenticates its sender and passes it to the writer. Answers at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import TypeAdapter, ValidationError

from railhead.api.parsed_spec import JobKey
from railhead.contract.answer import Answer
from railhead.contract.callbacks import ignore
from railhead.contract.report import LIMIT_BYTES, PATH, Report
from railhead.controller.report.authority import NOT_HEAD, OF_INVALID_SPEC, KnownJobs, Speaker, refusal
from railhead.controller.report.writer import ReportWriter
from railhead.controller.tokens import NotYet, TokenReviews, read_bearer, read_claims
from railhead.kube.errors import KubeError
from railhead.listener import Listener

INVALID = "the token is not valid for this endpoint"
BODY_SECONDS = 10.0  # no driver needs longer for 64 KiB
_REPORT = TypeAdapter(Report)
REQUESTS_OF_A_POD = 2  # at a time; the driver sends one, and may have given up another


def parse_report(body: bytes) -> Report:
    """Returns the report of a body. Unknown fields are dropped: a newer driver may send them.

    Raises:
        ValueError: the body is not a report; the message names the field.
    """
    try:
        return _REPORT.validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(["report", *(str(part) for part in first["loc"])])
        raise ValueError(f"{path}: {first['msg']}") from None


def _answer(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)


def _accept(answer: Answer) -> web.Response:
    return web.json_response({"message": "accepted", **asdict(answer)}, status=202)


@dataclass
class ReportHandler:
    """Handles one request: 202 when the report is accepted, else a status and a message.

    No body is read of a token that names no head, and only a few bodies at a time of those that name the same one.
    """

    jobs: KnownJobs
    reviews: TokenReviews
    writer: ReportWriter
    listener: Listener
    now: Callable[[], datetime]  # the API server's time
    body_seconds: float = BODY_SECONDS

    def __post_init__(self) -> None:
        self._open: Counter[tuple[str, bool]] = Counter()  # requests by the pod's uid and whether its token is known

    async def answer(self, request: web.Request) -> web.Response:
        token = read_bearer(request.headers.get("Authorization", ""))
        if not token:
            return _answer(401, "a bearer token is required")
        claims = read_claims(token)
        if claims is None or claims.is_expired(self.now()):
            return _answer(401, INVALID)
        speaker = claims.speaker
        # A look into a set: whoever sends tokens that name no head costs neither a body nor a request to the API
        # server.
        if not self.jobs.is_head(speaker.pod_uid):
            return _answer(403, NOT_HEAD)
        place = (speaker.pod_uid, self.reviews.is_known(token))
        if self._open[place] >= REQUESTS_OF_A_POD:
            return _answer(429, "too many requests name this pod; try again in a second")
        self._open[place] += 1
        try:
            return await self._process(request, token, speaker)
        finally:
            self._open[place] -= 1
            if not self._open[place]:
                del self._open[place]

    async def _process(self, request: web.Request, token: str, claimed: Speaker) -> web.Response:
        try:
            async with asyncio.timeout(self.body_seconds):
                report = parse_report(await request.read())
        except TimeoutError:
            return _answer(408, "timed out reading the body")
        except (ConnectionError, web.RequestPayloadError):
            return _answer(400, "the body has not arrived")
        except ValueError as error:
            return _answer(400, str(error)[:200])
        key = JobKey(report.namespace, report.name)
        rejection = refusal(claimed, report, self.jobs.find_facts(key))
        # Whoever the token belongs to: the API server need not be asked.
        if rejection is not None:
            return _answer(*rejection)
        try:
            speaker = (await self.reviews.judge(token, named=claimed.pod_uid)).speaker
        except NotYet:
            return _answer(429, "too many tokens name this pod; try again in a second")
        except KubeError:
            return _answer(503, "the API server does not answer")
        if speaker is None:
            return _answer(401, INVALID)
        # Looked up again: the job may have changed while the API server was asked.
        facts = self.jobs.find_facts(key)
        rejection = refusal(speaker, report, facts)
        if rejection is not None:
            return _answer(*rejection)
        next_seconds = self.writer.put(report)
        # From now on the connection is one of a head, which is not closed to make room for strangers.
        self.listener.keep(request, pod_uid=speaker.pod_uid)
        answer = facts.answer if facts else OF_INVALID_SPEC
        return _accept(replace(answer, next_report_seconds=round(next_seconds, 1)))


def build_app(reports: ReportHandler, count: Callable[[int], None] = ignore) -> web.Application:
    """Returns the one route, and the limit on bodies. `count` receives the status of every response."""

    @web.middleware
    async def counting(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPException as error:
            count(error.status)
            raise
        count(response.status)
        return response

    app = web.Application(client_max_size=LIMIT_BYTES, middlewares=[counting])
    app.add_routes([web.post(PATH, reports.answer)])
    return app
