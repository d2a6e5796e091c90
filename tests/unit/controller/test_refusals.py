"""The operator knows a refusal whatever its code: by its words at once, by its persistence after half a minute; and an
API server that is away refuses nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from railhead.api.parsed_spec import JobKey
from railhead.controller.refusals import CONTENDED_TRIES, LASTING_SECONDS, Refusals, Subject
from railhead.kube.errors import Conflict, Denied, KubeError, RetryAfter
from railhead.planning.facts.reasons import REJECTIONS
from railhead.resources.base import JobNetworkPolicy
from tests.model.actors.denying_policy import DENIALS, FAILED, UNEXPLAINED, Answer
from tests.model.api_server import ModelApiServer, Place
from tests.model.client import ModelClient
from tests.model.faults import NEVER_SENT, NOON, Call, Fault, Faults
from tests.model.play import Runner
from tests.model.queue_schedule import SPEC as QUEUED
from tests.model.world import World
from tests.unit.builders import SETTINGS

KEY = JobKey("default", "digits")
HEAD = Subject("uid", "create", "Pod", "head")
PLAIN = UNEXPLAINED[0]
DELETE = ("delete", "pods")


class Server:
    """An API server with the job, whose clock a test moves."""

    def __init__(self) -> None:
        self.now: datetime = NOON
        self.api = ModelApiServer(lambda: self.now)
        self.api.put({"kind": "TrainJob", "metadata": {"namespace": KEY.namespace, "name": KEY.name}, "spec": {}})
        self.client = ModelClient(self.api)
        self.refusals = Refusals(self.client)

    async def judge(self, error: KubeError, subject: Subject = HEAD, *, after: float = 0.0) -> bool:
        self.now += timedelta(seconds=after)
        return await self.refusals.judge(KEY, subject, error)


@pytest.mark.parametrize("answer", [*DENIALS, FAILED], ids=lambda answer: f"{answer.code} {answer.text[:60]}")
async def test_what_admission_says_is_a_refusal_whatever_its_code(answer: Answer) -> None:
    server = Server()
    assert await server.judge(answer.to_error())
    assert not server.client.asked, "nobody needs to be asked"


@pytest.mark.parametrize("code", [409, 404, 429, 500, 503, 504])
async def test_any_other_error_is_one_once_it_has_lasted_while_the_api_server_answers(code: int) -> None:
    server, error = Server(), Answer(code, "no decision").to_error()
    tries = [await server.judge(error, after=each) for each in (0, 5, 10, 10)]
    assert not any(tries) and not server.client.asked
    assert all([await server.judge(error, after=5) for _ in range(3)])


async def test_an_api_server_that_is_away_refuses_nothing_and_the_time_begins_again() -> None:
    server, error = Server(), PLAIN.to_error()
    away = RetryAfter(0, "NoAnswer", "TimeoutError")
    server.client.faults.script["get", KEY.name] = [RetryAfter(503, "", "no leader"), away]
    await server.judge(error)
    assert not await server.judge(error, after=60), "it does not answer a request for the job, either"
    assert not await server.judge(error, after=20)
    assert not await server.judge(error, after=40)
    assert not [await server.judge(away, after=60) for _ in range(9)][-1]
    assert not await server.judge(error, after=1)
    assert await server.judge(error, after=LASTING_SECONDS)


async def test_errors_that_a_success_interrupts_or_that_are_far_apart_last_for_no_time() -> None:
    server, error = Server(), PLAIN.to_error()
    await server.judge(error)
    server.refusals.forget(HEAD)
    assert not await server.judge(error, after=40)
    assert not await server.judge(error, after=400), "nobody tried meanwhile"


async def test_a_quota_that_many_pods_change_at_once_is_tried_again_quietly_at_first() -> None:
    server = Server()
    busy = Conflict(409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "team": try again')
    tries = [await server.judge(busy, after=10) for _ in range(CONTENDED_TRIES)]
    assert not any(tries[:-1]) and tries[-1]
    assert not await server.judge(busy, HEAD._replace(name="another pod")), "each has a row of its own"


async def test_the_next_object_of_the_kind_is_told_at_once_when_the_same_error_has_lasted() -> None:
    server, error = Server(), PLAIN.to_error()
    await server.judge(error)
    assert await server.judge(error, after=40)
    assert await server.judge(error, HEAD._replace(name="the next head"))
    assert not await server.judge(Answer(503, "").to_error(), HEAD._replace(name="another code"))
    assert not await server.judge(error, HEAD._replace(kind="Secret"))


def test_what_cannot_succeed_unchanged_is_a_refusal() -> None:
    assert isinstance(Answer(413, "the object is too large").to_error(), Denied)


def deny(method: str, plural: str, answer: Answer) -> World:
    """A world in which requests for one kind get this answer; its job has all kinds of children."""
    world = World(epochs=1000, pace=timedelta(seconds=30))
    world.settings = replace(SETTINGS, job_network_policy=JobNetworkPolicy())
    scheduling: object = {"gangScheduler": "Volcano"}
    if plural == "workloads":
        world.add_queue(gpus=4)
        scheduling = QUEUED["scheduling"]

    def judge(asked: str, place: Place, subresource: str) -> str:
        if (asked, place[0]) == (method, plural):
            raise answer.to_error()
        return ""

    world.policies.append(judge)
    world.apply(scaling={"numWorkers": 2, "useGPU": True}, scheduling=scheduling)
    return world


async def run(world: World, seconds: int) -> None:
    runner = Runner(world, Faults())
    for _ in range(seconds // 2):
        await runner.run_operator()
        world.step()
        world.tick(2)
    await runner.run_operator()


def find_told(world: World, *, type_: str, text: str) -> tuple[list[str], list[str]]:
    """The reasons of conditions and of events that have the text."""
    conditions = [each for each in world.status().get("conditions") or [] if each["type"] == type_]
    events = [obj for (plural, _, _), obj in world.api.objects.items() if plural == "events"]
    return (
        [each["reason"] for each in conditions if text in each["message"]],
        [each["reason"] for each in events if text in each["message"]],
    )


@pytest.mark.parametrize("answer", [PLAIN, DENIALS[6], FAILED], ids=["persistent", "denied", "webhook away"])
@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("pods", "Pod"),
        ("configmaps", "ConfigMap"),
        ("secrets", "Secret"),
        ("services", "Service"),
        ("networkpolicies", "NetworkPolicy"),
        ("podgroups", "PodGroup"),
        ("workloads", "Workload"),
    ],
)
async def test_a_child_that_is_refused_is_named_with_the_servers_words_within_a_minute(
    plural: str, kind: str, answer: Answer
) -> None:
    world = deny("POST", plural, answer)
    await run(world, 60)
    conditions, events = find_told(world, type_="Reconciling", text=answer.text)
    assert conditions and set(conditions) <= REJECTIONS
    assert set(events) == ({"Queued"} if kind == "Workload" else set(conditions)), "the job is Queued all the time"
    [told] = [each["message"] for each in world.status()["conditions"] if each["type"] == "Reconciling"]
    name = told.partition(f"{kind} ")[2].partition(" ")[0]
    assert name.startswith(("digits-", "railhead-")) and f"{name} was rejected" in told


@pytest.mark.parametrize("answer", [PLAIN, *DENIALS[:40:5]], ids=lambda answer: str(answer.code))
async def test_a_delete_that_is_refused_is_named_and_holds_no_other_pod(answer: Answer) -> None:
    world = deny("POST", "nothing", answer)
    runner = Runner(world, Faults())

    def judge(asked: str, place: Place, subresource: str) -> str:
        if asked == "DELETE" and "-w0-" in place[2]:
            raise answer.to_error()
        return ""

    world.policies.append(judge)
    for number in range(60):
        await runner.run_operator()
        world.step()
        world.tick(2)
        if number == 20:
            world.change(suspend=True)
    left = [pod["metadata"]["name"] for pod in world.pods()]
    assert len(left) == 1 and "-w0-" in left[0]
    conditions, events = find_told(world, type_="DeleteDenied", text=answer.text)
    assert conditions == ["DeleteDenied"] and events == ["DeleteDenied"]
    assert find_told(world, type_="DeleteDenied", text=f"Pod {left[0]}")[0]


async def test_a_workload_that_may_not_be_changed_is_named_whatever_the_code() -> None:
    world = deny("PATCH", "workloads", PLAIN)
    runner = Runner(world, Faults())
    for _ in range(60):
        await runner.run_operator()
        world.step()
        world.tick(2)
    conditions, events = find_told(world, type_="QueueUnreachable", text=PLAIN.text)
    assert conditions == ["ChangeDenied"] and events == ["ChangeDenied"]


@pytest.mark.parametrize("fault", [NEVER_SENT, 503, 500, 429])
async def test_an_outage_of_a_minute_is_waited_for_in_silence(fault: Fault) -> None:
    """It begins at a delete, for which the status is written already: each pass tries just that. Before it creates a
    pod, a pass lists the pods, which has no answer either."""
    world = World(epochs=1000)
    is_away = False

    def choose(call: Call) -> Fault | None:
        nonlocal is_away
        is_away = is_away or (call.verb, call.plural) == DELETE
        return fault if is_away else None

    world.apply()
    faults = Faults()
    runner = Runner(world, faults)
    await runner.run_operator()
    world.step()
    world.change(suspend=True)
    faults.choose = choose
    for _ in range(45):
        await runner.run_operator()
        world.tick(2)
    assert sum((call.verb, call.plural) == DELETE for call, _ in faults.done) > 2, "it is tried again"
    faults.choose = Faults().choose
    for _ in range(45):
        await runner.run_operator()
        world.tick(2)
    reasons = {each["reason"] for each in world.status()["conditions"]}
    events = {obj["reason"] for (plural, _, _), obj in world.api.objects.items() if plural == "events"}
    assert not (reasons | events) & (REJECTIONS | {"DeleteDenied", "ChangeDenied"}), reasons | events
