"""`railhead logs` against an API server that refuses, waits and breaks connections."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from railhead.client.cluster.connection import Cluster, Target, open_cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run import follow_logs as follow_logs_module
from railhead.client.run import log_reader
from railhead.client.run.follow_logs import follow_logs, print_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.json_object import Object
from railhead.kube import client as kube_client
from tests.unit.client.jobs import make_job, make_pod
from tests.unit.kube.test_transport import write_kubeconfig

Answer = Callable[[web.Request, web.StreamResponse], Awaitable[None]]
PATH = "/apis/railhead.dev/v1alpha1/namespaces/{namespace}/trainjobs"


class Api:
    """A job, its pods, and for each request of a pod's log the next answer; the last one repeats."""

    def __init__(self) -> None:
        self.job = make_job(phase="Pending", attempt=1)
        self.pods: dict[str, Object] = {}
        self.answers: dict[str, list[Any]] = {}
        self.is_deleted = False
        self.asked: list[dict[str, str]] = []
        self._watches: dict[str, list[asyncio.Queue[Object]]] = {"pods": [], "trainjobs": []}
        self._events: dict[str, list[tuple[int, Object]]] = {"pods": [], "trainjobs": []}  # with their versions
        self._version = 1

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get(PATH, self._list)
        app.router.add_get(f"{PATH}/{{name}}", self._get)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._list)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/log", self._log)

    def set_pod(self, name: str, answers: list[Any], *, slot: int = -1, phase: str = "Running") -> None:
        """The pod is created or changes."""
        self.pods[name] = make_pod(name, slot=slot, phase=phase)
        self.answers.setdefault(name, answers)
        self._send("pods", "MODIFIED", self.pods[name])

    def finish(self) -> None:
        """The job succeeds, and its pods have ended."""
        for pod in self.pods.values():
            pod["status"]["phase"] = "Succeeded"
            self._send("pods", "MODIFIED", pod)
        complete = {"type": "Complete", "status": "True", "reason": "Succeeded"}
        self.job["status"] |= {"phase": "Succeeded", "conditions": [complete]}
        self._send("trainjobs", "MODIFIED", self.job)

    def _send(self, plural: str, type_: str, obj: Object) -> None:
        self._version += 1
        obj["metadata"] |= {"resourceVersion": str(self._version), "uid": obj["metadata"].get("uid") or "pod"}
        event = {"type": type_, "object": json.loads(json.dumps(obj))}
        self._events[plural].append((self._version, event))
        for queue in self._watches[plural]:
            queue.put_nowait(event)

    async def _get(self, request: web.Request) -> web.Response:
        self.job["metadata"].setdefault("resourceVersion", "1")
        is_there = request.match_info["name"] == self.job["metadata"]["name"]
        return web.json_response(self.job if is_there else {"message": "not found"}, status=200 if is_there else 404)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        plural = request.path.rpartition("/")[2]
        if "watch" not in request.query:
            items = list(self.pods.values()) if plural == "pods" else [self.job] * (not self.is_deleted)
            for item in items:
                item["metadata"].setdefault("resourceVersion", "1")
                item["metadata"].setdefault("uid", "pod")
            return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[Object] = asyncio.Queue()
        for version, event in self._events[plural]:
            if version > int(request.query["resourceVersion"]):
                queue.put_nowait(event)
        self._watches[plural].append(queue)
        while True:
            await response.write(json.dumps(await queue.get()).encode() + b"\n")

    async def _log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        answers = self.answers[request.match_info["name"]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, int):
            return web.json_response({"message": f"it says {answer}"}, status=answer)
        response = web.StreamResponse()
        await response.prepare(request)
        await answer(request, response)
        return response


def say(*lines: str, then: Callable[[], None] = lambda: None) -> Answer:
    """Sends the lines and ends the log."""

    async def answer(_: web.Request, response: web.StreamResponse) -> None:
        await response.write("".join(lines).encode())
        then()

    return answer


