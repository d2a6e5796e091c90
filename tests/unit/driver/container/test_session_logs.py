"""The ranks' lines in a worker pod's log and in the head's, and the space on the disk that the files give back."""

from __future__ import annotations

import io
import os
import subprocess
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railhead.driver.container import session_logs
from railhead.driver.container.session_logs import TRAIN_LOGS, WORKER_LOGS, free_beginning, keep_small, list_logs
from railhead.driver.head.rank_stream import Ranks, RankStream
from railhead.driver.pod import rank_output
from railhead.driver.pod.rank_output import LINE_LIMIT, LogTail
from railhead.driver.ray.daemons import RankFilter

MIB = 2**20
PREFIX = "(RayTrainWorker pid=7, ip=10.0.0.3)"


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
    monkeypatch.setattr(session_logs, "KEPT_BYTES", MIB)
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

    monkeypatch.setattr(session_logs, "KEPT_BYTES", 10)
    monkeypatch.setattr(session_logs, "free_beginning", refuse)
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


def test_tail_shows_the_ranks_of_this_node_only(tmp_path: Path) -> None:
    logs = tmp_path / "session_2026-01-01" / "logs"
    logs.mkdir(parents=True)
    out, err = io.StringIO(), io.StringIO()
    tail = LogTail(tmp_path, out=out, err=err)
    rank = logs / "worker-a-01-7.out"
    rank.write_text(":job_id:01\n:actor_name:RayTrainWorker\nfirst\n:railhead-mark:begin:2:ab-7:out:\nepoch 0\nepo")
    (logs / "worker-b-01-8.out").write_text(":job_id:01\n:actor_name:SynchronizationActor\nnot shown\n")
    (logs / "worker-a-01-7.err").write_text(":actor_name:RayTrainWorker\nwarning\n")
    (logs / "raylet.out").write_text("not shown\n")
    tail.poll()
    tail.poll()
    assert out.getvalue() == "first\n(rank 2) epoch 0\n"
    with open(rank, "a") as file:
        file.write("ch 1\n:railhead-mark:end:2:ab-7:out:\n")
    tail.poll()
    assert out.getvalue() == "first\n(rank 2) epoch 0\n(rank 2) epoch 1\n"
    assert err.getvalue() == "warning\n"


def test_what_is_kept_has_its_rank_and_the_end_of_a_rank_is_told_once(tmp_path: Path) -> None:
    """After its last lines, also if it was killed; another process that ends is no news."""
    folder, kept, seen = tmp_path / "session_2026-01-01" / "logs", list[tuple[int | None, str]](), list[int]()
    folder.mkdir(parents=True)
    child = subprocess.Popen(["true"])
    child.wait()
    (folder / f"worker-a-01-{child.pid}.out").write_text(
        ":job_id:01\n:actor_name:RayTrainWorker\nearly\n:railhead-mark:begin:3:ab-7:out:\n"
        "bar 1\rbar 2\nlast words\nwithout an end"
    )
    (folder / f"worker-b-01-{child.pid}.out").write_text(":job_id:01\n:actor_name:Other\n")
    (folder / f"worker-c-01-{os.getpid()}.out").write_text(":actor_name:RayTrainWorker\n")
    out = io.StringIO()
    tail = LogTail(tmp_path, out=out, keep=lambda *each: kept.append(each), on_end=lambda: seen.append(len(kept)))
    for _ in range(4):
        tail.poll()
    assert kept == [(None, "early"), (3, "bar 2"), (3, "last words"), (3, "without an end")]
    assert seen == [4]


@pytest.fixture
def rank_file(tmp_path: Path) -> Path:
    logs = tmp_path / "session_2026-01-01" / "logs"
    logs.mkdir(parents=True)
    file = logs / "worker-a-01-7.err"
    file.write_text(":actor_name:RayTrainWorker\n")
    return file


def append(path: Path, text: str) -> None:
    with open(path, "a", newline="") as file:
        file.write(text)


