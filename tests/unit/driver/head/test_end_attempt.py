"""What the head reports, keeps and logs at the end of an attempt, and how long that may take."""

from __future__ import annotations

import argparse
import io
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract import environment
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import JobInput, ScalingInput
from railhead.contract.report import Report
from railhead.driver.archive.pod_archive import Archive
from railhead.driver.container.pod_input import Pod
from railhead.driver.fit.users_trainer import call_build
from railhead.driver.head import end_attempt, run_head
from railhead.driver.head.end_attempt import TERMINATED, Head, end
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.rank_stream import Ranks
from railhead.driver.head.run_recorder import RunRecorder
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.pod.ending import Ending, Success
from railhead.driver.storage.claims import OUTCOME, Claimant, take_run
from railhead.driver.storage.history_segments import choose_spool
from railhead.driver.storage.run_folder_files import open_own_folder


@dataclass
class Reporting:
    """A publisher and its clock; the operator accepts the last report after `accepts_after` seconds."""

    accepts_after: float
    sigterm_at: float = 1e9
    now: float = 0.0
    head: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(is_terminating=False))

    def has_stopped(self, timeout: float) -> bool:
        self.now = min(self.now + timeout, max(self.accepts_after, self.now))
        self.head.is_terminating = self.now >= self.sigterm_at
        return self.now >= self.accepts_after

    def wait_stopped(self, timeout: float) -> None:
        self.has_stopped(timeout)


@pytest.mark.parametrize(
    ("seconds", "accepts_after", "sigterm_at", "took"),
    [
        pytest.param(60, 0.3, 1e9, 0.3, id="accepted"),
        pytest.param(60, 45, 1e9, 45, id="the operator is away for a while"),
        pytest.param(60, 1e9, 1e9, 60, id="the operator is away"),
        pytest.param(60, 1e9, 10, 12, id="SIGTERM meanwhile"),
        pytest.param(60, 1e9, 0, 2, id="after SIGTERM"),
        pytest.param(0, 1e9, 1e9, 2, id="after a failure"),
    ],
)
def test_a_success_is_reported_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, seconds: float, accepts_after: float, sigterm_at: float, took: float
) -> None:
    found = Reporting(accepts_after, sigterm_at)
    found.head.publisher, found.head.is_terminating = found, sigterm_at == 0
    monkeypatch.setattr(end_attempt, "time", SimpleNamespace(monotonic=lambda: found.now))
    end_attempt._wait_for_last_report(found.head, seconds)  # type: ignore[arg-type]
    assert found.now == pytest.approx(took, abs=0.1)
    assert (end_attempt.LAST_REPORT_OF_SUCCESS_SECONDS, end_attempt.LAST_REPORT_SECONDS) == (60.0, 2.0)


BASE = Report(namespace="ns", name="n", uid="u", attempt=1, state="STARTING")


def end_with_history(
    folder: Path,
    keep: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    ending: Ending = TERMINATED,
    claimed_by: str = "p",
) -> None:
    """Ends an attempt that has trained, with `keep` in the place of the last write to the storage."""
    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setattr(end_attempt, "complete_history", keep)
    choose_spool(folder).mkdir(parents=True)
    take_run(open_own_folder(str(folder / "runs"), "run"), Claimant("u"), attempt=1, pod=claimed_by)
    pod = Pod(folder, "", "", "", 0, folder, 1, -1, None, None, None, None, None, uid="p")
    job = JobInput("ns", "n", "u", "run", ScalingInput(1), 1, storage_path=str(folder / "runs"))
    mailbox = Mailbox(folder)
    publisher = Publisher(endpoint=None, mailbox=mailbox, base=BASE)
    publisher.start()
    recorder = RunRecorder(pod, job, publisher, mailbox)
    with pytest.raises(SystemExit):
        end(Head(pod, job, mailbox, publisher, Ranks(), Archive(), recorder), ending)