def break_after(*lines: str) -> Answer:
    """Sends the lines and resets the connection."""

    async def answer(request: web.Request, response: web.StreamResponse) -> None:
        await response.write("".join(lines).encode())
        assert request.transport is not None
        request.transport.close()

    return answer


def line(second: int, text: str) -> str:
    return f"2026-11-25T12:00:{second:02d}.000000000Z {text}\n"


class Shown:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.remarks: list[str] = []
        self.on_remark: Callable[[str], None] = lambda text: None

    @property
    def printer(self) -> Printer:
        def remark(text: str) -> None:
            self.remarks.append(text)
            self.on_remark(text)

        return Printer(self.lines.append, remark)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    monkeypatch.setattr(log_reader, "RETRY_SECONDS", 0.01)
    return Api()


@pytest.fixture
async def cluster(api: Api, tmp_path: Any) -> AsyncIterator[Cluster]:
    app = web.Application()
    api.add_routes(app)
    server = TestServer(app)
    await server.start_server()
    config = write_kubeconfig(tmp_path / "config", str(server.make_url("")).rstrip("/"), "token")
    async with open_cluster(Target(config, namespace="team-a")) as cluster:
        yield cluster
    await server.close()


HEAD = Wanted()


async def follow(cluster: Cluster, wanted: Wanted = HEAD, shown: Shown | None = None) -> Shown:
    shown = shown or Shown()
    await asyncio.wait_for(follow_logs(cluster, "digits", wanted, shown.printer), 20)
    return shown


async def test_following_waits_for_pods_and_for_their_containers(api: Api, cluster: Cluster) -> None:
    shown = Shown()
    steps = iter(
        [
            lambda: api.set_pod("h", [400, say(line(1, "up"), then=api.finish), say(line(1, "up"))], phase="Pending"),
            lambda: api.set_pod("h", [], phase="Running"),
        ]
    )

    def take_step(_: str) -> None:
        asyncio.get_running_loop().call_later(0.05, next(steps, lambda: None))

    shown.on_remark = take_step
    await follow(cluster, shown=shown)
    assert shown.lines == ["up"]
    assert shown.remarks == ["digits is Pending; waiting for its pods", "pod h waits: it says 400"]


async def test_a_lost_connection_costs_no_line_and_repeats_none(api: Api, cluster: Cluster) -> None:
    parts = [line(1, "a"), line(1, "b"), line(2, "c"), line(3, "d")]
    api.set_pod(
        "h",
        [
            break_after(*parts[:2], parts[2][:-1]),
            500,
            break_after(*parts[:2]),
            say(*parts[:3], parts[3][:-3]),
            say(*parts[2:], then=api.finish),
            say(parts[3], line(4, "end")[:-1]),
        ],
    )
    shown = await follow(cluster)
    assert shown.lines == ["a", "b", "c", "d", "end"]
    assert [each.get("sinceTime", "")[17:19] for each in api.asked] == ["", "01", "01", "01", "02", "03", "03"]
    assert all("is interrupted" in remark for remark in shown.remarks)


async def test_an_answer_that_breaks_off_like_an_end_is_asked_for_again(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "a"), line(2, "b")[:-2]), say(line(1, "a"), line(2, "bc"))])
    api.finish()
    assert (await follow(cluster)).lines == ["a", "bc"]


async def test_lines_that_the_node_has_thrown_away_are_said_to_be_missing(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [break_after(line(1, "a")), say(line(3, "c"), line(4, "d"), then=api.finish), say(line(4, "d"))])
    shown = await follow(cluster)
    assert shown.lines == ["a", "c", "d"]
    [remark] = [each for each in shown.remarks if "missing" in each]
    assert remark.startswith("lines of pod h after 2026-11-25T12:00:01Z may be missing: its node keeps only the end")


async def test_a_right_that_a_starting_api_server_does_not_know_yet_is_waited_for(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [break_after(line(1, "a")), 403, 401, say(line(1, "a"), line(2, "b"), then=api.finish)])
    assert (await follow(cluster)).lines == ["a", "b"]


