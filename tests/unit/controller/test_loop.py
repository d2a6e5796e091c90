"""The loop: an error stays with its job, and decides when that job is reconciled again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.api.names import LABEL_ATTEMPT, LABEL_ROLE, LABEL_ROUND, LABEL_SLOT, WORKER, head_name, worker_name
from railhead.api.parsed_spec import JobKey
from railhead.controller.config import OperatorConfig
from railhead.controller.discovery import Discovery
from railhead.controller.events import EventRecorder
from railhead.controller.executor import ChildRejected, Executor, LostCompare
from railhead.controller.keyed_queue import FIRST_BACKOFF_SECONDS, KeyedQueue
from railhead.controller.loop import (
    SMALL_JOB_PODS,
    TROUBLE_RETRY_SECONDS,
    UNUSED_SECONDS,
    LookUpTurns,
    Loop,
    pause_after,
)
from railhead.controller.observe import record_pod
from railhead.controller.observe_queue import observe_workload
from railhead.controller.queues import RETRY_SECONDS
from railhead.controller.store import Store
from railhead.kube.errors import Denied, RetryAfter
from railhead.planning.observed import Denial, Observed
from railhead.planning.plan import Plan, WorkloadPatch
from railhead.planning.pod_view import PodEvents, PodView, Problem
from tests.model.client import make_client
from tests.unit.builders import NOW, SETTINGS, SPEC
from tests.unit.controller.raws import make_job, make_pod
from tests.unit.controller.test_discovery import BETA, SILENT, WITH, DiscoveryClient
from tests.unit.controller.test_keyed_queue import FakeClock
from tests.unit.kueue import OWNER, make_raw

QUOTA = Problem("QuotaExceeded", "Pod head was rejected: exceeded quota")
A, B, C = (JobKey("default", name) for name in "abc")


class NoCache:
    """Caches nothing."""

    def record_job(self, raw: dict[str, Any]) -> None: ...
    def record_job_gone(self, key: JobKey, uid: str) -> None: ...
    def record_pod(self, raw: dict[str, Any]) -> None: ...
    def record_workload(self, raw: dict[str, Any]) -> None: ...
    def record_denial(self, key: JobKey, uid: str, denial: Denial) -> None: ...
    def forget_denial(self, uid: str, name: str) -> None: ...


class ScriptedExecutor(Executor):
    """Raises the scripted errors of a key, once each; records its calls."""

    def __init__(self) -> None:
        super().__init__(make_client(), NoCache(), EventRecorder(make_client()))
        self.script: dict[JobKey, list[BaseException]] = {}
        self.plans: list[tuple[JobKey, str, Plan]] = []
        self.pod_problems: list[Problem] = []
        self.looked_up: list[str] = []
        self.patched: list[WorkloadPatch] = []
        self.at_once = 0
        self.most_at_once = 0

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        self.plans.append((key, uid, plan))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        if errors := self.script.get(key):
            raise errors.pop(0)

    async def patch_workload(self, key: JobKey, patch: WorkloadPatch) -> None:
        self.patched.append(patch)
        if errors := self.script.get(key):
            raise errors.pop(0)

    async def look_up_events(self, key: JobKey, pod: PodView) -> PodEvents:
        self.looked_up.append(pod.name)
        return PodEvents(self.pod_problems.pop(0), NOW)


class Harness:
    """A loop over the jobs a, b and c, whose clock stands still until the test moves it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue: KeyedQueue[JobKey] = KeyedQueue(self.clock.call_later)
        self.store = Store()
        for version, key in enumerate((A, B, C), start=1):
            self.store.put_job(make_job(version, name=key.name, uid=f"uid-{key.name}"))
        self.executor = ScriptedExecutor()
        self.counted: list[str] = []
        self.loop = Loop(
            self.store,
            self.queue,
            self.executor,
            SETTINGS,
            now=self.now,
            count=self.count,
            monotonic=lambda: self.clock.now,
        )

    def count(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.counted.append(result)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock.now)

    def observe(self, key: JobKey) -> Observed:
        observed = self.store.observe(key, now=self.now(), settings=SETTINGS)
        assert observed is not None
        return observed

    @asynccontextmanager
    async def running(self, concurrency: int = 2) -> AsyncIterator[Callable[..., Any]]:
        """Runs the loop; yields a function that waits until it is idle."""

        async def settle(turns: int = 50) -> list[str]:
            before = len(self.executor.plans)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert not task.done(), task.exception()
            return [key.name for key, _, _ in self.executor.plans[before:]]

        task = asyncio.create_task(self.loop.run(concurrency))
        try:
            yield settle
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def harness() -> Harness:
    return Harness()


