"""The beginning of a file that is still written is freed on the disk; nothing that is read or appended changes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from railhead.driver.logs import log_tail
from railhead.driver.logs.free_space import free_beginning
from railhead.driver.logs.log_tail import LogTail

MIB = 2**20


def disk_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_the_beginning_is_freed_and_the_offsets_stay(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open(path, "ab") as writer:
        writer.write(b"x" * 8 * MIB)
        writer.flush()
        assert free_beginning(path, 6 * MIB)
        writer.write(b"end\n")
    assert path.stat().st_size == 8 * MIB + 4
    assert disk_bytes(path) < 3 * MIB
    assert path.read_bytes()[6 * MIB :] == b"x" * 2 * MIB + b"end\n"


def test_the_log_of_a_long_run_stays_small_on_the_disk_and_is_shown_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "KEPT_BYTES", MIB)
    folder = tmp_path / "session_2026" / "logs"
    folder.mkdir(parents=True)
    path, shown = folder / "worker-1.out", io.StringIO()
    tail = LogTail(tmp_path, out=shown)
    path.write_text(":actor_name:RayTrainWorker\n")
    largest = 0
    for number in range(40):
        with open(path, "a") as writer:
            writer.writelines(f"{number:6} {line:6} {'.' * 85}\n" for line in range(5000))
        while tail.poll():
            largest = max(largest, disk_bytes(path))
    lines = shown.getvalue().splitlines()
    assert [line.split()[:2] for line in lines] == [[str(n), str(i)] for n in range(40) for i in range(5000)]
    assert path.stat().st_size > 19 * MIB
    assert largest < 4 * MIB


def test_a_file_system_that_cannot_free_costs_nothing_but_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, length: int) -> bool:
        raise OSError("not supported")

    monkeypatch.setattr(log_tail, "KEPT_BYTES", 10)
    monkeypatch.setattr(log_tail, "free_beginning", refuse)
    folder = tmp_path / "session_2026" / "logs"
    folder.mkdir(parents=True)
    (folder / "worker-1.out").write_text(":actor_name:RayTrainWorker\n" + "line\n" * 50)
    shown = io.StringIO()
    assert LogTail(tmp_path, out=shown).poll()
    assert shown.getvalue() == "line\n" * 50