async def test_a_right_that_is_taken_away_ends_the_command(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [break_after(line(1, "a")), 403])
    with pytest.raises(ClientError, match="it says 403"):
        await follow(cluster)
    assert len(api.asked) > log_reader.MOST_REFUSALS


async def test_a_pod_that_is_gone_before_its_log_was_read_to_the_end_is_named(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [break_after(line(1, "a")), 500, say(), 404])
    api.set_pod("g", [break_after(line(1, "a")), 404])
    api.finish()
    for pod in api.pods.values():
        pod["status"]["phase"] = "Running"
    shown = await follow(cluster)
    assert [each for each in shown.remarks if "is gone" in each] == [
        "pod g is gone, and the end of its log was not read"
    ]


async def test_a_command_that_stood_still_says_so(api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_logs_module, "STALL_SECONDS", 1.0)
    lines: list[str] = []
    remarks: list[str] = []

    def block(text: str) -> None:  # SIGSTOP, a debugger, or a reader of standard output that takes nothing
        lines.append(text)
        time.sleep(2.0)

    def remark(text: str) -> None:
        remarks.append(text)
        if "stood still" in text:
            api.finish()

    async def answer(_: web.Request, response: web.StreamResponse) -> None:
        await response.write(line(1, "a").encode())
        await asyncio.sleep(60)

    api.set_pod("h", [answer, say(line(1, "a"))])
    monkeypatch.setattr(kube_client, "SILENCE_LIMIT_SECONDS", 0.3)
    await asyncio.wait_for(follow_logs(cluster, "digits", HEAD, Printer(block, remark)), 30)
    assert any("stood still for" in each for each in remarks)
    assert lines == ["a"]


async def test_the_rank_is_chosen_from_the_worker_pods(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "(rank 1) by the head"))])
    for slot in range(2):
        api.set_pod(f"w{slot}", [say(line(1, f"(rank {slot}) r{slot}"), line(1, "ray"))], slot=slot)
    api.finish()
    assert (await follow(cluster, Wanted(rank=1))).lines == ["(rank 1) r1"]


async def test_a_finished_job_is_followed_to_the_end_of_its_log(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "end"))])
    api.finish()
    assert (await follow(cluster)).lines == ["end"]


async def test_a_pod_that_is_gone_ends_its_log(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "a"), then=api.finish), 404])
    assert (await follow(cluster)).lines == ["a"]


async def test_a_log_that_may_not_be_read_is_an_error(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [403])
    with pytest.raises(ClientError, match="cannot follow the logs of digits: it says 403") as error:
        await follow(cluster)
    assert error.value.code == ExitCode.DENIED


async def test_without_follow_the_newest_attempts_pods_are_printed_with_their_names(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "driver"))])
    api.set_pod("w0", [say(line(1, "(rank 0) x")[:-1])], slot=0)
    api.set_pod("w1", [400], slot=1)
    api.pods["old"] = make_pod("old", attempt=0)
    shown = Shown()
    await print_logs(cluster, "digits", Wanted(is_all=True, tail=10), shown.printer)
    assert shown.lines == ["[head] driver", "[w0] (rank 0) x"]
    assert shown.remarks == ["pod w1 has no log yet: it says 400"]
    assert {each["tailLines"] for each in api.asked} == {"10"}


async def test_the_lines_of_the_last_seconds_are_those_of_the_nodes_clock(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "new"))])
    shown = Shown()
    await print_logs(cluster, "digits", Wanted(since=90), shown.printer)
    assert (shown.lines, shown.remarks) == (["new"], [])
    assert [each["sinceSeconds"] for each in api.asked] == ["90"]
    api.answers["h"] = [say("no time\n")]
    await print_logs(cluster, "digits", Wanted(since=90), shown.printer)
    assert shown.remarks == ["the node of pod h sends no times, so all lines are shown"]


