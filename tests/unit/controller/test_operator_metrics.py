"""The metrics as Prometheus reads them, and who may read them; docs/reference/metrics.md describes each."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from railhead.api.parsed_spec import JobKey
from railhead.api.status import JobStatus, parse_status
from railhead.contract.failure import FailureClass
from railhead.controller.installation import AdmissionPolicy
from railhead.controller.keyed_queue import KeyedQueue
from railhead.controller.leadership import Leadership
from railhead.controller.operator_metrics import (
    PIECE_BYTES,
    OperatorMetrics,
    Page,
    Sources,
    build_access_review,
    build_metrics,
    classify_loss,
    judge_reader,
)
from railhead.controller.probes import build_listener, build_probes
from railhead.controller.report.certificate import present
from railhead.controller.report.schedule import Urgency
from railhead.controller.serve import serve
from railhead.controller.store import Store
from railhead.controller.tokens import KEEP_REJECTED_SECONDS, KEEP_SECONDS, TURN_SECONDS, TokenReviews
from railhead.json_object import Object
from railhead.kube.client import RequestLabels
from railhead.kube.errors import Denied, KubeError, RetryAfter
from railhead.kube.informer import WatchState
from railhead.kube.kinds import POD, TRAIN_JOB, Kind
from railhead.listener import Listener
from railhead.local.addresses import free_port
from railhead.pki import issue, make_ca
from tests.model.api_server import ModelApiServer
from tests.model.client import ModelClient, make_client
from tests.model.faults import NOON
from tests.unit.controller.raws import make_job
from tests.unit.controller.test_keyed_queue import FakeClock

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
ROW = re.compile(r"^\| `(railhead_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
TRUE = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
Samples = dict[tuple[str, tuple[str, ...]], float]


class Lead(Leadership):
    """Leads until the test ends that."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def is_leading(self) -> bool:
        return self._operator.is_leading


class Operator:
    """Values that the test sets."""

    def __init__(self) -> None:
        self.is_leading = True
        self.now = 0.0
        self.watches = [
            WatchState(kind, namespace, monotonic=lambda: self.now)
            for kind, namespace in ((POD, "a"), (POD, "b"), (TRAIN_JOB, None))
        ]
        self.store, self.clock = Store(), FakeClock()
        for number, phase in enumerate(("Running", "Running", "")):
            self.store.put_job(make_job(name=f"j{number}", uid=f"u{number}", status={"phase": phase}))
        self.store.avoided_nodes = 4
        self.queue: KeyedQueue[JobKey] = KeyedQueue(self.clock.call_later, self.clock.monotonic)
        client = ModelClient(ModelApiServer(lambda: NOON), wall=lambda: NOON - timedelta(seconds=7))
        client.clock.observe(format_datetime(NOON, usegmt=True))
        client.answers[RequestLabels("create", "pods", 201)] = 3
        client.answers[RequestLabels("watch", "pods", 0)] = 1
        policy = AdmissionPolicy(client, "")
        policy.is_missing = True
        self.metrics = OperatorMetrics()
        self.metrics.add_states(Sources(self.store, self.queue, client, Lead(self), policy, self.watches))

    def samples(self) -> Samples:
        """Sample name and label values, ordered by label name -> value."""
        families = text_string_to_metric_families(self.metrics.begin_render()().decode())
        return {(s.name, tuple(s.labels.values())): s.value for family in families for s in family.samples}


def at(attempt: int = 1, *, lost: str = "", **status: Any) -> JobStatus:
    failure = {"failure": {"class": lost, "attempt": attempt}} if lost else {}
    return parse_status({"attempt": attempt, "phase": "Running", **failure, **status})


def replaced(round_: int, rounds: int, checkpoint: int = -1) -> JobStatus:
    return at(round=round_, workerLosses={"rounds": rounds, "checkpoint": checkpoint})