def test_a_day_of_progress_bars_uses_bounded_memory_and_shows_some_states(tmp_path: Path, rank_file: Path) -> None:
    now, err = 0.0, io.StringIO()
    tail = LogTail(tmp_path, err=err, clock=lambda: now)
    tail.poll()
    tracemalloc.start()
    for step in range(24 * 60):  # one turn per minute, ten states per turn
        append(rank_file, "".join(f"\r{step}.{tenth}/1440 [{'=' * 50}]" for tenth in range(10)))
        now += 60.0
        tail.poll()
        rank_file.write_text("")  # no need to keep a day of it
        tail.poll()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    shown = err.getvalue().splitlines()
    assert len(shown) == 24 * 60 and shown[-1].startswith("1439.8/1440")
    assert used - len(err.getvalue()) * 4 < 2_000_000
    append(rank_file, "\r1440/1440\nnext\n")
    tail.poll()
    assert err.getvalue().splitlines()[-2:] == ["1440/1440", "next"], "the last state, as a terminal shows it"


def test_forgets_the_files_of_processes_that_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray Data starts thousands in a run, and their files stay. An idle process may become a rank's later."""
    folder, now, out = tmp_path / "session_2026-01-01" / "logs", 0.0, io.StringIO()
    folder.mkdir(parents=True)
    child = subprocess.Popen(["true"])
    child.wait()
    ended, idle = folder / f"worker-a-01-{child.pid}.out", folder / f"worker-b-01-{os.getpid()}.out"
    rank = folder / f"worker-c-01-{child.pid}.out"
    for path in (ended, idle, rank):
        path.write_text(":job_id:01\n" + (":actor_name:RayTrainWorker\n" if path == rank else ""))
    read: list[Path] = []
    read_new = session_logs.read_new

    def count(path: Path, state: Any) -> bytes:
        read.append(path)
        return read_new(path, state)

    monkeypatch.setattr(rank_output, "read_new", count)
    tail = LogTail(tmp_path, out=out, clock=lambda: now)
    for now in (0.0, 50.0, 100.0, 170.0, 180.0):
        if now == 50.0:
            append(ended, "not shown\n")
        tail.poll()
    assert (read.count(ended), read.count(idle), read.count(rank)) == (4, 5, 5)
    append(idle, ":actor_name:RayTrainWorker\nof a rank\n")
    append(rank, "of a child that outlives its rank\n")
    tail.poll()
    assert out.getvalue().splitlines() == ["of a rank", "of a child that outlives its rank"]


def test_skips_intermediate_states_but_no_lines(tmp_path: Path, rank_file: Path) -> None:
    now, err = 0.0, io.StringIO()
    tail = LogTail(tmp_path, err=err, clock=lambda: now)
    for text in ("first\r\n", "\r1%", "\r2%", "\r3%", "\nsecond\n"):
        append(rank_file, text)
        tail.poll()
    assert err.getvalue().splitlines() == ["first", "1%", "3%", "second"]


def test_shows_an_unterminated_line_in_pieces(tmp_path: Path, rank_file: Path) -> None:
    err = io.StringIO()
    tail = LogTail(tmp_path, err=err)
    append(rank_file, "x" * 1_000_000)
    tail.poll()
    append(rank_file, "y\n")
    tail.poll()
    assert err.getvalue().replace("\n", "") == "x" * 1_000_000 + "y"
    assert max(map(len, err.getvalue().splitlines())) <= LINE_LIMIT


@pytest.mark.parametrize("way", ["renamed", "truncated", "gone"])
def test_reads_a_rotated_file_to_its_end_and_then_the_new_one(tmp_path: Path, rank_file: Path, way: str) -> None:
    err = io.StringIO()
    tail = LogTail(tmp_path, err=err)
    append(rank_file, "one\n")
    tail.poll()
    if way == "renamed":
        append(rank_file, "two\n" * 600_000)  # more than one poll reads
        rank_file.rename(f"{rank_file}.1")
    elif way == "gone":
        rank_file.rename(f"{rank_file}.2")
    rank_file.write_text("3\n")
    while tail.poll():
        pass
    assert err.getvalue() == "one\n" + ("two\n" * 600_000 if way == "renamed" else "") + "3\n"


