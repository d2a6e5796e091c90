"""One watch of all jobs for all viewers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from railhead.client.cluster.job_rows import JobNumbers, read_record
from railhead.client.exit_codes import ClientError
from railhead.client.ui import live_jobs
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.page_source import TrainJobName
from railhead.kube.informer import OnChange
from tests.unit.client.jobs import make_job, make_running
from tests.unit.client.ui.fixed_source import FixedSource

KEY = TrainJobName("team-a", "digits")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_jobs, "RETRY_SECONDS", 0.0)


@pytest.fixture
def source() -> FixedSource:
    return FixedSource([make_job("digits"), make_job("words")])


@pytest.fixture
async def jobs(source: FixedSource) -> AsyncIterator[LiveJobs]:
    jobs = LiveJobs(source)
    task = asyncio.create_task(jobs.run())
    while not jobs.is_listed:
        await jobs.wait(jobs.version)
    yield jobs
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def show(jobs: LiveJobs, version: int) -> tuple[list[str], list[str], bool]:
    changes = jobs.read_since(version)
    return [each.row.name for each in changes.records], [key.name for key in changes.gone], changes.is_all


async def test_a_new_viewer_gets_all_jobs(jobs: LiveJobs) -> None:
    assert show(jobs, 0) == (["digits", "words"], [], True)


async def test_a_viewer_gets_only_what_has_changed(jobs: LiveJobs, source: FixedSource) -> None:
    version = jobs.version
    source.put(make_running(progress={"percentComplete": 5}))
    source.put(make_job("new"))
    source.remove(TrainJobName("team-a", "words"))
    assert show(jobs, version) == (["digits", "new"], ["words"], False)
    assert jobs.find_version(KEY) > version


async def test_a_change_of_nothing_that_is_shown_wakes_nobody(jobs: LiveJobs, source: FixedSource) -> None:
    version = jobs.version
    source.put(make_job("digits"))
    assert jobs.version == version


async def test_waiting_ends_with_the_next_change(jobs: LiveJobs, source: FixedSource) -> None:
    version = jobs.version
    waiting = asyncio.create_task(jobs.wait(version))
    await asyncio.sleep(0)
    assert not waiting.done()
    source.put(make_job("new"))
    await waiting


async def test_a_viewer_from_before_forgotten_deletions_gets_all_jobs(
    jobs: LiveJobs, source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_jobs, "MOST_GONE", 1)
    version = jobs.version
    source.remove(KEY)
    source.remove(TrainJobName("team-a", "words"))
    assert show(jobs, version) == ([], [], True)
    assert jobs.find_version(TrainJobName("team-a", "words")) > version


class Breaking(FixedSource):
    """Its first watch breaks, and a job is deleted before the next one."""

    is_whole = False

    async def watch_jobs(self, on_change: OnChange[JobNumbers], on_list: Callable[[], None]) -> None:
        if self.is_whole:
            await super().watch_jobs(on_change, on_list)
        for job in self.jobs.values():
            on_change(None, read_record(job))
        on_list()
        del self.jobs[KEY]
        self.is_whole = True
        raise ClientError("the connection is lost")


async def test_after_an_error_the_watch_begins_again_and_forgets_what_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Breaking([make_job("digits"), make_job("words")])
    jobs = LiveJobs(source)
    problems = []

    async def note_problem(_seconds: float) -> None:
        problems.append(jobs.problem)

    monkeypatch.setattr(asyncio, "sleep", note_problem)
    task = asyncio.create_task(jobs.run())
    while not source.watchers:
        await jobs.wait(jobs.version)
    assert problems == ["the connection is lost"]
    assert (jobs.problem, jobs.list_keys()) == ("", [TrainJobName("team-a", "words")])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
