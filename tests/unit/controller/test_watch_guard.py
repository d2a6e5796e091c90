"""Which silence of a watch makes /healthz fail, and which does not."""

from __future__ import annotations

import aiohttp
import pytest

from railhead.controller.probes import build_listener, build_probes
from railhead.controller.serve import serve
from railhead.controller.watch_guard import DEAD_SECONDS, LATE_SECONDS, PERIOD_SECONDS, WatchGuard
from railhead.kube.errors import Denied, KubeError, RetryAfter
from railhead.kube.informer import WatchState
from railhead.kube.kinds import POD, TRAIN_JOB, Kind
from railhead.local.addresses import free_port

AWAY = RetryAfter(0, "NoAnswer", "connection refused")
FORBIDDEN = Denied(403, "Forbidden", "no right to list pods")


class Cluster:
    """Two watches, and an API server that answers unless there is an error."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pods = WatchState(POD, "team", monotonic=lambda: self.now)
        self.jobs = WatchState(TRAIN_JOB, None, monotonic=lambda: self.now)
        self.error: KubeError | None = None
        self.asked: list[tuple[Kind, str | None]] = []
        self.guard = WatchGuard([self.pods, self.jobs], self.ask)

    async def ask(self, kind: Kind, namespace: str | None) -> None:
        self.asked.append((kind, namespace))
        if self.error is not None:
            raise self.error

    async def pass_seconds(self, seconds: float, *, delivering: tuple[WatchState, ...] = ()) -> None:
        """With a bookmark each minute for those that deliver."""
        for _ in range(round(seconds / PERIOD_SECONDS)):
            self.now += PERIOD_SECONDS
            for watch in delivering if self.now % 60 == 0 else ():
                watch.deliver()
            await self.guard.look()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_watches_with_bookmarks_are_alive_and_cost_no_request(cluster: Cluster) -> None:
    await cluster.pass_seconds(3600, delivering=(cluster.pods, cluster.jobs))
    assert cluster.guard.list_problems() == []
    assert cluster.asked == []


async def test_a_watch_that_is_silent_for_three_minutes_while_the_api_server_answers_is_dead(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.pass_seconds(DEAD_SECONDS - PERIOD_SECONDS, delivering=(cluster.jobs,))
    assert cluster.guard.list_problems() == []
    await cluster.pass_seconds(120, delivering=(cluster.jobs,))
    problem = "the watch of pods in namespace team has delivered nothing for 285 s, although the API server answers"
    assert cluster.guard.list_problems() == [problem]
    assert set(cluster.asked) == {(POD, "team")}
    [line] = caplog.records
    assert "for 180 s" in line.getMessage() and line.levelname == "ERROR"
    cluster.pods.deliver()
    assert cluster.guard.list_problems() == []
    await cluster.pass_seconds(DEAD_SECONDS - PERIOD_SECONDS, delivering=(cluster.jobs,))
    assert cluster.guard.list_problems() == []


@pytest.mark.parametrize("error", [AWAY, RetryAfter(503, "", "starting"), Denied(401, "Unauthorized", "")])
async def test_an_api_server_that_is_away_for_a_quarter_of_an_hour_makes_no_watch_dead(
    cluster: Cluster, error: KubeError
) -> None:
    await cluster.pass_seconds(50)
    cluster.error = error
    for _ in range(60):
        await cluster.pass_seconds(PERIOD_SECONDS)
        assert cluster.guard.list_problems() == []
    cluster.error = None
    await cluster.pass_seconds(120)  # until all watches have connected again and got a bookmark
    assert cluster.guard.list_problems() == []
    await cluster.pass_seconds(120, delivering=(cluster.pods,))
    assert len(cluster.guard.list_problems()) == 1, "the one that has not"


async def test_an_api_server_that_fails_now_and_then_makes_no_watch_dead(cluster: Cluster) -> None:
    for look in range(100):
        cluster.error = AWAY if look % 10 == 0 else None
        await cluster.pass_seconds(PERIOD_SECONDS)
        assert cluster.guard.list_problems() == []


async def test_a_refused_watch_is_not_dead_and_its_return_counts_from_then(cluster: Cluster) -> None:
    cluster.pods.refuse(FORBIDDEN)
    await cluster.pass_seconds(900, delivering=(cluster.jobs,))
    assert cluster.guard.list_problems() == []
    assert cluster.asked == []
    cluster.pods.accept()
    await cluster.pass_seconds(DEAD_SECONDS - PERIOD_SECONDS, delivering=(cluster.jobs,))
    assert cluster.guard.list_problems() == []


async def test_a_watch_whose_namespace_refuses_the_list_is_not_dead(cluster: Cluster) -> None:
    cluster.error = FORBIDDEN
    await cluster.pass_seconds(900)
    assert cluster.guard.list_problems() == []


async def test_the_time_for_which_the_process_was_paused_does_not_count(cluster: Cluster) -> None:
    await cluster.pass_seconds(60)
    cluster.now += 3600.0
    await cluster.guard.look()
    assert cluster.guard.list_problems() == []


async def test_a_delivery_while_the_api_server_is_asked_counts(cluster: Cluster) -> None:
    async def deliver(kind: Kind, namespace: str | None) -> None:
        cluster.pods.deliver()

    cluster.guard = WatchGuard([cluster.pods], deliver)
    for _ in range(20):
        cluster.now += LATE_SECONDS + 1
        await cluster.guard.look()
    assert cluster.guard.list_problems() == []


async def test_healthz_names_the_dead_watch_and_readyz_is_another_question(cluster: Cluster) -> None:
    port = free_port()
    async with (
        serve(build_probes(lambda: True, cluster.guard.list_problems), f"127.0.0.1:{port}", listener=build_listener()),
        aiohttp.ClientSession() as session,
    ):

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                return response.status, await response.text()

        assert await get("healthz") == (200, "ok\n")
        await cluster.pass_seconds(DEAD_SECONDS, delivering=(cluster.pods,))
        [problem] = cluster.guard.list_problems()
        assert problem.startswith("the watch of trainjobs in all namespaces has delivered nothing for 180 s")
        assert await get("healthz") == (503, f"{problem}\n")
        assert (await get("readyz"))[0] == 200
        cluster.jobs.deliver()
        assert await get("healthz") == (200, "ok\n")