def test_gauges_are_read_at_scrape_time() -> None:
    operator = Operator()
    samples = operator.samples()
    assert samples["railhead_jobs", ("default", "Running")] == 2
    assert samples["railhead_jobs", ("default", "Pending")] == 1  # not reconciled yet
    assert samples["railhead_leader", ()] == 1
    assert samples["railhead_avoided_nodes", ()] == 4
    assert samples["railhead_clock_offset_seconds", ()] == -7
    assert samples["railhead_admission_policy_missing", ()] == 1
    assert samples["railhead_api_requests_total", ("201", "pods", "create")] == 3
    assert samples["railhead_api_requests_total", ("0", "pods", "watch")] == 1
    for number in range(2):
        operator.store.put_job(make_job(9, name=f"j{number}", uid=f"u{number}", status={"phase": "Failed"}))
    for number in range(7):
        operator.queue.add(JobKey("default", f"j{number}"))
    operator.clock.now += 2.5
    operator.is_leading = False
    samples = operator.samples()
    assert samples["railhead_queue_depth", ()] == 7
    assert samples["railhead_queue_oldest_seconds", ()] == 2.5
    assert samples["railhead_leader", ()] == 0
    assert ("railhead_jobs", ("default", "Running")) not in samples


def test_passes_are_counted_with_their_duration() -> None:
    operator = Operator()
    for seconds in (0.002, 0.2):
        operator.metrics.count_pass("done", seconds)
    operator.metrics.count_pass("refused", 40.0)
    samples = operator.samples()
    assert samples["railhead_pass_seconds_count", ("done",)] == 2
    assert samples["railhead_pass_seconds_sum", ("done",)] == 0.202
    assert samples["railhead_pass_seconds_bucket", ("0.003", "done")] == 1
    assert samples["railhead_pass_seconds_bucket", ("+Inf", "refused")] == 1


@pytest.mark.parametrize(
    ("old", "new", "loss"),
    [
        (at(), at(lost="Application"), ""),
        (at(lost="Application"), at(2), "application"),
        (at(lost="OutOfMemory"), at(2), "application"),
        (at(lost="Hang"), at(2), "infrastructure"),
        (at(lost="Preemption"), at(2), "infrastructure"),
        (at(lost="Startup"), at(2), "startup"),
        (at(lost="Fenced"), at(2), ""),
        (at(lost="Application", phase="Suspended"), at(2), "application"),
        (at(phase="Suspended"), at(2), ""),
        (at(2, failure={"class": "Application", "attempt": 1}), at(3), ""),
        (at(), replaced(1, 1), "infrastructure"),
        (replaced(1, 1), replaced(2, 2), "infrastructure"),
        (replaced(2, 2), replaced(3, 1, checkpoint=4), "infrastructure"),
        (replaced(1, 1), replaced(2, 1), ""),
        (replaced(2, 2), replaced(3, 0, checkpoint=4), ""),
        (replaced(1, 1), replaced(1, 1), ""),
        (replaced(1, 1), replaced(1, 2), ""),
        (at(2), replaced(1, 1), ""),
        (replaced(1, 1), at(2), ""),
    ],
)
def test_a_restart_is_counted_by_what_was_lost(old: JobStatus, new: JobStatus, loss: str) -> None:
    assert classify_loss(old, new) == loss
    operator = Operator()
    operator.metrics.count_change("a", old, new)
    found = {key: value for key, value in operator.samples().items() if key[0] == "railhead_restarts_total"}
    assert found == ({("railhead_restarts_total", (loss, "a")): 1} if loss else {})


@pytest.mark.parametrize(
    ("end", "class_"),
    [
        ({"conditions": [{**TRUE, "type": "Complete"}], "failure": {"class": "Preemption"}}, "Succeeded"),
        *(({"conditions": [{**TRUE, "type": "Failed"}], "failure": {"class": str(c)}}, str(c)) for c in FailureClass),
        ({"conditions": [{**TRUE, "type": "Failed"}], "failure": {"class": "Novel"}}, "Infrastructure"),
        ({"conditions": [{**TRUE, "type": "Failed"}]}, "Infrastructure"),
    ],
)
def test_a_job_is_counted_once_when_it_ends(end: dict[str, Any], class_: str) -> None:
    operator, ended = Operator(), parse_status(end)
    operator.metrics.count_change("a", at(1), at(1))
    operator.metrics.count_change("a", at(1), ended)
    operator.metrics.count_change("a", ended, ended)
    found = {key: value for key, value in operator.samples().items() if key[0] == "railhead_finished_jobs_total"}
    assert found == {("railhead_finished_jobs_total", (class_, "a")): 1}


