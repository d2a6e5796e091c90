"""The spool of a pod's lines: complete gzip members, bounded, without credentials."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest

from railhead.driver.archive.archive_layout import SEGMENTS
from railhead.driver.archive.spool import MEMBER_BYTES, Spool

LIMIT = 64 * 1024


def make_spool(folder: Path, limit: int = LIMIT) -> Spool:
    return Spool(folder, "r0-w3", limit=limit, clock=lambda: 1_767_225_600.0)


def read(folder: Path, sizes: dict[str, int]) -> list[str]:
    data = b"".join((folder / name).read_bytes()[:size] for name, size in sorted(sizes.items()))
    return gzip.decompress(data).decode().splitlines()


def test_the_lines_of_each_source_have_the_time(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    spool.add("0", "first")
    spool.add("worker", "the pod's own")
    first = spool.write_all()
    spool.add("0", "second")
    both = spool.write_all()
    assert set(both) == {"0/r0-w3-000000.log.gz", "worker/r0-w3-000000.log.gz"}
    del both["worker/r0-w3-000000.log.gz"], first["worker/r0-w3-000000.log.gz"]
    assert read(tmp_path, first) == ["2026-01-01T00:00:00Z first"], "a prefix is complete, also while lines are added"
    assert read(tmp_path, both) == ["2026-01-01T00:00:00Z first", "2026-01-01T00:00:00Z second"]
    assert spool.has("0") and not spool.has("1")


def test_no_line_has_a_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("TLS_KEY", key)
    spool = make_spool(tmp_path)
    for line in ("key wJalrXUtnFEMI", "https://me:pass@host/x", "Authorization: Bearer abcdefghijkl", *key.split("\n")):
        spool.add("0", line)
    text = "\n".join(read(tmp_path, spool.write_all()))
    assert text.count("(hidden)") == 6
    for secret in ("wJalr", "me:pass", "abcdefghijkl", "MIIE"):
        assert secret not in text


def test_a_rank_that_prints_without_end_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    spool, random_ = make_spool(tmp_path), random.Random(1)
    lines = [f"{number} {random_.randbytes(500).hex()}" for number in range(1600)]
    largest = 0
    for line in lines:
        spool.add("0", line)
        largest = max(largest, sum(path.stat().st_size for path in tmp_path.rglob("*.gz")))
    sizes = spool.write_all()
    kept = [line.partition(" ")[2] for line in read(tmp_path, sizes)]
    [gap] = [number for number, line in enumerate(kept) if line not in lines]
    assert (
        "lines are missing here" in "\n".join(read(tmp_path, sizes))
        and "spec.logs.archivePerRank" in read(tmp_path, sizes)[gap]
    )
    assert kept[:gap] == lines[:gap] and kept[gap + 1 :] == lines[gap + 1 - len(kept) :] and gap > 20
    assert largest < LIMIT * 12, "segments of this test are at least one member, which compresses poorly"
    assert len(sizes) == SEGMENTS and sizes == {
        str(path.relative_to(tmp_path)): path.stat().st_size for path in tmp_path.rglob("*.gz")
    }


def test_empty_lines_without_end_are_written_too(tmp_path: Path) -> None:
    """They would take the memory of the pod until the next upload, which may hang."""
    spool = make_spool(tmp_path)
    for _ in range(MEMBER_BYTES // 16):
        spool.add("0", "")
    assert list(tmp_path.rglob("*.gz"))


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = make_spool(tmp_path)
    spool.add("0", "before")
    spool.write_all()

    def refuse(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(gzip, "compress", refuse)
        spool.add("0", "lost")
        before = spool.write_all()
    with open(tmp_path / "0/r0-w3-000000.log.gz", "ab") as file:
        file.write(b"half a member")
    spool.add("0", "after")
    sizes = spool.write_all()
    assert [line[-6:] for line in read(tmp_path, sizes)] == ["before", " after"]
    assert before["0/r0-w3-000000.log.gz"] < sizes["0/r0-w3-000000.log.gz"]
    assert "No space left on device" in spool.problem


def test_the_spool_is_for_its_owner(tmp_path: Path) -> None:
    spool, old = make_spool(tmp_path), os.umask(0)
    try:
        spool.add("0", "line")
        [name] = spool.write_all()
    finally:
        os.umask(old)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "0").stat().st_mode & 0o777 == 0o750
