"""Segments: when one is closed, what a storage that fails costs, and how a run's oldest reports thin out; the end of an
attempt's history, which the driver writes when Ray's processes are gone."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from railhead.contract.history_format import JOURNAL, METRICS, Header, parse_segment, write_line
from railhead.contract.outcome import Outcome
from railhead.driver.head.end_attempt import complete_history
from railhead.driver.messages.attempt_errors import Fenced, JobRefused
from railhead.driver.storage import history_segments
from railhead.driver.storage.claims import Claimant, take_run
from railhead.driver.storage.history_segments import Segments, choose_dense, choose_spool, halve, thin_out
from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder, open_own_folder
from railhead.history import History, read_history
from tests.waiting import wait_until

JOB = "1c6f0c8e-0000"
UID = "0A1B2C3D-4e5f-0000-0000-000000000000"


@pytest.fixture
def folder(tmp_path: Path) -> PrivateFolder:
    (tmp_path / "r").mkdir()
    return PrivateFolder(RunFolder(LocalFileSystem(), str(tmp_path / "r")), METRICS, lambda: None)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path / "spool", METRICS, job=JOB, attempt=1, pod=UID)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment is closed after 3 records."""
    monkeypatch.setattr(
        history_segments, "SEGMENT_BYTES", len(Header(METRICS, JOB).to_line()) + 3 * len(write_line(record(1)))
    )


def record(number: int) -> dict[str, Any]:
    return {"time": "2026-01-01T00:00:00.000Z", "attempt": 1, "n": f"{number:04d}"}


def read(folder: PrivateFolder) -> History:
    return read_history({name: folder.read(name) or b"" for name in folder.list_sizes()})


def numbers(history: History) -> list[int]:
    return [int(each["n"]) for each in history.records]


@pytest.mark.usefixtures("small")
def test_a_full_segment_is_closed_and_the_pod_forgets_it_once_the_storage_has_it(
    segments: Segments, folder: PrivateFolder, tmp_path: Path
) -> None:
    for number in range(8):
        segments.append(record(number))
        if number in (1, 4):
            segments.upload(folder)
    segments.upload(folder)
    assert list(folder.list_sizes()) and numbers(read(folder)) == list(range(8))
    assert sorted(folder.list_sizes()) == [f"1-0a1b2c3d-{number}.jsonl" for number in (1, 2, 3)]
    assert [file.name for file in (tmp_path / "spool/metrics").iterdir()] == ["1-0a1b2c3d-3.jsonl"]


def test_nothing_is_written_without_news(segments: Segments, folder: PrivateFolder) -> None:
    written: list[str] = []

    class Counting(PrivateFolder):
        def write(self, name: str, data: bytes) -> None:
            written.append(name)
            super().write(name, data)

    counting = Counting(folder.run, folder.name, folder.check)
    segments.upload(counting)
    assert written == []
    segments.append(record(1))
    for _ in range(3):
        segments.upload(counting)
    segments.append(record(2))
    segments.upload(counting)
    assert written == ["1-0a1b2c3d-1.jsonl"] * 2


@pytest.mark.usefixtures("small")
def test_what_a_process_has_left_in_the_pod_the_next_one_continues(
    segments: Segments, folder: PrivateFolder, tmp_path: Path
) -> None:
    """As the driver does when Ray Train's controller is gone. A number that is used twice overwrites a segment."""
    for number in range(6):
        segments.append(record(number))
    segments.upload(folder)
    successor = Segments(tmp_path / "spool", METRICS, job=JOB, attempt=1, pod=UID)
    successor.append(record(6))
    successor.upload(folder)
    assert numbers(read(folder)) == list(range(7))


