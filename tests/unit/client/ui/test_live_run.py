"""The contents of a run, for all who look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from railhead.client.run.run_files import RunFile, read_files
from railhead.client.ui import live_run
from railhead.client.ui.live_job import LiveJob
from railhead.client.ui.live_jobs import LiveJobs
from railhead.client.ui.live_run import KeptFiles, LiveRun
from railhead.client.ui.page_context import build_context
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.shared import Shared
from railhead.contract.snapshot import COPY, SNAPSHOT
from tests.unit.client.jobs import make_job, make_running
from tests.unit.client.run_folder import write_run, write_segment
from tests.unit.client.ui.fixed_source import FixedSource, FolderFiles

KEY = TrainJobName("team-a", "digits")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(live_run, "PAUSES_PER_READING", 0)


@pytest.fixture
def source(tmp_path: Path) -> FixedSource:
    write_run(tmp_path)
    source = FixedSource([make_running()])
    source.folders[KEY] = tmp_path
    return source


@pytest.fixture
async def runs(source: FixedSource) -> AsyncIterator[Shared[LiveRun]]:
    site = build_context(source)
    task = asyncio.create_task(site.jobs.run())
    yield site.runs
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def read(run: LiveRun, since: int = 0) -> None:
    """Waits until a reading has ended that began after this version: it tells its begin and its end."""
    while run.version < since + 2 or run.is_reading:
        await run.wait(run.version)


async def test_a_run_is_read_once_for_all_viewers(runs: Shared[LiveRun]) -> None:
    run = runs.acquire(KEY)
    assert runs.acquire(KEY) is run
    await read(run)
    assert run.contents is not None
    assert {curve.metric for curve in run.contents.curves} >= {"loss"}
    assert [row.name for row in run.contents.checkpoints] == ["checkpoint_1", "checkpoint_2"]
    assert [record["event"] for record in run.contents.journal] == ["checkpoint"]
    runs.release(KEY)
    runs.release(KEY)
    assert len(runs) == 0


async def test_it_is_read_again_when_the_job_goes_on(
    runs: Shared[LiveRun], source: FixedSource, tmp_path: Path
) -> None:
    run = runs.acquire(KEY)
    await read(run)
    version = run.version
    write_segment(tmp_path, "metrics", {"report": 1, "step": 1, "metrics": {"new": 1}})
    source.put(make_running(progress={"percentComplete": 9}))
    await read(run, version)
    assert run.contents is not None
    assert [curve.metric for curve in run.contents.curves] == ["new"]
    runs.release(KEY)


async def test_no_readers_pod_is_started_without_being_asked(tmp_path: Path, source: FixedSource) -> None:
    source.readers[KEY] = source.folders.pop(KEY)
    site = build_context(source)
    run = site.runs.acquire(KEY)
    await read(run)
    assert (run.needs_reader, source.readers_started, run.contents) == (True, 0, None)
    version = run.version
    run.allow_reader()
    await read(run, version)
    assert (run.needs_reader, source.readers_started, run.problem) == (False, 1, "")
    assert run.contents is not None
    site.runs.release(KEY)


async def test_a_problem_is_told_and_what_was_known_stays(runs: Shared[LiveRun], source: FixedSource) -> None:
    run = runs.acquire(KEY)
    await read(run)
    version = run.version
    source.folders[KEY] = Path("/nonexistent/run")
    source.put(make_running(progress={"percentComplete": 9}))
    await read(run, version)
    assert "cannot read /nonexistent/run" in run.problem
    assert run.contents is not None
    runs.release(KEY)


async def test_a_job_without_an_attempt_is_not_read(source: FixedSource) -> None:
    source.jobs[KEY] = make_job(phase="Queued")
    jobs = LiveJobs(source)
    shared = Shared(lambda key: LiveJob(source, jobs, key))
    run = LiveRun(source, shared, KEY)
    task = asyncio.create_task(run.run())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert (run.version, source.reads) == (0, [KEY])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(shared) == 0


async def test_a_file_that_has_not_changed_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    inner = FolderFiles(tmp_path)
    kept: dict[RunFile, bytes] = {}
    files = KeptFiles(inner, kept)
    found = await files.find(["a", "b"])
    assert await read_files(files, found) == {"a": b"one", "b": b"two"}
    (tmp_path / "a").write_bytes(b"changed")
    (tmp_path / "b").write_bytes(b"TWO")
    stale = [(await files.find(["a"]))[0], found[1]]
    assert await read_files(files, stale) == {"a": b"changed", "b": b"two"}
    assert len(kept) == 2
    monkeypatch.setattr(live_run, "KEPT_BYTES", 3)
    assert await read_files(KeptFiles(inner, {}), await files.find(["a", "b"])) == {"a": b"changed", "b": b"TWO"}


async def test_checkpoints_that_cannot_be_read_cost_no_curves(
    runs: Shared[LiveRun], source: FixedSource, tmp_path: Path
) -> None:
    run = runs.acquire(KEY)
    await read(run)
    version = run.version
    (tmp_path / SNAPSHOT).write_text('{"checkpoint_results": [{"checkp')
    (tmp_path / COPY).unlink(missing_ok=True)
    write_segment(tmp_path, "metrics", {"report": 1, "step": 1, "metrics": {"new": 1}})
    source.put(make_running(progress={"percentComplete": 9}))
    await read(run, version)
    assert run.problem == "" and run.contents is not None
    assert [curve.metric for curve in run.contents.curves] == ["new"]
    assert [row.name for row in run.contents.checkpoints] == ["checkpoint_1", "checkpoint_2"]
    assert any(f"{SNAPSHOT} in " in gap for gap in run.contents.gaps)
    runs.release(KEY)