def test_head_names_ranks_and_hides_marks() -> None:
    shown = io.StringIO()
    ranks = Ranks()
    stream = RankStream(shown, ranks)
    stream.write(f"{PREFIX} before\n{PREFIX} :railhead-mark:begin:4:ab-7:out:\n{PREFIX} epoch")
    stream.write(
        " 1\n(TrainController pid=9) hello\n(TrainController pid=9) SIGTERM handler is not set because\nmine\n"
    )
    assert not ranks.wait_until_ended(["ab-7"], timeout=0)
    stream.write(f"{PREFIX} half:railhead-mark:end:4:ab-7:out:\n")
    stream.write(f"{PREFIX} :railhead-mark:end:4:ab-7:err:\n")
    assert ranks.wait_until_ended(["ab-7"], timeout=0)
    assert not ranks.wait_until_ended(["ab-7", "ab-8"], timeout=0)
    assert shown.getvalue().splitlines() == [
        f"{PREFIX} before",
        "(rank 4) epoch 1",
        "(TrainController pid=9) hello",
        "mine",
        "(rank 4) half",
    ]


@pytest.mark.parametrize(("forward", "wanted"), [("All", ["a", "b"]), ("Rank0", ["a"]), ("None", [])])
def test_the_end_waits_only_for_ranks_whose_lines_come(forward: str, wanted: list[str]) -> None:
    shown = io.StringIO()
    ranks = Ranks(forward)
    stream = RankStream(shown, ranks)
    for rank, process in enumerate(wanted):
        assert not ranks.wait_until_ended(["a", "b"], timeout=0)
        for name in ("out", "err"):
            stream.write(f"{PREFIX} :railhead-mark:end:{rank}:{process}:{name}:\n")
    assert ranks.wait_until_ended(["a", "b"], timeout=0)


def test_only_the_lines_of_rank_0_leave_the_pod() -> None:
    ranks = RankFilter()
    assert ranks.select(7, ["import of torch"]) == []
    assert ranks.select(8, [":railhead-mark:begin:1:ab-8:out:", "of rank 1"]) == []
    begin, end = ":railhead-mark:begin:0:ab-7:out:", ":railhead-mark:end:0:ab-7:out:"
    assert ranks.select(7, ["before", begin, "of rank 0"]) == [begin, "of rank 0"]
    assert ranks.select(7, ["more", end]) == ["more", end]
    assert ranks.select(8, ["more"]) == ranks.select("raylet", ["a word of Ray's"]) == []
    assert ranks.select(7, ["a", ":railhead-mark:begin:3:ab-7:out:", "b"]) == ["a"], "another process with its id"


def test_writes_a_line_of_a_rank_at_once(tmp_path: Path) -> None:
    """A pod's output is a pipe, which Python and Ray leave buffered."""
    file = tmp_path / "head.log"
    with open(file, "w") as shown:
        RankStream(shown, Ranks()).write(f"{PREFIX} epoch 1\n")
        assert file.read_text() == f"{PREFIX} epoch 1\n"


def test_lines_of_two_threads_stay_apart() -> None:
    """print() writes a line and its end one after the other, and Ray prints the ranks' lines in its own thread."""
    shown = io.StringIO()
    stream = RankStream(shown, Ranks())
    stream.write("railhead: state")
    ray = threading.Thread(target=stream.write, args=(f"{PREFIX} epoch 1\n",))
    ray.start()
    ray.join()
    stream.write("\n")
    assert shown.getvalue().splitlines() == [f"{PREFIX} epoch 1", "railhead: state"]


def test_the_head_keeps_what_is_no_ranks() -> None:
    out, kept = io.StringIO(), list[str]()
    stream = RankStream(out, Ranks(), kept.append)
    print("the driver's", file=stream)
    print(f"{PREFIX} a rank's", file=stream)
    assert kept == ["the driver's"] and "a rank's" in out.getvalue()


def test_a_folder_that_vanishes_while_it_is_listed_has_nothing_to_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's session may be cleaned up while its node ends."""

    def vanish_before(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def list_folder(folder: Any) -> Any:
            if Path(folder).name in ("logs", "train"):
                session.rename(tmp_path / f"gone-{len(list(tmp_path.iterdir()))}")
            return look(folder)

        return list_folder

    session = tmp_path / "session_2026"
    monkeypatch.setattr(os, "listdir", vanish_before(os.listdir))
    monkeypatch.setattr(os, "scandir", vanish_before(os.scandir))
    logs = session / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-1.out").write_text(":actor_name:RayTrainWorker\n")
    assert not LogTail(tmp_path, out=io.StringIO()).poll()
    for pattern in (WORKER_LOGS, TRAIN_LOGS):
        (logs / "train").mkdir(parents=True)
        assert list_logs(tmp_path, pattern) == [] and not logs.exists()