@pytest.mark.usefixtures("small")
def test_a_storage_that_takes_nothing_costs_the_oldest_records_which_are_counted(
    segments: Segments, folder: PrivateFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(3 * 9 + 2):
        segments.append(record(number))
    segments.upload(folder)
    history = read(folder)
    assert numbers(history) == list(range(15, 29))
    assert history.dropped == 3 * 5
    assert capfd.readouterr().out.count("are lost, and counted") == 1


def test_a_pod_without_space_loses_records_and_raises_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spool").write_text("not a folder")
    found = Segments(tmp_path / "spool", METRICS, job=JOB, attempt=1, pod="")
    for number in range(3):
        found.append(record(number))
    assert capfd.readouterr().out.count("are lost, and counted (NotADirectoryError") == 1


def test_a_line_that_is_being_written_waits_for_the_next_upload(
    segments: Segments, folder: PrivateFolder, tmp_path: Path
) -> None:
    segments.append(record(1))
    file = tmp_path / "spool/metrics/1-0a1b2c3d-1.jsonl"
    file.write_bytes(file.read_bytes() + write_line(record(2))[:20])
    segments.upload(folder)
    assert (numbers(read(folder)), read(folder).skipped) == ([1], 0)


@pytest.mark.usefixtures("small")
def test_an_upload_that_fails_is_repeated_as_a_whole(segments: Segments, folder: PrivateFolder) -> None:
    for number in range(7):
        segments.append(record(number))

    def fail() -> None:
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        segments.upload(PrivateFolder(folder.run, METRICS, fail))
    segments.upload(folder)
    assert numbers(read(folder)) == list(range(7))


def test_a_run_whose_folder_is_away_is_an_error(segments: Segments, folder: PrivateFolder) -> None:
    """As below a mount that was lost: the head's log reports it."""
    segments.append(record(1))
    Path(folder.run.path).rmdir()
    with pytest.raises(FileNotFoundError):
        segments.upload(folder)


def test_the_segments_of_two_runs_of_a_script_have_folders_of_their_own(tmp_path: Path) -> None:
    spools = {
        choose_spool(tmp_path),
        choose_spool(tmp_path, fit=1, is_own=False),
        choose_spool(tmp_path, fit=2, is_own=False),
    }
    assert len(spools) == 3


def make(count: int, *, every: int = 1) -> bytes:
    return b"".join([Header(METRICS, JOB, every=every).to_line(), *(write_line(record(each)) for each in range(count))])


def test_half_a_segment_has_every_second_record() -> None:
    data = halve(make(5, every=2) + b'{"torn')
    assert data is not None
    segment = parse_segment(data)
    assert segment.header == Header(METRICS, JOB, every=4)
    assert [int(each["n"]) for each in segment.records] == [0, 2, 4] and segment.skipped == 0
    assert halve(b"something else\n" * 9) is None


def test_the_oldest_of_the_densest_is_halved_first() -> None:
    full = {f"{attempt}-a-{number}.jsonl": 4 << 20 for attempt, number in itertools.product((1, 2, 10), (1, 2))}
    order = []
    for _ in range(9):
        name = choose_dense(full)
        assert name
        order.append(name.removesuffix(".jsonl"))
        full[name] //= 2
    assert order == ["1-a-1", "1-a-2", "2-a-1", "2-a-2", "10-a-1", "10-a-2", "1-a-1", "1-a-2", "2-a-1"]


def test_a_run_stays_within_its_bytes_and_keeps_its_newest_segment(folder: PrivateFolder) -> None:
    for number in range(1, 9):
        folder.write(f"1-a-{number}.jsonl", make(64))
    folder.write("1-a-notes.txt", b"x" * 100_000)  # not ours
    (Path(folder.run.path) / ".railhead/metrics/1-b-1.jsonl").touch()
    os.truncate(Path(folder.run.path) / ".railhead/metrics/1-b-1.jsonl", 1 << 40)  # planted; no memory holds it
    most = 3 * len(make(64))
    thin_out(folder, most=most, spare={"1-a-8.jsonl"})
    sizes = {name: size for name, size in folder.list_sizes().items() if name.startswith("1-a-") and size < 100_000}
    assert sum(size for name, size in sizes.items() if name != "1-a-8.jsonl") <= most
    assert sizes["1-a-8.jsonl"] == len(make(64))
    kept = {name: parse_segment(folder.read(name) or b"").header for name in sizes}
    assert {header.every for name, header in kept.items() if header and name != "1-a-8.jsonl"} <= {2, 4}


def test_a_segment_that_cannot_be_halved_stays(folder: PrivateFolder) -> None:
    folder.write("1-a-1.jsonl", make(1))
    folder.write("1-a-2.jsonl", b"something else")
    thin_out(folder, most=10, spare=set())
    assert folder.read("1-a-1.jsonl") == make(1) and folder.read("1-a-2.jsonl") == b"something else"


@given(st.dictionaries(st.integers(1, 99).map(lambda n: f"1-a-{n}.jsonl"), st.integers(0, 1 << 23), min_size=1))
def test_the_choice_is_one_of_the_largest_by_halvings(sizes: dict[str, int]) -> None:
    name = choose_dense(sizes)
    assert name in sizes and all(size < 2 * max(sizes[name], 1) for size in sizes.values())


def test_closed_segments_start_the_thinning(
    segments: Segments, folder: PrivateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a run of any length has its whole curve, with the oldest reports less dense."""
    monkeypatch.setattr(history_segments, "SEGMENT_BYTES", 4096)
    monkeypatch.setattr(history_segments, "RUN_BYTES", 6 * 4096)
    for number in range(1000):
        segments.append(record(number))
        if number % 20 == 19:
            segments.upload(folder)
    history = read(folder)
    found = numbers(history)
    assert sum(folder.list_sizes().values()) <= 7 * 4096
    assert history.every == 4 and found[:3] == [0, 4, 8] and found[-3:] == [997, 998, 999]
    gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
    assert gaps[:10] == [4] * 10 and gaps[-10:] == [1] * 10 and max(gaps) == 4, "the older, the less dense"


WRITER = """
import sys
from pathlib import Path
from pyarrow.fs import LocalFileSystem

from railhead.driver.storage.run_folder_files import PrivateFolder, RunFolder
from railhead.contract.outcome import Outcome
from railhead.driver.messages.attempt_errors import Fenced, JobRefused
from railhead.driver.storage import history_segments as module

module.UPLOAD_SECONDS = 0.05
segments = module.Segments(Path(sys.argv[1]), "metrics", job="j", attempt=1, pod="a")
folder = PrivateFolder(RunFolder(LocalFileSystem(), sys.argv[2]), "metrics", lambda: None)
module.Uploader(lambda: segments.upload(folder))
number = 0
while True:
    segments.append({"time": "t", "attempt": 1, "n": number})
    number += 1
"""


@pytest.fixture
def start() -> Any:
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", WRITER, *command], env={**os.environ, "RAY_USAGE": ""}))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def test_sigkill_loses_only_what_came_after_the_last_upload(
    folder: PrivateFolder, tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """It may hit any instruction of the writer, which appends as fast as it can, at each of these moments."""
    for moment in range(2):
        process = start(str(tmp_path / f"spool-{moment}"), folder.run.path)
        before = len(read(folder).records)
        wait_until("records", lambda: len(read(folder).records) > before + 100, seconds=60)  # noqa: B023
        at_kill = read(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
        history = read(folder)
        assert history.skipped == 0, "a segment is replaced as a whole"
        assert [each["n"] for each in history.records] == list(range(len(history.records)))
        assert len(history.records) >= len(at_kill.records)
        for name in folder.list_sizes():
            (Path(folder.run.path) / ".railhead/metrics" / name).unlink()


OUTCOME = Outcome("Preemption", "Terminated", "the head received SIGTERM")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return open_own_folder(str(tmp_path / "runs"), "r")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """What the controller has left in the pod: one report."""
    spool = choose_spool(tmp_path / "temp")
    Segments(spool, METRICS, job=JOB, attempt=2, pod=UID).append({"time": "t", "attempt": 2, "report": 1})
    return spool


def test_the_storage_gets_what_the_controller_left_and_the_attempts_end(run: RunFolder, spool: Path) -> None:
    complete_history(run, take_run(run, Claimant(JOB), attempt=2, pod=UID), spool, OUTCOME)
    own = Path(run.path, ".railhead")
    reports, events = (
        read_history({file.name: file.read_bytes() for file in (own / kind).iterdir()}).records
        for kind in (METRICS, JOURNAL)
    )
    assert [each["report"] for each in reports] == [1]
    assert [(each["event"], each["outcome"], each["attempt"]) for each in events] == [("end", "Preemption", 2)]


def test_a_head_that_has_lost_the_run_writes_nothing(run: RunFolder, spool: Path) -> None:
    claim = take_run(run, Claimant(JOB), attempt=2, pod=UID)
    take_run(run, Claimant(JOB), attempt=3, pod="successor")
    with pytest.raises(Fenced):
        complete_history(run, claim, spool, OUTCOME)
    take_run(run, Claimant("another-job", is_sharing=True), attempt=1, pod="p")
    with pytest.raises((Fenced, JobRefused)):
        complete_history(run, claim, spool, OUTCOME)
    assert not Path(run.path, ".railhead", METRICS).exists()
