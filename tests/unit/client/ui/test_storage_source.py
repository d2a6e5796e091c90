"""The runs of a storage as jobs of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from railhead.client.cluster.job_rows import JobNumbers
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_storage import open_path
from railhead.client.ui.page_context import build_context
from railhead.client.ui.page_source import TrainJobName
from railhead.client.ui.storage_source import NAMESPACE, StorageSource
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import RecordedAttempt, RunRecord
from railhead.contract.times import format_time


async def wait_for(what: str, holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come")


def write_record(name: str) -> bytes:
    now = format_time(datetime.now(UTC))
    attempt = RecordedAttempt("uid", 1, "pod", now, now)
    return RunRecord("team-a", name, "uid", f"s3://b/{name}/later", attempts=(attempt,)).to_json()


@dataclass
class Storage:
    """A storage in memory. `reads`: how often its list was read."""

    files: dict[str, bytes] = field(default_factory=dict)
    reads: int = 0
    place = "s3://b"

    def list_folders(self) -> list[str]:
        self.reads += 1
        return [name.partition("/")[0] for name in self.files]

    def read(self, name: str, most: int) -> bytes | None:
        return self.files.get(name, b"")[:most] or None

    def open_folder(self, name: str) -> RunFiles:
        return open_path(f"/runs/{name}")


class Clock:
    """Sleeps until a test turns it."""

    def __init__(self) -> None:
        self.turn = asyncio.Event()

    async def sleep(self, _seconds: float) -> None:
        self.turn.clear()
        await self.turn.wait()


async def test_runs_that_come_and_go_are_told() -> None:
    storage = Storage({f"one/{RECORD}": write_record("one")})
    clock = Clock()
    source = StorageSource(storage, clock.sleep)
    known: dict[str, JobNumbers] = {}
    lists = 0

    def note(old: JobNumbers | None, new: JobNumbers | None) -> None:
        if new is None:
            assert old is not None
            del known[old.row.name]
        else:
            known[new.row.name] = new

    def count() -> None:
        nonlocal lists
        lists += 1

    watching = asyncio.create_task(source.watch_jobs(note, count))
    await wait_for("the first list", lambda: lists == 1)
    assert {name: each.row.phase for name, each in known.items()} == {"one": "Running"}
    storage.files = {f"two/{RECORD}": write_record("two")}
    clock.turn.set()
    await wait_for("the second list", lambda: lists == 2)
    assert list(known) == ["two"]
    assert [row.job for row in source.list_rows()] == ["two"]
    watching.cancel()


async def test_a_storage_is_read_only_while_somebody_looks() -> None:
    storage = Storage({f"one/{RECORD}": write_record("one")})
    site = build_context(StorageSource(storage), [StorageSource(storage, Clock().sleep)])
    [past] = site.storages
    assert storage.reads == 0
    past.acquire()
    past.acquire()
    await wait_for("the list", lambda: past.site.jobs.is_listed)
    past.release()
    past.release()
    past.acquire()
    await wait_for("a list for the next viewer", lambda: storage.reads == 2)
    past.release()


async def test_a_run_has_its_own_folder_and_that_of_its_newest_fit() -> None:
    source = StorageSource(Storage({f"one/{RECORD}": write_record("one")}))
    snapshot = await source.read_snapshot(TrainJobName(NAMESPACE, "one"))
    places: Mapping[bool, str] = {True: "/runs/one", False: "/runs/one/later"}
    for is_own, place in places.items():
        async with source.open_files(snapshot.job, is_own=is_own, may_start_reader=False, say=print) as files:
            assert files.place == place


@pytest.mark.parametrize("name", ["none", "../etc", "a\\b"])
async def test_what_is_no_run_is_not_found(name: str) -> None:
    with pytest.raises(ClientError) as raised:
        await StorageSource(Storage()).read_snapshot(TrainJobName(NAMESPACE, name))
    assert raised.value.code == ExitCode.NOT_FOUND