async def test_a_plan_is_executed_for_its_job_only(harness: Harness) -> None:
    await harness.loop.reconcile(A)
    ((key, uid, planned),) = harness.executor.plans
    assert (key, uid) == (A, "uid-a")
    assert planned.status is not None
    assert planned.status.tests["/metadata/uid"] == "uid-a"


async def test_a_job_whose_pods_are_not_known_has_no_pass_and_no_timer(harness: Harness) -> None:
    """Its namespace's watch was refused: a pod that is missing in the view may run."""
    current = False
    harness.loop.is_current = lambda namespace: current and namespace == A.namespace
    harness.queue.wake(A, 60)
    await harness.loop.reconcile(A)
    assert harness.executor.plans == [] and harness.counted == []
    assert harness.clock.pending == []
    current = True
    await harness.loop.reconcile(A)
    assert [key for key, _, _ in harness.executor.plans] == [A]


@pytest.mark.parametrize(
    ("error", "delay", "message"),
    [
        (LostCompare("the job changed since it was observed"), FIRST_BACKOFF_SECONDS, None),
        (RetryAfter(0, "NoAnswer", "reset"), FIRST_BACKOFF_SECONDS, "reset"),
        (RetryAfter(429, "TooManyRequests", "slow down", seconds=9), 9.0, "slow down"),
        (Denied(403, "Forbidden", "not allowed"), FIRST_BACKOFF_SECONDS, "not allowed"),
        (RuntimeError("a bug"), TROUBLE_RETRY_SECONDS, "RuntimeError: a bug"),
        (RecursionError(), TROUBLE_RETRY_SECONDS, "RecursionError"),
    ],
)
async def test_an_error_is_logged_and_the_job_is_reconciled_again(
    harness: Harness, error: Exception, delay: float, message: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    harness.executor.script = {A: [error]}
    await harness.loop.reconcile(A)
    assert harness.clock.pending == [delay]
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == (message is not None)
    assert all("default/a" in warning and str(message) in warning for warning in warnings)


@pytest.mark.parametrize(
    "error",
    [LostCompare("changed"), RetryAfter(503, "", ""), Denied(403, "", ""), ValueError("a bug")],
)
async def test_an_error_of_one_job_does_not_affect_the_others(harness: Harness, error: Exception) -> None:
    harness.executor.script = {B: [error]}
    async with harness.running() as settle:
        for key in (A, B, C):
            harness.queue.add(key)
        assert sorted(await settle()) == ["a", "b", "c"]
        harness.clock.pass_seconds(TROUBLE_RETRY_SECONDS)
        assert await settle() == ["b"]
        for key in (A, B, C):
            harness.queue.add(key)
        assert sorted(await settle()) == ["a", "b", "c"]


class SlowExecutor(ScriptedExecutor):
    """Takes a given time for each plan."""

    def __init__(self) -> None:
        super().__init__()
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.answer = asyncio.Event()
        self.ended: list[str] = []

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        self.started.put_nowait(key.name)
        await self.answer.wait()
        self.ended.append(key.name)


async def test_the_loop_completes_a_pass_that_has_begun(harness: Harness) -> None:
    """Nothing else would do what follows its status write, such as its events."""
    harness.loop.executor = executor = SlowExecutor()
    for key in (A, B, C):
        harness.queue.add(key)
    task = asyncio.create_task(harness.loop.run(2))
    assert sorted([await executor.started.get(), await executor.started.get()]) == ["a", "b"]
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.1)
    assert not done
    executor.answer.set()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert sorted(executor.ended) == ["a", "b"]
    assert harness.counted == ["done"] * 2


