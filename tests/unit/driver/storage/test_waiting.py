"""A storage that is full, stale or away when an attempt begins: the attempt waits, and reports it.

The scenario spans `call`, which waits, and `acquire_run`, which asks, so its tests stay together.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from railhead.contract import environment as e
from railhead.contract.report import RunWarning
from railhead.contract.trackers import name_tracked_run
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.acquire_run import acquire_run, check_resume_from
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.storage import storage_call
from railhead.driver.storage.claims import FENCE, Claim
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.storage.storage_call import Patience, call_storage
from railhead.driver.storage.write_check import prepare_storage
from tests.full_disk import mount_full_disk
from tests.ray.pods import make_job
from tests.waiting import wait_until

FULL = OSError(errno.ENOSPC, "No space left on device")


class Warned:
    """The warning that is shown."""

    def __init__(self) -> None:
        self.now: RunWarning | None = None

    def __call__(self, warning: RunWarning | None) -> None:
        self.now = warning


@pytest.fixture
def warned() -> Warned:
    return Warned()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch, warned: Warned) -> list[tuple[float, RunWarning | None]]:
    """Each pause, and the warning that was reported meanwhile; none of them takes any time."""
    found: list[tuple[float, RunWarning | None]] = []

    class Quick(Patience):
        def __init__(self, tell: Callable[[Exception], None], **options: Any) -> None:
            super().__init__(tell, sleep=lambda seconds: found.append((seconds, warned.now)), **options)

    monkeypatch.setattr(storage_call, "Patience", Quick)
    return found


def fail(errors: list[Exception], then: str = "done") -> Callable[..., str]:
    def ask(*_: object) -> str:
        if errors:
            raise errors.pop(0)
        return then

    return ask


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.ESTALE, "Stale file handle"),
        OSError(errno.EIO, "Input/output error"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        OSError("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 28, Timeout was reached"),
    ],
    ids=str,
)
def test_an_attempt_waits_and_reports_why(
    warned: Warned, pauses: list[tuple[float, RunWarning | None]], error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_storage("/runs", fail([error] * 12), warn=warned) == "done"
    assert [pause for pause, _ in pauses] == [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    for _, warning in pauses:
        assert warning is not None and warning.reason == "StorageUnreachable"
        assert warning.message.startswith("run.storagePath /runs can")
        assert warning.message.endswith("; the attempt waits for it, and training begins afterwards")
        assert str(error.args[-1]) in warning.message
    assert "the attempt waits for it" in capsys.readouterr().out
    assert warned.now is None, "it is over"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EROFS])
def test_what_no_waiting_can_fix_ends_the_job_at_once(
    warned: Warned, pauses: list[tuple[float, RunWarning | None]], code: int
) -> None:
    with pytest.raises(JobRefused):
        call_storage("/runs", fail([OSError(code, "no")]), warn=warned)
    with pytest.raises(JobRefused):
        call_storage("s3://b/x", fail([OSError("AWS Error ACCESS_DENIED during PutObject")]), warn=warned)
    assert not pauses
    assert warned.now is None


def test_an_attempt_waits_for_the_folder_of_storage_that_the_job_has_used(
    warned: Warned, pauses: list[tuple[float, RunWarning | None]]
) -> None:
    assert call_storage("/runs", fail([OSError(errno.ENOENT, "gone")]), is_known=True, warn=warned) == "done"
    assert len(pauses) == 1


def test_a_warning_of_something_else_stays(warned: Warned, pauses: list[tuple[float, RunWarning | None]]) -> None:
    other = warned.now = RunWarning("AcceleratorNotThere", "no GPU")
    call_storage("/runs", fail([]), warn=warned)
    assert warned.now == other


def test_a_call_that_hangs_is_not_made_a_second_time(
    warned: Warned, pauses: list[tuple[float, RunWarning | None]]
) -> None:
    """It may still write when the storage is back, while the attempt already trains."""
    calls: list[int] = []

    def hang() -> str:
        calls.append(1)
        deadline = time.monotonic() + 10
        while len(pauses) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        return "done"

    assert call_storage("/runs", hang, timeout=0.05, warn=warned) == "done"
    assert calls == [1]
    warning = pauses[0][1]
    assert warning is not None and "cannot be reached: no response within" in warning.message


def test_an_attempt_begins_once_a_full_disk_has_room(tmp_path: Path, warned: Warned) -> None:
    found: list[str] = []
    with mount_full_disk(tmp_path / "full") as disk:
        folder = str(disk.path)
        ask = threading.Thread(target=lambda: found.append(prepare_storage(folder, run_name="r", warn=warned)))
        ask.start()
        wait_until("the attempt reports that it waits", lambda: warned.now, seconds=10)
        warning = warned.now
        assert warning is not None and "No space left on device" in warning.message
        assert ask.is_alive() and not found
        disk.make_room()
        ask.join(10)
    assert found == [f"{folder}/r"]
    assert warned.now is None


def test_a_run_is_acquired_once_the_storage_takes_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[tuple[float, RunWarning | None]]
) -> None:
    """A full disk takes the claim, an empty file, but not the fence."""
    write, errors = RunFolder.write, [FULL, FULL]

    def write_when_possible(self: RunFolder, name: str, data: bytes) -> None:
        if name == FENCE and errors:
            raise errors.pop()
        write(self, name, data)

    monkeypatch.setattr(RunFolder, "write", write_when_possible)
    monkeypatch.setenv("RAILHEAD_RUN", "")
    job = make_job(storage_path=str(tmp_path))
    config = SimpleNamespace(storage_path=str(tmp_path), storage_filesystem=LocalFileSystem(), name=job.run_name)
    run = acquire_run(config, RunContext(f"{tmp_path}/{job.run_name}"), pod=make_pod(tmp_path), job=job, warn=print)
    assert Claim.parse(run.claim) == Claim(1, job.uid, 1, "the-pod")
    assert run.run_id == name_tracked_run(job.run_name, job.uid)
    assert len(pauses) == 2 and not errors


def test_an_attempt_waits_for_the_checkpoint_that_it_begins_from(
    monkeypatch: pytest.MonkeyPatch, warned: Warned, pauses: list[tuple[float, RunWarning | None]]
) -> None:
    monkeypatch.setattr(RunFolder, "list_names", fail([OSError(errno.ESTALE, "Stale file handle")], then="a file"))
    check_resume_from("/runs/other/c1", warn=warned)
    assert len(pauses) == 1 and pauses[0][1] is not None
    assert pauses[0][1].message.startswith("spec.resumeFrom /runs/other/c1")


def test_the_check_before_training_waits(
    monkeypatch: pytest.MonkeyPatch, warned: Warned, pauses: list[tuple[float, RunWarning | None]]
) -> None:
    monkeypatch.setattr("railhead.driver.storage.write_check._check_path", fail([FULL]))
    assert prepare_storage("/runs", run_name="r", warn=warned) == "/runs/r"
    assert len(pauses) == 1


def make_pod(folder: Path) -> Pod:
    return Pod.from_environment(
        {
            e.INPUT: str(folder),
            e.BUNDLE: "",
            e.POD_UID: "the-pod",
            e.POD_IP: "127.0.0.1",
            e.HEAD_HOST: "head",
            e.HEAD_PORT: "1",
            e.TEMP: str(folder / "temp"),
        }
    )