@pytest.mark.parametrize(
    ("old", "new", "number"),
    [
        (at(phase="Suspending"), at(phase="Queued"), 1),
        (at(phase="Pending"), at(phase="Queued"), 1),
        (at(phase="Suspending"), at(phase="Suspended"), 0),
        (at(phase="Suspended"), at(phase="Queued"), 0),
        (at(phase="Queued"), at(phase="Queued"), 0),
        (at(0, phase=""), at(0, phase="Queued"), 0),
    ],
)
def test_an_eviction_is_counted_when_the_last_pod_of_the_job_has_ended(
    old: JobStatus, new: JobStatus, number: int
) -> None:
    operator = Operator()
    operator.metrics.count_change("a", old, new)
    assert operator.samples().get(("railhead_evictions_total", ("a",)), 0) == number


def test_settled_time_is_counted_by_cause_and_namespace() -> None:
    operator = Operator()
    new = parse_status({"goodput": {"productiveSeconds": 40, "lostSeconds": {"podsPending": 7}}})
    operator.metrics.count_change("team", at(1), new)
    operator.metrics.count_change("team", new, new)
    name = "railhead_training_seconds_total"
    found = {key: value for key, value in operator.samples().items() if key[0] == name}
    assert found == {(name, ("productive", "team")): 40, (name, ("podsPending", "team")): 7}


def test_gpu_seconds_are_counted_by_namespace_and_never_twice() -> None:
    operator = Operator()
    first = parse_status({"goodput": {"gpuSeconds": 800, "lostGPUSeconds": 200}})
    later = parse_status({"goodput": {"gpuSeconds": 1000, "lostGPUSeconds": 260}})
    for old, new in ((at(1), first), (first, first), (first, later), (later, first)):
        operator.metrics.count_change("team", old, new)
    operator.metrics.count_change("other", later, later)
    found = {key: value for key, value in operator.samples().items() if "gpu_seconds" in key[0]}
    assert found == {
        ("railhead_gpu_seconds_total", ("team",)): 1000,
        ("railhead_lost_gpu_seconds_total", ("team",)): 260,
    }


def test_reports_are_counted_by_the_code_of_their_answer() -> None:
    operator = Operator()
    for code in (202, 202, 409):
        operator.metrics.count_report(code)
    found = {key: value for key, value in operator.samples().items() if key[0] == "railhead_reports_total"}
    assert found == {("railhead_reports_total", ("202",)): 2, ("railhead_reports_total", ("409",)): 1}


def test_an_operator_without_states_has_the_metrics_of_its_own_process() -> None:
    """And not those that the library keeps for all registries of the process."""
    text = OperatorMetrics().begin_render()().decode()
    found = {family.name for family in text_string_to_metric_families(text)}
    assert {"railhead_build_info", "process_start_time_seconds"} <= found and "python_info" not in found


def test_the_delays_of_reports_are_counted_by_urgency() -> None:
    operator = Operator()
    operator.metrics.count_delay(Urgency.CHECKPOINT, 2.0)
    operator.metrics.count_delay(Urgency.PROGRESS, 40.0)
    samples = operator.samples()
    assert samples["railhead_report_delay_seconds_bucket", ("3.0", "checkpoint")] == 1
    assert samples["railhead_report_delay_seconds_bucket", ("30.0", "progress")] == 0
    assert samples["railhead_report_delay_seconds_count", ("progress",)] == 1