async def test_a_pass_that_does_not_end_is_cancelled(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railhead.controller.loop.LAST_PASS_SECONDS", 0.01)
    harness.loop.executor = executor = SlowExecutor()
    harness.queue.add(A)
    task = asyncio.create_task(harness.loop.run(1))
    await executor.started.get()
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert executor.ended == []
    assert harness.queue.depth == 1  # for the next run of the loop, when this operator leads again


class HangingExecutor(ScriptedExecutor):
    """The requests of some jobs get no answer until the test gives it, and fail then."""

    def __init__(self, *hanging: JobKey) -> None:
        super().__init__()
        self.hanging = set(hanging)
        self.answer = asyncio.Event()

    async def execute(self, key: JobKey, uid: str, plan: Plan) -> None:
        await super().execute(key, uid, plan)
        if key in self.hanging:
            await self.answer.wait()
            raise RetryAfter(0, "NoAnswer", "timed out")


def make_keys(harness: Harness, count: int) -> list[JobKey]:
    keys = [JobKey("default", f"job-{number}") for number in range(count)]
    for key in keys:
        harness.store.put_job(make_job(9, name=key.name, uid=f"uid-{key.name}"))
    return keys


async def test_jobs_whose_requests_hang_delay_no_other(harness: Harness) -> None:
    """By default: webhooks that do not answer hold up all but one of the passes."""
    concurrency = OperatorConfig.concurrency
    hanging, others = (keys := make_keys(harness, 2 * concurrency))[: concurrency - 1], keys[concurrency - 1 :]
    harness.loop.executor = harness.executor = executor = HangingExecutor(*hanging)
    async with harness.running(concurrency) as settle:
        for key in keys:
            harness.queue.add(key)
        assert await settle(200) == [key.name for key in keys]
        for key in others:
            harness.queue.add(key)
        assert await settle(200) == [key.name for key in others], "again and again"
        executor.answer.set()
        assert await settle() == []
        assert harness.counted.count("error") == len(hanging)


async def test_a_job_that_fails_each_time_and_one_with_a_storm_of_events_take_no_more_than_their_share(
    harness: Harness,
) -> None:
    others = make_keys(harness, 3)
    harness.executor.script = {A: [RetryAfter(0, "NoAnswer", "reset")] * 100}
    for number in range(4000):
        role = {LABEL_ROLE: WORKER, LABEL_ATTEMPT: "1", LABEL_SLOT: str(number), LABEL_ROUND: "0"}
        harness.store.change_pod(None, record_pod(make_pod(f"w{number}", owner="uid-b", labels=role)))
    async with harness.running(concurrency=1) as settle:
        for _ in range(4000):  # each pod's change
            harness.queue.add(B)
            harness.queue.add(A)
        for key in others:
            harness.queue.add(key)
        assert await settle() == ["b", "a", *(key.name for key in others)]
        harness.clock.pass_seconds(60)
        assert (await settle()).count("a") == 1, "it backs off"


async def test_a_rejection_is_reported_at_once_and_forgotten_when_all_children_exist(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """The next pass creates nothing; it reports why and when it tries again."""
    harness.executor.script = {A: [ChildRejected(QUOTA), LostCompare("changed"), ChildRejected(QUOTA)]}
    async with harness.running() as settle:
        harness.queue.add(A)
        assert await settle() == ["a", "a"]
        assert [bool(planned.creates) for _, _, planned in harness.executor.plans] == [True, False]
        assert "default/a: QuotaExceeded: Pod head was rejected: exceeded quota" in caplog.text
        harness.clock.pass_seconds(5)
        assert await settle() == ["a", "a"]
        rejection = harness.observe(A).rejection
        assert rejection is not None and (rejection.problem, rejection.tries) == (QUOTA, 2)
        harness.clock.pass_seconds(9.9)
        assert await settle() == []
        harness.clock.pass_seconds(0.1)
        assert await settle() == ["a"]
        assert harness.observe(A).rejection is None


async def test_a_job_that_keeps_failing_backs_off_until_it_succeeds(harness: Harness) -> None:
    no_answer = RetryAfter(0, "NoAnswer", "reset")
    harness.executor.script = {A: [no_answer] * 4}
    delays = []
    for _ in range(4):
        await harness.loop.reconcile(A)
        delays += [at - harness.clock.now for at in harness.clock.pending]
        harness.clock.pass_seconds(delays[-1])
    assert delays == [0.25, 0.5, 1.0, 2.0]
    await harness.loop.reconcile(A)
    assert harness.clock.pending == []
    harness.executor.script = {A: [no_answer]}
    await harness.loop.reconcile(A)
    assert harness.clock.pending == [harness.clock.now + FIRST_BACKOFF_SECONDS]


PENDING = {
    "observedGeneration": 1,
    "phase": "Pending",
    "attempt": 1,
    "head": {"pod": "its name", "node": ""},
    "workers": {"desired": 2, "ready": 0, "joined": 0},
}
LOST = {
    "observedGeneration": 1,
    "phase": "Restarting",
    "attempt": 1,
    "failure": {"class": "Application", "reason": "TrainingFailed", "attempt": 1, "time": "2026-01-01T12:00:00Z"},
}


async def test_a_waiting_job_is_woken_when_it_is_due(harness: Harness) -> None:
    """The next attempt begins five seconds after a failure of the application."""
    harness.store.put_job(make_job(20, name="a", uid="uid-a", status=LOST))
    async with harness.running() as settle:
        harness.queue.add(A)
        harness.clock.pass_seconds(1)
        assert await settle() == ["a"]
        assert harness.executor.plans[-1][2] == Plan(wake_at=NOW + timedelta(seconds=5))
        harness.clock.pass_seconds(3.9)
        assert await settle() == []
        harness.clock.pass_seconds(0.1)
        assert await settle() == ["a"]
        assert harness.executor.plans[-1][2].creates


def put_silent(harness: Harness, key: JobKey) -> str:
    """The job's head has a node and does not report why it does not start; returns its name."""
    uid = f"uid-{key.name}"
    harness.store.put_job(make_job(9, name=key.name, uid=uid, status=PENDING))
    head = head_name(key.name, uid, 1)
    created = {"creationTimestamp": "2026-01-01T11:59:30Z"}
    harness.store.change_pod(None, record_pod(make_pod(head, owner=uid, status={"phase": "Pending"}, **created)))
    for slot in (0, 1):
        worker = worker_name(key.name, uid, attempt=1, slot=slot, round_=0)
        role = {LABEL_ROLE: WORKER, LABEL_ATTEMPT: "1", LABEL_SLOT: str(slot), LABEL_ROUND: "0"}
        harness.store.change_pod(None, record_pod(make_pod(worker, owner=uid, labels=role)))
    return head


async def test_the_events_of_silent_pods_of_many_jobs_are_looked_up_one_a_second(harness: Harness) -> None:
    jobs = [JobKey("default", f"silent-{number}") for number in range(20)]
    heads = [put_silent(harness, key) for key in jobs]
    harness.executor.pod_problems = [Problem("FailedMount", "no such secret")] * 20
    async with harness.running() as settle:
        for key in jobs:
            harness.queue.add(key)
        await settle()
        assert harness.executor.looked_up == heads[:1]
        for number in range(2, 21):
            harness.clock.pass_seconds(1)
            passes = await settle()
            assert harness.executor.looked_up == heads[:number]
            assert not {key.name for key in jobs[number:]} & set(passes), "a job that waits is left alone meanwhile"


async def test_events_of_an_unexplained_pod_are_looked_up_and_reported_by_the_next_pass(harness: Harness) -> None:
    pod_name = put_silent(harness, A)
    harness.executor.pod_problems = [Problem("FailedMount", "no such secret")]
    async with harness.running() as settle:
        harness.queue.add(A)
        assert await settle() == ["a", "a"]
    assert harness.executor.looked_up == [pod_name]
    [event] = harness.executor.plans[-1][2].events
    assert (event.reason, event.message) == ("FailedMount", f"Pod {pod_name} cannot start: no such secret")
    assert [pod.events_read_at for pod in harness.observe(A).pods] == [NOW, None, None]
    harness.store.change_pod(record_pod(make_pod(pod_name, owner="uid-a")), None)
    harness.store.change_pod(None, record_pod(make_pod(pod_name, owner="uid-a")))
    assert not any(pod.events_read_at for pod in harness.observe(A).pods), "nothing is kept about a deleted pod"


async def test_a_deleted_job_leaves_no_timer_and_no_work(harness: Harness) -> None:
    harness.executor.script = {A: [RetryAfter(0, "NoAnswer", "reset")]}
    await harness.loop.reconcile(A)
    harness.store.drop_job(A, "uid-a", version=9)
    await harness.loop.reconcile(A)
    assert harness.clock.pending == []
    assert len(harness.executor.plans) == 1


def leave_workload(harness: Harness) -> None:
    """The job a is gone, and its Workload waits for the operator."""
    owner = {**OWNER, "name": "a", "uid": "uid-a"}
    metadata = {"deletionTimestamp": "2026-01-01T12:00:00Z", "ownerReferences": [owner]}
    raw = make_raw(names.workload_name("a", "uid-a"), metadata=metadata)
    raw["metadata"]["labels"] = {names.LABEL_JOB_NAME: "a"}
    harness.store.queues.change_workload(None, observe_workload(raw))
    harness.store.drop_job(A, "uid-a", version=9)


@pytest.mark.parametrize("is_followed", [False, True], ids=["", "by a job of the same name"])
async def test_a_job_that_is_gone_gives_its_quota_back_once_no_node_can_run_its_pods(
    harness: Harness, is_followed: bool
) -> None:
    """The node does not respond: its pod stays until the node is removed."""
    pod = make_pod("a-w0", owner="uid-a", deletionTimestamp="2026-01-01T12:00:30Z", status={"phase": "Running"})
    harness.store.change_pod(None, record_pod(pod))
    leave_workload(harness)
    if is_followed:
        harness.store.put_job(make_job(10, name="a", uid="uid-next"))
    async with harness.running() as settle:
        harness.queue.add(A)
        await settle()
        harness.clock.pass_seconds(30)
        await settle()
        assert not harness.executor.patched
        harness.clock.pass_seconds(35)
        await settle()
    assert [patch.name for patch in harness.executor.patched] == [names.workload_name("a", "uid-a")]


async def test_a_denied_release_is_tried_again_after_a_pause(harness: Harness) -> None:
    """A webhook denies it, for example, which may last for days."""
    leave_workload(harness)
    harness.executor.script = {A: [Denied(403, "Forbidden", "no"), Denied(403, "Forbidden", "no")]}
    async with harness.running() as settle:
        harness.queue.add(A)
        await settle()
        for tries in (1, 2, 3):
            harness.clock.pass_seconds(RETRY_SECONDS - 1)
            await settle()
            assert len(harness.executor.patched) == tries
            harness.clock.pass_seconds(1)
            await settle()
    assert len(harness.executor.patched) == 3 and harness.clock.pending == []


async def test_a_workload_that_changes_while_it_is_released_is_released_at_once(harness: Harness) -> None:
    """Kueue writes the condition of a Workload that it stops to count, at the moment of its deletion."""
    leave_workload(harness)
    execute = harness.executor.patch_workload

    async def change_meanwhile(key: JobKey, patch: WorkloadPatch) -> None:
        await execute(key, patch)
        if len(harness.executor.patched) == 1:
            harness.queue.add(A)  # the watch brings Kueue's change before the answer is there
            raise LostCompare("it changed since it was observed")

    harness.executor.patch_workload = change_meanwhile  # type: ignore[method-assign]
    async with harness.running() as settle:
        harness.queue.add(A)
        await settle()
    assert len(harness.executor.patched) == 2 and harness.clock.now == 0


async def test_several_jobs_are_reconciled_at_once_up_to_the_limit(harness: Harness) -> None:
    async with harness.running(concurrency=2) as settle:
        for key in (A, B, C):
            harness.queue.add(key)
        assert sorted(await settle()) == ["a", "b", "c"]
    assert harness.executor.most_at_once == 2


async def test_passes_are_counted_by_result(harness: Harness) -> None:
    harness.executor.script = {A: [LostCompare("changed")], B: [ChildRejected(QUOTA)], C: [RetryAfter(503, "", "away")]}
    for key in (A, B, C, A, JobKey("default", "unknown")):
        await harness.loop.reconcile(key)
    assert harness.counted == ["lost", "refused", "error", "done"]


def see_pod(harness: Harness, key: JobKey, slot: int, phase: str) -> None:
    labels = {LABEL_ROLE: WORKER, LABEL_ATTEMPT: "1", LABEL_SLOT: str(slot), LABEL_ROUND: "0"}
    pod = record_pod(make_pod(f"{key.name}-{slot}", owner=f"uid-{key.name}", labels=labels, status={"phase": phase}))
    harness.store.change_pod(None, pod)
    harness.queue.add(key)


async def test_a_storm_of_pod_events_leads_to_a_bounded_number_of_passes(harness: Harness) -> None:
    """Each event comes by itself, all of them within a second; other jobs are not delayed."""
    pods, events = 2 * SMALL_JOB_PODS, 600
    for slot in range(pods):
        see_pod(harness, A, slot, "Pending")
    pause = pause_after(pods)
    async with harness.running() as settle:
        passes = (await settle()).count("a")
        for number in range(events):
            harness.clock.pass_seconds(1 / events)
            see_pod(harness, A, number % pods, "Running")
            passes += (await settle()).count("a")
        assert passes <= 2 + 1 / pause
        see_pod(harness, B, 0, "Pending")
        assert await settle() == ["b"]
        harness.clock.pass_seconds(pause)
        await settle()
        see_pod(harness, A, 0, "Failed")
        harness.clock.pass_seconds(pause)
        assert "a" in await settle(), "the last event is seen"


async def test_a_small_job_never_pauses(harness: Harness) -> None:
    for slot in range(SMALL_JOB_PODS):
        see_pod(harness, C, slot, "Pending")
    async with harness.running() as settle:
        assert await settle() == ["c"]
        for slot in range(5):
            see_pod(harness, C, slot, "Running")
            assert await settle() == ["c"]


def test_the_first_has_its_turn_at_once_and_the_others_in_their_order() -> None:
    clock = FakeClock(now=100.0)
    turns = LookUpTurns(clock.monotonic)
    assert [turns.take(key) for key in (A, B, C)] == [0.0, 1.0, 2.0]
    assert [turns.take(key) for key in (C, B, A)] == [2.0, 1.0, 3.0], "asking again changes nothing"
    clock.now += 1.5
    assert [turns.take(key) for key in (B, C)] == [0.0, 0.5]


def test_many_keys_have_one_turn_per_second() -> None:
    clock = FakeClock(now=100.0)
    turns = LookUpTurns(clock.monotonic)
    taken: Counter[int] = Counter()
    for _ in range(300):
        for number in range(100):
            if not turns.take(JobKey("default", str(number))):
                taken[number] += 1
        clock.now += 1
    assert sum(taken.values()) == 300
    assert set(taken.values()) == {3}


def test_a_turn_that_is_not_taken_is_forgotten() -> None:
    clock = FakeClock(now=100.0)
    turns = LookUpTurns(clock.monotonic)
    assert [turns.take(key) for key in (A, B)] == [0.0, 1.0]
    clock.now += UNUSED_SECONDS + 2
    assert turns.take(C) == 0.0
    assert turns.take(B) == 1.0


async def begin_auto(harness: Harness, documents: dict[str, Any]) -> DiscoveryClient:
    """One pass over a new job whose gang scheduler is Auto."""
    client = DiscoveryClient(documents)
    harness.loop.discovery = Discovery(client)
    spec = {**SPEC, "scheduling": {"gangScheduler": "Auto"}}
    harness.store.put_job(make_job(9, name="a", uid="uid-a", generation=2, spec=spec))
    await harness.loop.reconcile(A)
    return client


@pytest.mark.parametrize(("documents", "kind"), [({BETA: WITH}, "PodGroup"), ({}, "None")])
async def test_an_attempt_begins_with_what_the_api_server_serves(
    harness: Harness, documents: dict[str, Any], kind: str
) -> None:
    await begin_auto(harness, documents)
    [(_, _, planned)] = harness.executor.plans
    assert planned.status is not None and planned.status.fields["gangScheduler"] == kind


async def test_no_attempt_begins_while_discovery_has_no_answer(harness: Harness) -> None:
    await begin_auto(harness, {BETA: SILENT})
    assert (harness.executor.plans, harness.counted) == ([], ["error"])
    assert harness.clock.pending == [FIRST_BACKOFF_SECONDS]


async def test_a_job_with_another_gang_scheduler_asks_nothing(harness: Harness) -> None:
    client = await begin_auto(harness, {})
    asked = client.asked
    await harness.loop.reconcile(B)
    assert client.asked == asked > 0
