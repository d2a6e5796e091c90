"""Every request of the operator goes wrong in every way, on a real API server: the same end as without.

One run of each life of a job counts its requests; then there is one run for each request and
fault. Most of them are lived at the same time, in namespaces of their own, under one operator.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.operator import lives
from tests.operator.audit import AuditLog
from tests.operator.conftest import make_stage
from tests.operator.lives import LIVES, Life, Scene
from tests.operator.proxy import (
    CUT_AFTER,
    CUT_BEFORE,
    HANG_AFTER,
    HANG_BEFORE,
    KILL_AFTER,
    FaultyProxy,
    Trouble,
)
from tests.operator.running import RunningOperator
from tests.operator.theatre import Theatre
from tests.tried import Tried

AWAY_SECONDS = 60.0
RETURN_SECONDS = 30.0  # from the API server's return until the status is right
SILENCE_SECONDS = 75.0
by_name = pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)


@pytest.fixture(scope="module")
def theatre(
    audited_plane: tuple[ControlPlane, AuditLog],
    operator: RunningOperator,
    server: ApiServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Theatre]:
    """The operator of other tests is away meanwhile."""
    plane, folder = audited_plane[0], tmp_path_factory.mktemp("proxied")
    operator.end()
    try:
        with FaultyProxy(plane) as proxy:
            kubeconfig: Path = folder / "operator.kubeconfig"
            kubeconfig.write_text(operator.kubeconfig.read_text().replace(plane.server, proxy.url))
            proxied = RunningOperator(kubeconfig, folder, flags=["--concurrency=64"])
            proxy.kill = lambda: proxied.signal(signal.SIGKILL)
            proxied.start()
            theatre = Theatre(server, proxied, proxy, make_stage)
            try:
                yield theatre
            finally:
                proxied.stop()
    finally:
        operator.start()


@pytest.fixture(autouse=True)
def count(theatre: Theatre, tried: Tried) -> Iterator[None]:
    before = Counter(theatre.tried)
    yield
    for fault, count in (theatre.tried - before).items():
        tried(f"requests on a real API server with the fault {fault!r}", count)


def test_a_lost_answer_or_a_lost_request_anywhere_changes_nothing(theatre: Theatre) -> None:
    theatre.try_all(lives.clean, CUT_AFTER, CUT_BEFORE)


@pytest.mark.slow
@by_name
def test_no_single_fault_at_any_request_changes_anything(theatre: Theatre, life: Life) -> None:
    theatre.try_all(life, CUT_AFTER, CUT_BEFORE, 429, 500, 503)


@pytest.mark.slow
@by_name
def test_requests_that_hang_change_nothing(theatre: Theatre, life: Life) -> None:
    theatre.try_all(life, HANG_AFTER, HANG_BEFORE)


@pytest.mark.slow
@by_name
def test_an_operator_killed_after_any_request_changes_nothing(theatre: Theatre, life: Life) -> None:
    """One job at a time, so that nothing but this kill happens to it. Before a request is after the one before."""
    [calm] = theatre.play(life, None)
    requests = len(calm.ledger.asked)
    before = theatre.starts
    for number in range(requests):
        [scene] = theatre.play(life, Trouble(number, KILL_AFTER))
        theatre.compare(scene, calm.summarize(), life)
    assert theatre.starts - before >= requests - 2, "the last ones may not be asked again"


@pytest.fixture(scope="module")
def calm(theatre: Theatre) -> dict[Life, Scene]:
    """Each life without trouble."""
    return dict(zip(LIVES, theatre.play_all([(theatre.make_scene(), life) for life in LIVES]), strict=True))


def every(seconds: float, do: Callable[[], object]) -> Callable[[], None]:
    last = time.monotonic()

    def ask() -> None:
        nonlocal last
        if time.monotonic() - last > seconds:
            do()
            last = time.monotonic()

    return ask


@pytest.mark.parametrize("trouble", ["cut", "410", "down for 1 s"])
def test_what_the_watches_and_the_connections_suffer_changes_nothing(
    theatre: Theatre, calm: dict[Life, Scene], trouble: str
) -> None:
    """All lives at the same time, with the trouble again and again."""
    suffered: list[int] = []

    def be_away() -> int:
        theatre.proxy.go_down()
        time.sleep(1)
        theatre.proxy.come_back()
        return 1

    def note(watches: int) -> None:
        if watches:  # else the operator has not come back from the last time yet
            suffered.append(watches)

    what = {
        "cut": every(1.0, lambda: note(theatre.proxy.cut_watches())),
        "410": every(1.0, lambda: note(theatre.proxy.expire_watches())),
        "down for 1 s": every(1.5, lambda: note(be_away())),
    }[trouble]
    for scene, life in zip(
        theatre.play_all([(theatre.make_scene(), life) for life in LIVES], trouble=what), LIVES, strict=True
    ):
        theatre.compare(scene, calm[life].summarize(), life)
    assert len(suffered) >= 2


@pytest.mark.slow
def test_watches_that_fall_silent_are_noticed(theatre: Theatre) -> None:
    def falls_silent(scene: Scene) -> Iterator[None]:
        scene.stage.apply(lives.JOB)
        yield from scene.train(1)
        assert theatre.proxy.stall_watches() >= 2
        began = time.monotonic()
        scene.stage.change(lives.JOB, suspend=True)
        yield from scene.until(lambda: scene.status.get("phase") == "Suspended")
        assert 10 < time.monotonic() - began < SILENCE_SECONDS + 15, "the silence was none, or lasted too long"
        scene.stage.change(lives.JOB, suspend=False)
        yield from scene.train(2)
        yield from scene.succeed(2)

    [calm] = theatre.play(lives.rests, None)
    [scene] = theatre.play(falls_silent, None)
    theatre.compare(scene, calm.summarize(), lives.rests)


@pytest.mark.slow
def test_an_api_server_that_is_away_for_a_minute(theatre: Theatre, calm: dict[Life, Scene]) -> None:
    """What happened meanwhile is in the status within half a minute of its return."""
    waiting: set[str] = set()
    back_at = 0.0
    ended_at: dict[Life, float] = {}

    def wait_for_it(scene: Scene) -> Iterator[None]:
        waiting.add(scene.stage.namespace)
        yield from scene.until(lambda: not theatre.proxy.is_up)

    def tell_end(life: Life) -> Life:
        def lived(scene: Scene) -> Iterator[None]:
            yield from life(scene)
            ended_at[life] = time.monotonic()

        return lived

    def go_and_come_back() -> None:
        nonlocal back_at
        if len(waiting) == len(LIVES) and theatre.proxy.is_up and not back_at:
            theatre.proxy.go_down()
            back_at = time.monotonic() + AWAY_SECONDS
        elif not theatre.proxy.is_up and time.monotonic() > back_at:
            theatre.proxy.come_back()

    scenes = [theatre.make_scene() for _ in LIVES]
    for scene in scenes:
        scene.interlude = partial(wait_for_it, scene)
    told = [(scene, tell_end(life)) for scene, life in zip(scenes, LIVES, strict=True)]
    theatre.play_all(told, trouble=go_and_come_back, seconds=AWAY_SECONDS + 120)
    for scene, life in zip(scenes, LIVES, strict=True):
        theatre.compare(scene, calm[life].summarize(), life)
    late = {life.__name__: ended_at[life] - back_at for life in (lives.clean, lives.fails)}
    assert max(late.values()) <= RETURN_SECONDS, late
