"""The archive of logs: the order of its files, and their text whatever they contain."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from railhead.client.run import archived_logs
from railhead.client.run.archived_logs import choose_files, list_attempts, read_lines
from railhead.client.run.run_files import RunFile

UID = "0a1b2c3d-1111-2222-3333-444444444444"
FILES = [
    RunFile(f".railhead/logs/{name}", 1, 0.0)
    for name in (
        "0a1b2c3d-1/10/r0-w1-000000.log.gz",
        "0a1b2c3d-1/2/r0-w0-000001.log.gz",
        "0a1b2c3d-1/2/r0-w0-000000.log.gz",
        "0a1b2c3d-1/2/r1-w0-000000.log.gz",
        "0a1b2c3d-1/head/head-ffffffff-000000.log.gz",
        "0a1b2c3d-1/2/notes.txt",
        "0a1b2c3d-12/head/head-ffffffff-000000.log.gz",
        "ffffffff-3/head/head-ffffffff-000000.log.gz",
    )
]


def choose(attempt: int, rank: int | None = None, *, is_all: bool = False) -> list[str]:
    found = choose_files(FILES, [UID], attempt, rank=rank, is_all=is_all)
    assert all(f"/{source}/" in file.name for file, source in found.items())
    return [file.name.removeprefix(".railhead/logs/") for file in found]


def test_the_files_of_a_rank_are_in_the_order_of_time() -> None:
    names = [f"0a1b2c3d-1/2/r{round_}-w0-00000{number}.log.gz" for round_, number in [(0, 0), (0, 1), (1, 0)]]
    assert choose(1, 2) == names
    assert choose(1) == ["0a1b2c3d-1/head/head-ffffffff-000000.log.gz"]
    assert choose(3) == []
    assert choose(1, is_all=True) == [*names, "0a1b2c3d-1/10/r0-w1-000000.log.gz", *choose(1)]


def test_only_the_jobs_own_attempts_count() -> None:
    assert list_attempts(FILES, [UID]) == [1, 12]


def test_a_restored_job_has_the_attempts_of_the_one_before() -> None:
    uids = ["99999999-1111-2222-3333-444444444444", UID]
    assert list_attempts(FILES, uids) == [1, 12]
    assert [file.name for file in choose_files(FILES, uids, 12, rank=None, is_all=False)] == [FILES[6].name]


def test_lines_lose_their_times_and_keep_all_else() -> None:
    members = [b"2026-11-25T10:00:00Z one\n2026-11-25T10:00:00Z \xff two\x0bb\n", b"no time\n"]
    assert list(read_lines(b"".join(map(gzip.compress, members)))) == ["one", "\ufffd two\x0bb", "no time"]
    assert list(read_lines(b"")) == []


def test_the_lines_since_a_time_keep_those_that_have_none() -> None:
    data = gzip.compress(b"no time\n2026-11-25T10:00:00Z old\nx\n2026-11-25T10:00:09Z new\ny\n")
    assert list(read_lines(data, "2026-11-25T10:00:05Z")) == ["new", "y"]


def test_what_cannot_be_read_is_said_after_what_can() -> None:
    whole = gzip.compress(b"one\n")
    for data in (whole + b"junk", whole + gzip.compress(b"two\n")[:-9], whole + whole[:12]):
        *lines, last = read_lines(data)
        assert lines[0] == "one" and "cannot be read" in last


def test_a_bomb_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archived_logs, "SEGMENT_BYTES", 1000)
    *lines, last = read_lines(gzip.compress(b"a" * 100_000))
    assert [len(line) for line in lines] == [1000]
    assert "more than" in last


def read_peak(data: bytes) -> int:
    """Returns the most memory that reading the lines takes, in bytes."""
    tracemalloc.start()
    try:
        for _ in read_lines(data):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("line", [b"a" * 1000 + b"\n", b"a" * 1000, b"\xff" * 1000])
def test_a_segment_that_expands_a_thousand_times_is_never_whole_in_memory(line: bytes) -> None:
    data = gzip.compress(line * 16_384)
    assert len(data) < 60_000
    assert read_peak(data) < 15 << 20
    lines = list(read_lines(data))
    assert sum(map(len, lines)) == len((line * 16_384).replace(b"\n", b""))
    assert max(map(len, lines)) <= 3 << 20


def test_a_segment_reads_the_same_in_pieces_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"2026-11-25T10:00:{number % 60:02}Z ä{number}\n" for number in range(3_000))
    data = gzip.compress(text.encode()[:20_000]) + gzip.compress(text.encode()[20_000:])
    whole = list(read_lines(data))
    assert len(whole) == 3_000
    for size in (1, 7, 4096):
        monkeypatch.setattr(archived_logs, "PIECE_BYTES", size)
        assert list(read_lines(data)) == whole