def test_the_age_of_each_watch_is_since_its_last_delivery() -> None:
    operator = Operator()
    operator.now = 100.0
    operator.watches[0].deliver()
    operator.now = 130.0
    samples = operator.samples()
    assert samples["railhead_watch_age_seconds", ("a", "pods")] == 30
    assert samples["railhead_watch_age_seconds", ("b", "pods")] == 130
    assert samples["railhead_watch_age_seconds", ("", "trainjobs")] == 130


def test_only_refused_watches_are_named_until_they_are_accepted() -> None:
    operator = Operator()
    for watch in operator.watches[1:]:
        watch.refuse(Denied(403, "Forbidden", "no right"))
    samples = operator.samples()
    assert samples["railhead_refused_watches", ("b", "pods")] == 1
    assert samples["railhead_refused_watches", ("", "trainjobs")] == 1
    assert ("railhead_refused_watches", ("a", "pods")) not in samples
    operator.watches[1].accept()
    assert ("railhead_refused_watches", ("b", "pods")) not in operator.samples()


SETTLED = {"productiveSeconds": 1, "gpuSeconds": 2, "lostGPUSeconds": 1}


def test_the_documentation_lists_every_metric_with_its_type_and_labels() -> None:
    operator = Operator()
    operator.metrics.count_pass("done", 0.1)
    operator.metrics.count_report(202)
    operator.metrics.count_change("a", at(lost="Application"), at(2))
    operator.metrics.count_change("a", at(), parse_status({"conditions": [{**TRUE, "type": "Complete"}]}))
    operator.metrics.count_change("a", at(), at(phase="Queued"))
    operator.metrics.count_delay(Urgency.STATE, 0.1)
    warned = [{**TRUE, "type": "HangSuspected"}, {**TRUE, "type": "Running"}]
    pending = {"phase": "Pending", "waiting": {"since": "2026-01-01T00:00:00Z"}}
    operator.store.put_job(make_job(name="warned", uid="w", status={"phase": "Running", "conditions": warned}))
    operator.store.put_job(make_job(name="pending", uid="p", status=pending))
    queued = {"phase": "Queued", "conditions": [{**TRUE, "type": "Suspended"}]}
    operator.store.put_job(make_job(name="queued", uid="q", status=queued))
    operator.metrics.count_change("a", at(1), parse_status({"goodput": SETTLED}))
    operator.watches[0].refuse(Denied(403, "Forbidden", "no right"))
    found = set()
    for family in text_string_to_metric_families(operator.metrics.begin_render()().decode()):
        if family.name.startswith("railhead_"):
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.add((name, family.type, frozenset(labels)))
    documented = {
        (name, type_, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, type_, labels in ROW.findall(DOCUMENT.read_text())
    }
    assert documented == found


def test_finished_jobs_leave_no_growing_series() -> None:
    operator = Operator()
    operator.metrics.count_pass("done", 0.1)
    operator.metrics.count_report(202)
    before = len(operator.metrics.begin_render()().splitlines())
    for _ in range(1000):
        operator.metrics.count_pass("done", 0.1)
        operator.metrics.count_report(202)
    assert len(operator.metrics.begin_render()().splitlines()) == before


SCRAPER = "system:serviceaccount:monitoring:scraper"


class Reviewer(ModelClient):
    """An API server with two users, one of whom may read the metrics. `asked_for` has the kinds of its requests."""

    def __init__(self) -> None:
        super().__init__(make_client().api)
        self.users: dict[str, dict[str, Any]] = {"good": {"username": SCRAPER, "groups": ["g"]}, "other": {}}
        self.allowed = {SCRAPER}
        self.asked_for: list[str] = []
        self.bodies: list[Object] = []
        self.error: KubeError | None = None

    async def create(self, kind: Kind, body: Object, **options: Any) -> Object:
        self.asked_for.append(kind.kind)
        self.bodies.append(body)
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
def app(reviewer: Reviewer, clock: Clock) -> web.Application:
    return build_metrics(TokenReviews(partial(judge_reader, reviewer), clock), Page(lambda: lambda: b"a 1\n", clock))


class Scraper:
    """Scrapes with the Authorization header that the test gives."""

    def __init__(self, client: TestClient[web.Request, web.Application]) -> None:
        self._client = client

    async def check(self, header: str) -> int:
        headers = {"Authorization": header} if header else {}
        async with self._client.get("/metrics", headers=headers) as response:
            return response.status


@pytest.fixture
async def access(app: web.Application) -> AsyncIterator[Scraper]:
    async with TestClient(TestServer(app)) as client:
        yield Scraper(client)


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
    ],
)
async def test_only_a_token_with_the_right_may_read(
    access: Scraper, reviewer: Reviewer, header: str, code: int, asked: list[str]
) -> None:
    assert await access.check(header) == code
    assert reviewer.asked_for == asked


