"""The operator's requests fail in every way, on a real API server: the job ends as without faults.

One run of each scenario counts its requests; then there is one run for each request and
fault. Most of them run concurrently, each in its own namespace, under one operator.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.operator import scenarios
from tests.operator.audit import AuditLog
from tests.operator.conftest import make_cluster
from tests.operator.faulty_cluster import FaultyCluster, run_behind_proxy
from tests.operator.proxy import (
    CUT_AFTER,
    CUT_BEFORE,
    HANG_AFTER,
    HANG_BEFORE,
    KILL_AFTER,
    Trouble,
)
from tests.operator.running import RunningOperator
from tests.operator.scenarios import SCENARIOS, Scenario, ScenarioRun
from tests.tried import Tried

AWAY_SECONDS = 60.0
RETURN_SECONDS = 30.0  # from the API server's return until the status is right
SILENCE_SECONDS = 75.0
KILL_STEP = 4
by_name = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@pytest.fixture(scope="module")
def faulty_cluster(
    audited_plane: tuple[ControlPlane, AuditLog],
    operator: RunningOperator,
    server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FaultyCluster]:
    folder, flags = tmp_path_factory.mktemp("proxied"), ["--concurrency=64"]
    with run_behind_proxy(audited_plane[0], operator, folder, make_cluster, server=server, flags=flags) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def count(faulty_cluster: FaultyCluster, tried: Tried) -> Iterator[None]:
    before = Counter(faulty_cluster.tried)
    yield
    for fault, count in (faulty_cluster.tried - before).items():
        tried(f"requests on a real API server with the fault {fault!r}", count)


def test_a_lost_answer_anywhere_changes_nothing(faulty_cluster: FaultyCluster) -> None:
    """The next test loses each request too, and so does tests/model/test_crash_points.py."""
    faulty_cluster.try_all(scenarios.clean, CUT_AFTER)


@pytest.mark.slow
@by_name
def test_no_single_fault_at_any_request_changes_anything(faulty_cluster: FaultyCluster, scenario: Scenario) -> None:
    """Requests get one of the codes in turn, as writes do in tests/model/test_crash_points.py."""
    faulty_cluster.try_all(scenario, CUT_AFTER, CUT_BEFORE, in_turn=(429, 500, 503))


@pytest.mark.slow
@by_name
def test_requests_that_hang_change_nothing(faulty_cluster: FaultyCluster, scenario: Scenario) -> None:
    """Every second request hangs after the API server has answered it: the test above loses each answer."""
    faulty_cluster.try_all(scenario, in_turn=(HANG_AFTER, HANG_BEFORE))


@pytest.mark.slow
@by_name
def test_an_operator_killed_after_a_request_changes_nothing(faulty_cluster: FaultyCluster, scenario: Scenario) -> None:
    """One job at a time, so that only this kill affects it. A kill before a request is one after the previous one.

    Every fourth request, from another one on in each scenario; tests/model/test_crash_points.py has all of them.
    """
    [calm] = faulty_cluster.play(scenario, None)
    numbers = range(SCENARIOS.index(scenario) % KILL_STEP, len(calm.ledger.asked), KILL_STEP)
    before = faulty_cluster.starts
    for number in numbers:
        [run] = faulty_cluster.play(scenario, Trouble(number, KILL_AFTER))
        faulty_cluster.compare(run, calm.summarize(), scenario)
    assert faulty_cluster.starts - before >= len(numbers) - 1, "the last requests may not be repeated"


@pytest.fixture(scope="module")
def calm(faulty_cluster: FaultyCluster) -> dict[Scenario, ScenarioRun]:
    """Each scenario without a fault."""
    return dict(
        zip(
            SCENARIOS,
            faulty_cluster.play_all([(faulty_cluster.make_run(), scenario) for scenario in SCENARIOS]),
            strict=True,
        )
    )


def every(seconds: float, do: Callable[[], object]) -> Callable[[], None]:
    last = time.monotonic()

    def ask() -> None:
        nonlocal last
        if time.monotonic() - last > seconds:
            do()
            last = time.monotonic()

    return ask


# An API server that goes down cuts the watches as well.
@pytest.mark.parametrize("trouble", [pytest.param("cut", marks=pytest.mark.slow), "410", "down for 1 s"])
def test_broken_watches_and_connections_change_nothing(
    faulty_cluster: FaultyCluster, calm: dict[Scenario, ScenarioRun], trouble: str
) -> None:
    """All scenarios at the same time, with repeated faults."""
    suffered: list[int] = []
    runs = [faulty_cluster.make_run() for _ in SCENARIOS]
    known = -1  # writes when the API server came back

    def count_writes() -> int:
        return sum(run.ledger.granted.total() for run in runs)

    def be_away() -> int:
        """Not before the operator watches again and has written: on a busy machine it would never come that far."""
        nonlocal known
        watches = faulty_cluster.proxy.watches if count_writes() > known else 0
        if watches:
            faulty_cluster.proxy.go_down()
            time.sleep(1)
            faulty_cluster.proxy.come_back()
            known = count_writes()
        return watches

    def note(watches: int) -> None:
        if watches:  # else the operator has not recovered from the last time yet
            suffered.append(watches)

    what = {
        "cut": every(1.0, lambda: note(faulty_cluster.proxy.cut_watches())),
        "410": every(1.0, lambda: note(faulty_cluster.proxy.expire_watches())),
        "down for 1 s": every(1.5, lambda: note(be_away())),
    }[trouble]
    for run, scenario in zip(
        faulty_cluster.play_all(list(zip(runs, SCENARIOS, strict=True)), trouble=what),
        SCENARIOS,
        strict=True,
    ):
        faulty_cluster.compare(run, calm[scenario].summarize(), scenario)
    assert len(suffered) >= 2


@pytest.mark.slow
def test_silent_watches_are_detected(faulty_cluster: FaultyCluster) -> None:
    def falls_silent(run: ScenarioRun) -> Iterator[None]:
        run.cluster.apply(scenarios.JOB)
        yield from run.train(1)
        assert faulty_cluster.proxy.stall_watches() >= 2
        began = time.monotonic()
        run.cluster.change(scenarios.JOB, suspend=True)
        yield from run.until(lambda: run.status.get("phase") == "Suspended")
        assert 10 < time.monotonic() - began < SILENCE_SECONDS + 15, "there was no silence, or it lasted too long"
        run.cluster.change(scenarios.JOB, suspend=False)
        yield from run.train(2)
        yield from run.succeed(2)

    [calm] = faulty_cluster.play(scenarios.rests, None)
    [run] = faulty_cluster.play(falls_silent, None)
    faulty_cluster.compare(run, calm.summarize(), scenarios.rests)


@pytest.mark.slow
def test_an_api_server_that_is_down_for_a_minute(
    faulty_cluster: FaultyCluster, calm: dict[Scenario, ScenarioRun]
) -> None:
    """Changes meanwhile are in the status within half a minute of its return."""
    waiting: set[str] = set()
    back_at = 0.0
    ended_at: dict[Scenario, float] = {}

    def wait_for_it(run: ScenarioRun) -> Iterator[None]:
        waiting.add(run.cluster.namespace)
        yield from run.until(lambda: not faulty_cluster.proxy.is_up)

    def note_end(scenario: Scenario) -> Scenario:
        def lived(run: ScenarioRun) -> Iterator[None]:
            yield from scenario(run)
            ended_at[scenario] = time.monotonic()

        return lived

    def go_and_come_back() -> None:
        nonlocal back_at
        if len(waiting) == len(SCENARIOS) and faulty_cluster.proxy.is_up and not back_at:
            faulty_cluster.proxy.go_down()
            back_at = time.monotonic() + AWAY_SECONDS
        elif not faulty_cluster.proxy.is_up and time.monotonic() > back_at:
            faulty_cluster.proxy.come_back()

    runs = [faulty_cluster.make_run() for _ in SCENARIOS]
    for run in runs:
        run.interlude = partial(wait_for_it, run)
    played = [(run, note_end(scenario)) for run, scenario in zip(runs, SCENARIOS, strict=True)]
    faulty_cluster.play_all(played, trouble=go_and_come_back, seconds=AWAY_SECONDS + 120)
    for run, scenario in zip(runs, SCENARIOS, strict=True):
        faulty_cluster.compare(run, calm[scenario].summarize(), scenario)
    late = {scenario.__name__: ended_at[scenario] - back_at for scenario in (scenarios.clean, scenarios.fails)}
    assert max(late.values()) <= RETURN_SECONDS, late
