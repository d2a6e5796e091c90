"""One job in full, for all who look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.exit_codes import ClientError
from railhead.client.ui import live_job
from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.shared import Shared
from tests.unit.client.jobs import make_job, make_pod, make_running
from tests.unit.client.ui.fixed_source import FixedSource

KEY = TrainJobName("team-a", "digits")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_job, "SHORTEST_SECONDS", 0.0)
    monkeypatch.setattr(live_job, "RETRY_SECONDS", 60.0)


@pytest.fixture
def source() -> FixedSource:
    return FixedSource([make_job("digits")])


@pytest.fixture
async def pool(source: FixedSource) -> AsyncIterator[Shared[LiveJob]]:
    jobs = LiveJobs(source)
    task = asyncio.create_task(jobs.run())

    def make(key: TrainJobName) -> LiveJob:
        return LiveJob(source, jobs, key)

    yield Shared(make)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settle(job: LiveJob) -> None:
    """Waits until nothing changes any more."""
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert job.version


async def test_all_viewers_of_a_job_share_one_watch(pool: Shared[LiveJob], source: FixedSource) -> None:
    first = pool.acquire(KEY)
    assert pool.acquire(KEY) is first
    await first.wait(0)
    await settle(first)
    assert len(source.detail_watchers) == 1
    pool.release(KEY)
    await settle(first)
    assert len(source.detail_watchers) == 1
    pool.release(KEY)
    await settle(first)
    assert (source.detail_watchers, len(pool)) == ([], 0)


async def test_a_change_of_the_job_or_of_a_pod_is_read(pool: Shared[LiveJob], source: FixedSource) -> None:
    job = pool.acquire(KEY)
    await job.wait(0)
    await settle(job)
    version = job.version
    source.put(make_running())
    await job.wait(version)
    assert job.snapshot is not None
    assert job.snapshot.status.phase == "Running"
    await settle(job)
    version = job.version
    source.pods[KEY] = [make_pod("digits-1-head")]
    source.detail_watchers[0]()
    await job.wait(version)
    assert [pod.name for pod in job.snapshot.pods] == ["digits-1-head"]
    pool.release(KEY)


async def test_a_change_during_the_first_reading_is_read(
    pool: Shared[LiveJob], source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = pool.acquire(TrainJobName("team-a", "other"))
    await settle(job)
    read_snapshot = source.read_snapshot

    async def change_meanwhile(key: TrainJobName) -> JobSnapshot:
        snapshot = await read_snapshot(key)
        monkeypatch.undo()
        source.put(make_running())
        await asyncio.sleep(0.001)
        return snapshot

    monkeypatch.setattr(source, "read_snapshot", change_meanwhile)
    job = pool.acquire(KEY)
    await settle(job)
    assert job.snapshot is not None
    assert job.snapshot.status.phase == "Running"
    pool.release(KEY)
    pool.release(TrainJobName("team-a", "other"))


async def test_a_job_that_does_not_change_is_not_read_again(pool: Shared[LiveJob], source: FixedSource) -> None:
    job = pool.acquire(KEY)
    await settle(job)
    reads = len(source.reads)
    source.put(make_job("other"))
    await settle(job)
    assert len(source.reads) == reads
    pool.release(KEY)


async def test_a_deleted_job_keeps_what_was_known_and_may_come_back(pool: Shared[LiveJob], source: FixedSource) -> None:
    job = pool.acquire(KEY)
    await settle(job)
    source.remove(KEY)
    await settle(job)
    assert job.is_gone
    assert job.snapshot is not None
    again = make_job("digits", phase="Pending")
    again["metadata"]["uid"] = "another"
    source.put(again)
    await settle(job)
    assert not job.is_gone
    assert job.snapshot.job["metadata"]["uid"] == "another"
    pool.release(KEY)


async def test_a_job_that_never_was_is_gone(pool: Shared[LiveJob], source: FixedSource) -> None:
    job = pool.acquire(TrainJobName("team-a", "never"))
    await job.wait(0)
    assert (job.is_gone, job.snapshot, job.problem) == (True, None, "")
    pool.release(TrainJobName("team-a", "never"))


async def test_an_error_is_shown_until_the_job_can_be_read(
    pool: Shared[LiveJob], source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(key: TrainJobName) -> None:
        raise ClientError("cannot read it")

    monkeypatch.setattr(source, "read_snapshot", fail)
    job = pool.acquire(KEY)
    await job.wait(0)
    assert job.problem == "cannot read it"
    monkeypatch.undo()
    await settle(job)
    source.put(make_running())
    await settle(job)
    assert job.problem == ""
    pool.release(KEY)
