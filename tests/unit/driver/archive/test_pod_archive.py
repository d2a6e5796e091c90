"""The archive of one pod: when it uploads, and that nothing waits for a storage that hangs or refuses."""

from __future__ import annotations

import contextlib
import gzip
import io
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO, cast

import pytest

from railhead.contract.job_input import JobInput, ScalingInput
from railhead.contract.run_folder import LOGS
from railhead.driver.archive import pod_archive as archive_module
from railhead.driver.archive.archive_layout import HEAD, RANK_0_INTERVAL_SECONDS, WORKER
from railhead.driver.archive.archive_upload import NOT_BEGUN, Upload
from railhead.driver.archive.pod_archive import Archive, StoredArchive, TrainLogs, send_upload, start_archive
from railhead.driver.archive.spool import MEMBER_BYTES, Spool
from railhead.driver.container.pod_input import Pod
from railhead.driver.head.rank_stream import Ranks, RankStream

JOB = JobInput(
    "ns", "n", "0a1b2c3d-0000", "run", ScalingInput(1), 1, archive_logs="Failed", archive_per_rank=4, archive_per_run=9
)


class Storage:
    """Receives uploads; `answer` is the result of each, and may block."""

    def __init__(self) -> None:
        self.uploads: queue.SimpleQueue[Upload] = queue.SimpleQueue()
        self.answer: Callable[[], str] = lambda: ""

    def __call__(self, upload: Upload) -> str:
        self.uploads.put(upload)
        return self.answer()

    def take(self) -> Upload:
        try:
            return self.uploads.get(timeout=30)
        except queue.Empty:
            raise AssertionError("nothing was uploaded") from None


def make_archive(
    tmp_path: Path,
    storage: Storage,
    *,
    limit: int | None = None,
    storage_path: str = "/runs",
    only_failed: bool = True,
    **more: Any,
) -> StoredArchive:
    template = Upload(
        spool=str(tmp_path),
        storage_path=storage_path,
        run_name="run",
        uid="a",
        attempt=1,
        only_failed=only_failed,
        limit=limit,
    )
    return StoredArchive(Spool(tmp_path, "r0-w0", limit=2**22), template, send=storage, **more)


def test_only_changes_are_uploaded(tmp_path: Path) -> None:
    storage = Storage()
    archive = make_archive(tmp_path, storage)
    archive.upload()
    assert storage.uploads.empty()
    archive.add_of_rank(3, "line")
    archive.add_of_rank(None, "before the rank is known")
    archive.upload()
    archive.upload()
    assert set(storage.take().write) == {"3/r0-w0-000000.log.gz", "worker/r0-w0-000000.log.gz"}
    assert storage.uploads.empty()


def test_what_has_another_size_is_written_and_what_the_spool_has_dropped_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage()
    archive = make_archive(tmp_path, storage)
    sizes = iter([{"a": 5, "c": 9, "d": 1}, {"a": 6, "b": 2, "c": 9}])
    monkeypatch.setattr(archive._spool, "write_all", lambda: next(sizes))
    archive.upload()
    archive.upload()
    assert storage.take().write == {"a": 5, "c": 9, "d": 1}
    second = storage.take()
    assert (second.write, second.delete) == ({"a": 6, "b": 2}, ["d"])


def test_a_failed_upload_is_repeated_and_logged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = Storage()
    storage.answer = lambda: "OSError: No space left on device"
    archive = make_archive(tmp_path, storage)
    archive.add("0", "line")
    archive.upload()
    archive.upload()
    storage.answer = lambda: ""
    archive.upload()
    assert [set(storage.take().write) for _ in range(3)] == [{"0/r0-w0-000000.log.gz"}] * 3
    assert capsys.readouterr().out.count("cannot copy the logs to run.storagePath") == 1


