"""The beginning of a file that is still written is freed on the disk; nothing that is read or appended changes."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from railhead.driver.logs import free_space
from railhead.driver.logs.free_space import TRAIN_LOGS, WORKER_LOGS, free_beginning, keep_small
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
    monkeypatch.setattr(free_space, "KEPT_BYTES", MIB)
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

    monkeypatch.setattr(free_space, "KEPT_BYTES", 10)
    monkeypatch.setattr(free_space, "free_beginning", refuse)
    folder = tmp_path / "session_2026" / "logs"
    folder.mkdir(parents=True)
    (folder / "worker-1.out").write_text(":actor_name:RayTrainWorker\n" + "line\n" * 50)
    shown = io.StringIO()
    assert LogTail(tmp_path, out=shown).poll()
    assert shown.getvalue() == "line\n" * 50


@pytest.mark.parametrize("patterns", [(TRAIN_LOGS,), (TRAIN_LOGS, WORKER_LOGS)])
def test_logs_that_nothing_rotates_stay_small_on_the_disk(tmp_path: Path, patterns: tuple[str, ...]) -> None:
    """Ray Train's own in each pod; in the head pod, where no LogTail reads them, those of Ray's processes too."""
    path = (
        tmp_path
        / "session_2026"
        / "logs"
        / ("train/ray-train-app-worker-1.log" if len(patterns) < 2 else "worker-1.out")
    )
    path.parent.mkdir(parents=True)
    (path.parent / "vanished").symlink_to(tmp_path / "vanished")
    sizes: list[int] = []

    def sleep(seconds: float) -> None:
        sizes.append(disk_bytes(path))
        if len(sizes) == 2:
            raise StopIteration
        with open(path, "ab") as writer:
            os.posix_fallocate(writer.fileno(), path.stat().st_size, 200 * MIB)

    path.write_text("begin\n")
    with pytest.raises(StopIteration):
        keep_small(tmp_path, *patterns, sleep=sleep)
    assert path.stat().st_size == 200 * MIB + 6
    assert sizes[0] < MIB and 63 * MIB < sizes[1] < 66 * MIB