async def test_a_token_for_the_metrics_is_reviewed_for_the_audience_of_the_api_server(reviewer: Reviewer) -> None:
    await judge_reader(reviewer, "unknown")
    spec = {"token": "unknown"}
    assert reviewer.bodies == [{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}]


async def test_a_long_text_arrives_whole(reviewer: Reviewer, clock: Clock) -> None:
    text = b"".join(b"a %d\n" % number for number in range(PIECE_BYTES))
    app = build_metrics(TokenReviews(partial(judge_reader, reviewer), clock), Page(lambda: lambda: text, clock))
    async with (
        TestClient(TestServer(app)) as client,
        client.get("/metrics", headers={"Authorization": "Bearer good"}) as response,
    ):
        assert await response.read() == text


async def test_the_metrics_have_no_head_request(app: web.Application) -> None:
    async with (
        TestClient(TestServer(app)) as client,
        client.head("/metrics", headers={"Authorization": "Bearer good"}) as response,
    ):
        assert response.status == 405


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
    access: Scraper, reviewer: Reviewer, clock: Clock, token: str, seconds: float
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
    access: Scraper, reviewer: Reviewer, clock: Clock
) -> None:
    assert await access.check("Bearer good") == 200
    clock.now += KEEP_SECONDS
    reviewer.asked_for.clear()
    assert [await access.check(f"Bearer x{number}") for number in range(1000)] == [401] + [429] * 999
    assert await access.check("Bearer good") == 200
    assert reviewer.asked_for == ["TokenReview", *BOTH]
    clock.now += TURN_SECONDS
    assert await access.check("Bearer other") == 403


async def test_the_metrics_are_served_over_https_and_the_probes_stay_open(
    app: web.Application, reviewer: Reviewer, clock: Clock
) -> None:
    begin = datetime.now(UTC) - timedelta(hours=1)
    ca = make_ca("ca", now=begin, days=1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    present(context, issue(ca, "server", now=begin, days=1, names=["127.0.0.1"]))
    client = ssl.create_default_context(cadata=ca.certificate)
    secure, probes = free_port(), free_port()
    async with (
        serve(app, f"127.0.0.1:{secure}", listener=Listener(context)),
        serve(build_probes(lambda: True, list), f"127.0.0.1:{probes}", listener=build_listener()),
        aiohttp.ClientSession() as session,
    ):

        async def get(token: str, path: str = "/metrics") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            url = f"https://127.0.0.1:{secure}{path}"
            async with session.get(url, headers=headers, ssl=client) as response:
                return response.status, await response.text()

        assert await get("good") == (200, "a 1\n")
        assert await get("") == (401, "a bearer token is required, or it is not valid\n")
        reviewer.error = RetryAfter(0, "NoAnswer", "reset")
        clock.now += TURN_SECONDS
        assert await get("other") == (503, "the API server does not answer\n")
        assert (await get("good"))[0] == 200, "its answer is known"
        reviewer.error = None
        assert await get("other") == (429, "too many unknown tokens; try again\n")
        clock.now += TURN_SECONDS
        assert await get("other") == (403, "no right to get /metrics\n")
        assert (await get("good", "/healthz"))[0] == 404
        for path, code in (("healthz", 200), ("readyz", 200), ("metrics", 404)):
            async with session.get(f"http://127.0.0.1:{probes}/{path}") as response:
                assert response.status == code