@pytest.mark.parametrize("ending", [TERMINATED, Success()])
def test_the_end_is_kept_in_the_folder_of_the_jobs_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: Ending
) -> None:
    kept: list[Any] = []
    end_with_history(tmp_path, lambda *values: kept.append(values), monkeypatch, ending=ending)
    ((folder, claim, spool, outcome),) = kept
    assert (folder.path, spool) == (str(tmp_path / "runs" / "run"), choose_spool(tmp_path))
    assert (claim.uid, claim.attempt, claim.pod) == ("u", 1, "p")
    assert outcome.has_succeeded == (folder.read(OUTCOME) is not None) == isinstance(ending, Success)


def test_a_head_that_has_not_claimed_the_run_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    end_with_history(
        tmp_path, lambda *values: kept.append(values), monkeypatch, ending=Success(), claimed_by="another-head"
    )
    assert not kept and not (tmp_path / "runs" / "run" / OUTCOME).exists()


def test_a_storage_that_hangs_delays_the_end_by_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert end_attempt.KEEP_SECONDS <= 3.0
    monkeypatch.setattr(end_attempt, "KEEP_SECONDS", 0.2)
    hangs, responds = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> None:
        hangs.set()
        responds.wait(60)

    began = time.monotonic()
    end_with_history(tmp_path, hang, monkeypatch)
    assert hangs.is_set() and time.monotonic() - began < 10
    responds.set()


def test_a_storage_that_fails_changes_nothing_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    end_with_history(tmp_path, fail, monkeypatch)
    assert "cannot keep the attempt's end in the run's folder: OSError: [Errno 28]" in capfd.readouterr().out


class RecordedArchive(Archive):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def add(self, source: str, line: str) -> None:
        self.heard.append(line)

    def discard_after_success(self) -> None:
        self.heard.append("success")

    def finish(self) -> None:
        self.heard.append("end")


@pytest.mark.parametrize("ending", [Success(), Failure(FailureClass.APPLICATION, "TrainingFailed", "of the user")])
def test_the_archive_gets_the_last_line_and_hears_of_a_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: Ending
) -> None:
    monkeypatch.setattr("os._exit", sys.exit)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setattr(end_attempt, "_complete_run", lambda *_: None)
    archive, mailbox = RecordedArchive(), Mailbox(tmp_path)
    ranks = run_head._watch_output("All", archive)
    publisher = Publisher(endpoint=None, mailbox=mailbox, base=Report("ns", "n", "u", 1, "STARTING"))
    publisher.start()
    job, pod = JobInput("ns", "n", "u", "run", ScalingInput(1), 1), Pod.from_environment(make_environment(tmp_path))
    with pytest.raises(SystemExit):
        end(Head(pod, job, mailbox, publisher, ranks, archive, RunRecorder(pod, job, publisher, mailbox)), ending)
    *before, last, end_of_all = archive.heard
    has_succeeded = isinstance(ending, Success)
    assert end_of_all == "end" and before.count("success") == has_succeeded
    assert str(last).endswith("Succeeded" if has_succeeded else "Application: of the user")


def test_an_exit_in_the_head_quotes_what_passed_its_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "utf-8"))
    archive = RecordedArchive()
    run_head._watch_output("All", archive)

    def build(**_: object) -> None:
        print("loading", flush=True)
        argparse.ArgumentParser(prog="m.py").parse_args(["--x"])

    with pytest.raises(JobRefused) as caught:
        call_build(build, {}, who="trainer.build m:build")
    expected = 'SystemExit: 2, after "usage: m.py [-h]; m.py: error: unrecognized arguments: --x" on standard error ('
    assert caught.value.failure.message.startswith(f"trainer.build m:build: {expected}")
    assert "m.py: error: unrecognized arguments: --x" in archive.heard


def make_environment(folder: Path) -> dict[str, str]:
    values = {environment.INPUT: str(folder), environment.BUNDLE: "", environment.POD_IP: "127.0.0.1"}
    return {**values, environment.HEAD_HOST: "head", environment.HEAD_PORT: "1", environment.TEMP: str(folder)}