async def test_a_pod_whose_log_cannot_be_read_is_named_and_the_others_are_printed(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "driver"))])
    api.set_pod("w0", [500], slot=0)
    api.set_pod("w1", [404], slot=1)
    api.set_pod("w2", [say(line(1, "(rank 2) x"))], slot=2)
    shown = Shown()
    with pytest.raises(ClientError, match="2 of 4 logs could not be read") as error:
        await print_logs(cluster, "digits", Wanted(is_all=True), shown.printer)
    assert error.value.code == ExitCode.UNREACHABLE
    assert shown.lines == ["[head] driver", "[w2] (rank 2) x"]
    assert [remark.partition(";")[0] for remark in shown.remarks] == [
        "cannot read the log of pod w0: no answer from the API server (it says 500)",
        "cannot read the log of pod w1: it says 404",
    ]
    api.pods = {"h": api.pods["h"]}
    api.answers["h"] = [500]
    with pytest.raises(ClientError, match="cannot read the log of pod h: no answer"):
        await print_logs(cluster, "digits", Wanted(is_all=True), shown.printer)


async def test_all_pods_without_the_workers_that_are_gone_has_a_remark(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "driver"))])
    shown = Shown()
    assert await print_logs(cluster, "digits", Wanted(is_all=True), shown.printer)
    assert shown.lines == ["[head] driver"]
    assert shown.remarks == ["attempt 1 has no worker pods now; --rank R reads what the archive has of a rank"]


async def test_an_attempt_is_chosen_by_its_number_and_one_without_pods_prints_nothing(
    api: Api, cluster: Cluster
) -> None:
    api.set_pod("h", [say(line(1, "new"))])
    api.set_pod("old", [say(line(1, "old"))])
    api.pods["h"]["metadata"]["labels"]["railhead.dev/attempt"] = "2"
    shown = Shown()
    assert await print_logs(cluster, "digits", Wanted(), shown.printer, attempt=1)
    assert not await print_logs(cluster, "digits", Wanted(), shown.printer, attempt=3)
    assert (shown.lines, shown.remarks) == (["old"], [])


async def test_a_pod_whose_container_never_started_ends_with_the_job(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [400], phase="Failed")
    api.finish()
    api.pods["h"]["status"]["phase"] = "Failed"
    assert (await follow(cluster)).lines == []


async def test_a_log_that_stays_unreadable_is_given_up_once_the_job_has_finished(api: Api, cluster: Cluster) -> None:
    api.set_pod("h", [say(line(1, "a"), then=api.finish), 500])
    shown = await follow(cluster)
    assert shown.lines == ["a"]
    assert shown.remarks[-1] == "the end of the log of pod h cannot be read (it says 500)"


async def test_all_lines_of_a_pod_that_begins_after_the_command_are_printed(api: Api, cluster: Cluster) -> None:
    api.set_pod("early", [say(line(1, "a"))])
    api.set_pod("late", [400, say(line(1, "b"), then=api.finish)], phase="Pending")
    assert sorted((await follow(cluster, Wanted(tail=10, since=1))).lines) == ["a", "b"]
    first = [each for each in api.asked if "sinceTime" not in each][:3]
    assert sorted(each.get("tailLines", "all") for each in first) == ["10", "all", "all"]
    assert sorted(each.get("sinceSeconds", "all") for each in first) == ["1", "all", "all"]


async def test_a_silent_connection_is_replaced_without_a_remark(
    api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "SILENCE_LIMIT_SECONDS", 0.2)

    async def hang(_: web.Request, response: web.StreamResponse) -> None:
        await response.write(line(1, "a").encode())
        await asyncio.sleep(60)

    api.set_pod("h", [hang, say(line(1, "a"), line(2, "b"), then=api.finish)])
    shown = await follow(cluster)
    assert (shown.lines, [each for each in shown.remarks if "log of pod" in each]) == (["a", "b"], [])


async def test_a_job_that_is_deleted_before_the_watch_begins_ends_the_command(api: Api, cluster: Cluster) -> None:
    api.is_deleted = True
    assert "digits was deleted" in (await follow(cluster)).remarks
    ending = await asyncio.wait_for(wait_for(cluster, "digits", "finished", timeout=None), 20)
    assert (ending.is_reached, ending.message) == (False, "digits was deleted")
