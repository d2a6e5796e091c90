"""The lines of a job's logs on their way to a viewer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from railhead.client.exit_codes import ClientError
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.ui import log_feed
from railhead.client.ui.log_feed import LogBatch, LogFeed, LogWish
from railhead.client.ui.page_source import TrainJobName
from tests.unit.client.jobs import make_job
from tests.unit.client.run_folder import write_log, write_run
from tests.unit.client.ui.fixed_source import FixedSource

KEY = TrainJobName("team-a", "digits")


class Ending(FixedSource):
    """Its pods have printed all that they will."""

    async def follow_logs(self, key: TrainJobName, wanted: Wanted, printer: Printer) -> None:
        for line in self.lines.get(key, []):
            printer.line(line)
            await printer.drain()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_feed, "TOGETHER_SECONDS", 0.0)


async def read(source: FixedSource, wish: LogWish, *, may_start_reader: bool = False) -> tuple[list[str], LogFeed]:
    lines: list[str] = []

    async def send(batch: LogBatch) -> None:
        assert batch.first == len(lines)
        assert len(batch.lines) <= log_feed.MOST_WAITING
        lines.extend(batch.lines)

    feed = LogFeed(source, KEY, wish, send)
    await feed.run(make_job(phase="Failed", attempt=1), may_start_reader=may_start_reader)
    return lines, feed


async def test_all_lines_come_in_order_a_bounded_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_feed, "MOST_WAITING", 7)
    source = Ending()
    source.lines[KEY] = [f"line {n}" for n in range(100)]
    lines, _ = await read(source, LogWish())
    assert lines == source.lines[KEY]


async def test_orders_to_a_terminal_and_colours_are_left_out() -> None:
    source = Ending()
    source.lines[KEY] = [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;owned\x07title",
        "a\u202eb\x00",
        "x" * 9000,
        "\x1b",
        "\x1b]52;c;",
    ]
    lines, _ = await read(source, LogWish())
    assert lines[:3] == ["red", "title", "a\ufffdb\ufffd"]
    assert len(lines[3]) == log_feed.MOST_CHARACTERS
    assert "\x1b" not in "".join(lines)


async def test_a_job_whose_pods_are_gone_points_to_the_archive() -> None:
    lines, feed = await read(Ending(), LogWish())
    assert lines == []
    assert "choose an attempt of the archive" in feed.remark


async def test_an_archived_attempt_is_read_its_newest_lines_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_feed, "MOST_LINES", 2)
    write_run(tmp_path)
    write_log(tmp_path, "uiddigit-1/head/r0-head-000000.log.gz", "one\ntwo\nthree\n")
    source = FixedSource()
    source.folders[KEY] = tmp_path
    lines, feed = await read(source, LogWish(attempt=1))
    assert lines == ["two", "three"]
    assert "the last 2 of 3 lines" in feed.remark
    assert (await read(source, LogWish(rank=1, attempt=1)))[0][0] == "one of 1"
    assert "it has attempts: 1" in (await read(source, LogWish(attempt=7)))[1].remark


async def test_the_archive_of_a_claim_asks_for_a_readers_pod(tmp_path: Path) -> None:
    write_run(tmp_path)
    source = FixedSource()
    source.readers[KEY] = tmp_path
    _, feed = await read(source, LogWish(rank=0, attempt=1))
    assert (feed.needs_reader, source.readers_started) == (True, 0)
    lines, feed = await read(source, LogWish(rank=0, attempt=1), may_start_reader=True)
    assert (lines[0], feed.needs_reader, source.readers_started) == ("one of 0", False, 1)


async def test_an_error_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ClientError("you may not read logs")

    source = FixedSource()
    monkeypatch.setattr(source, "follow_logs", fail)
    assert (await read(source, LogWish()))[1].remark == "you may not read logs"


async def test_a_viewer_who_leaves_ends_the_reading() -> None:
    async def send(batch: LogBatch) -> None:
        pass

    feed = LogFeed(FixedSource(), KEY, LogWish(), send)
    task = asyncio.create_task(feed.run(make_job()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert feed.is_over