def test_a_run_without_a_folder_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods wait for each other before training makes it."""
    storage = Storage()
    storage.answer = lambda: NOT_BEGUN
    archive = make_archive(tmp_path, storage)
    archive.add("0", "line")
    archive.upload()
    storage.answer = lambda: ""
    archive.upload()
    assert [set(storage.take().write) for _ in range(2)] == [{"0/r0-w0-000000.log.gz"}] * 2
    assert capsys.readouterr().out == ""


def test_a_full_disk_of_the_heads_pod_is_logged_through_the_archive_itself(tmp_path: Path) -> None:
    """The head's log is a source of its archive: a lock that is held while it logs would stop both for good."""
    out = io.StringIO()
    archive = make_archive(tmp_path / "absent" / "file", Storage())
    (tmp_path / "absent").write_text("no folder")
    stream = RankStream(out, Ranks(), partial(archive.add, HEAD))

    def fill() -> None:
        with contextlib.redirect_stdout(cast(TextIO, stream)):
            for _ in range(3):
                print("x" * MEMBER_BYTES)
                archive.upload()

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert out.getvalue().count("cannot keep all lines for spec.logs.archive on the pod's own disk") == 1


def test_rank_0_and_a_rank_that_ends_are_uploaded_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at once: the ranks of a pod end together, and the pod with them, which uploads all by itself."""
    assert 0.5 <= archive_module.SETTLE_SECONDS <= 2.0 and RANK_0_INTERVAL_SECONDS == 10.0
    monkeypatch.setattr(archive_module, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(archive_module, "RANK_0_INTERVAL_SECONDS", 0.4)
    storage = Storage()
    archive = make_archive(tmp_path, storage, chance=lambda: 1.0)
    archive.start()
    archive.add_of_rank(0, "first")
    assert set(storage.take().write) == {"0/r0-w0-000000.log.gz"}
    archive.add_of_rank(1, "last words")
    archive.upload_soon()
    archive.add_of_rank(2, "of another that ends in the same moment")
    archive.upload_soon()
    assert set(storage.take().write) == {"1/r0-w0-000000.log.gz", "2/r0-w0-000000.log.gz"}


def test_a_success_starts_no_upload_any_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage, attempt = Storage(), tmp_path / "runs" / "run" / LOGS / "a-1"
    (attempt / "0").mkdir(parents=True)
    for only_failed in (False, True):
        archive = make_archive(
            tmp_path / str(only_failed), storage, storage_path=str(tmp_path / "runs"), only_failed=only_failed
        )
        archive.add(HEAD, "line")
        archive.discard_after_success()
        archive.finish()
        assert attempt.exists() is not only_failed
    assert storage.take() and storage.uploads.empty()
    (tmp_path / "runs" / "run").rename(tmp_path / "away")
    archive.discard_after_success()
    assert capsys.readouterr().out == ""
    (tmp_path / "runs" / "run").write_text("a file")
    archive.discard_after_success()
    assert "cannot remove the logs of an attempt that has succeeded" in capsys.readouterr().out


def test_the_head_looks_at_the_size_of_the_archive_rarely(tmp_path: Path) -> None:
    storage, now = Storage(), [0.0]
    archive = make_archive(tmp_path, storage, limit=9, monotonic=lambda: now[0])
    storage.answer = lambda: "refused"
    archive.upload()
    storage.answer = lambda: ""
    archive.upload()
    assert [storage.take().limit, storage.take().limit] == [9, 9]
    for now[0] in (10.0, 599.0, 600.0):
        archive.upload()
    assert storage.take().limit == 9 and storage.uploads.empty()
    archive.add(HEAD, "line")
    archive.upload()
    assert storage.take().limit is None


def test_the_last_lines_are_uploaded_at_the_end(tmp_path: Path) -> None:
    storage = Storage()
    archive = make_archive(tmp_path, storage)
    archive.add(HEAD, "Application: of the user")
    archive.finish()
    assert storage.take().write


def test_the_end_waits_a_moment_for_a_storage_that_hangs_and_not_at_all_if_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "LAST_UPLOAD_SECONDS", 0.2)
    storage, is_released = Storage(), threading.Event()
    storage.answer = lambda: "late" if is_released.wait(30) else "never"
    archive = make_archive(tmp_path, storage)
    archive.add("0", "line")
    archive.finish()
    assert storage.take() and storage.uploads.empty()
    now = time.monotonic()
    monkeypatch.setattr(archive, "_monotonic", lambda: now + 60)
    monkeypatch.setattr(archive_module, "LAST_UPLOAD_SECONDS", 30)
    archive.finish()
    assert time.monotonic() - now < 15
    is_released.set()
    archive.upload()  # waits for the one that hung, whose line belongs to this test


def test_ray_trains_own_logs_are_kept(tmp_path: Path) -> None:
    folder, spool = tmp_path / "session_2026-01-01" / "logs" / "train", Spool(tmp_path / "spool", "r0-w0", limit=2**22)
    folder.mkdir(parents=True)
    (folder / "ray-train-app-worker-1.log").write_text("one\ntw")
    logs = TrainLogs(tmp_path, spool)
    logs.read()
    with open(folder / "ray-train-app-worker-1.log", "a") as file:
        file.write("o\n")
    (folder / "vanished.log").symlink_to(tmp_path / "vanished")
    logs.read()
    logs.read()
    [name] = spool.write_all()
    assert name.startswith("train/")
    assert [line[21:] for line in gzip.decompress((tmp_path / "spool" / name).read_bytes()).decode().splitlines()] == [
        "one",
        "two",
    ]


def make_pod(tmp_path: Path, bundle: str = "") -> Pod:
    return cast(
        Pod,
        SimpleNamespace(temp=tmp_path, bundle=bundle, uid="ffff-1", attempt=2, input_folder=tmp_path),
    )


def test_a_job_without_an_archive_writes_nothing(tmp_path: Path) -> None:
    archive = start_archive(WORKER, make_pod(tmp_path), replace(JOB, archive_logs="None"), {})
    archive.add_of_rank(0, "line")
    archive.upload_soon()
    archive.discard_after_success()
    archive.finish()
    assert type(archive) is Archive and list(tmp_path.iterdir()) == []


def test_the_heads_log_says_that_the_operator_allows_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = replace(JOB, archive_logs="None", archive_wanted="All")
    start_archive(WORKER, make_pod(tmp_path), job, {})
    start_archive(HEAD, make_pod(tmp_path), replace(job, archive_wanted=""), {})
    start_archive(HEAD, make_pod(tmp_path), replace(job, archive_wanted="None"), {})
    assert capsys.readouterr().out == ""
    start_archive(HEAD, make_pod(tmp_path), job, {})
    assert "spec.logs.archive All is reduced to None" in capsys.readouterr().out


def test_the_process_gets_the_containers_environment_and_its_error_is_read(tmp_path: Path) -> None:
    program = "import os, sys; sys.exit(' '.join([os.environ['A'], sys.argv[1], open(sys.argv[2]).read()[:1]]))"
    (tmp_path / "archive").mkdir()
    (tmp_path / "bundle.py").write_text(program)
    send = partial(send_upload, make_pod(tmp_path, str(tmp_path / "bundle.py")), {"A": "of the container"})
    upload = Upload(str(tmp_path), "/runs", "run", "a", 1, only_failed=True)
    assert send(upload) == "of the container archive {"
    (tmp_path / "bundle.py").write_text("")
    assert send(upload) == ""


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "bundle.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    pod = make_pod(tmp_path, str(tmp_path / "bundle.py"))
    upload = Upload(str(tmp_path), "/runs", "run", "a", 1, only_failed=True)
    timeout, began = 0.0, time.monotonic()
    while not (tmp_path / "pid").exists():
        assert send_upload(pod, {}, upload, timeout=timeout) == f"no response within {timeout:.0f} s"
        timeout = min(2.0, timeout * 2 + 0.1)
        assert time.monotonic() - began < 60


def test_an_upload_that_raises_is_repeated_and_the_last_lines_still_get_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = Storage()
    now = 0.0
    archive = make_archive(tmp_path, storage, monotonic=lambda: now)

    def fail() -> str:
        raise RuntimeError("no more processes")

    storage.answer = fail
    archive.add("0", "one")
    archive.upload()
    assert "which is tried again: RuntimeError: no more processes" in capsys.readouterr().out
    storage.take()
    storage.answer = lambda: ""
    now = 3600.0  # an upload that began then, and did not end, would hang
    archive.add("0", "last")
    archive.finish()
    assert storage.take().write
