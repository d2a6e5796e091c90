"""What each call of Ray Train's controller adds to a run's history, and that a storage that hangs holds up none."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from railhead.contract import environment as e
from railhead.contract.history_format import JOURNAL, METRICS
from railhead.contract.report import CommittedCheckpoint, RunWarning, Steps
from railhead.driver.container.run_context import RunContext
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.attempt_errors import Fenced
from railhead.driver.storage import history_segments
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.train_controller import history_step
from railhead.driver.train_controller.history_step import HistoryStep
from railhead.driver.train_controller.worker_group import Group
from railhead.history import read_history
from tests.unit.driver.mailboxes import tell
from tests.waiting import wait_until


class Run:
    """A step in a run that this head has claimed; `records` reads the run's folder, `left` what the pod has."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "r"
        self.path.mkdir(parents=True)
        self.temp = folder / "temp"
        self.mailbox = Mailbox(self.temp)
        self.group = Group()
        self.group.folder = RunFolder(LocalFileSystem(), str(self.path))
        self.step = HistoryStep(self.group, self.mailbox, RunContext(str(self.path)))

    def start(self, workers: int = 2) -> None:
        self.step.after_group_start(SimpleNamespace(get_workers=lambda: [None] * workers))

    def report(self, metrics: dict[str, Any]) -> None:
        self.step.after_report(SimpleNamespace(checkpoint=None), metrics)

    def records(self, kind: str) -> list[dict[str, Any]]:
        return _read(self.path / ".railhead" / kind)

    def left(self, kind: str) -> list[dict[str, Any]]:
        return _read(self.temp / "history/own" / kind)


def _read(folder: Path) -> list[dict[str, Any]]:
    return list(read_history({file.name: file.read_bytes() for file in folder.glob("*")}).records)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv(e.TEMP, str(tmp_path / "temp"))
    monkeypatch.setenv(e.ATTEMPT, "3")
    monkeypatch.setenv(e.POD_UID, "0a1b2c3d-0000-0000-0000-000000000000")
    found = Run(tmp_path)
    yield found
    if found.step._uploader is not None:
        found.step._uploader.end(30.0)


def test_a_report_has_rank_0s_values_and_where_training_is(run: Run) -> None:
    run.start(workers=4)
    tell(run.mailbox.controller, progress=Progress(reports=7), heartbeat=Heartbeat(1, 2, 3, False, Steps(120)))
    run.report({"loss": 0.12345678901})
    run.step.after_finish()
    (record,) = run.records(METRICS)
    assert record.pop("time").endswith("Z")
    assert record == {"attempt": 3, "report": 7, "workers": 4, "step": 120, "metrics": {"loss": 0.12345678901}}
    (file,) = (run.path / ".railhead/metrics").iterdir()
    assert file.name == "3-0a1b2c3d-1.jsonl"


def test_transitions_are_kept_in_their_order(run: Run) -> None:
    tell(run.mailbox.controller, progress=Progress(state="SCHEDULING"))
    run.step.after_state("SCHEDULING")
    run.start(2)
    tell(run.mailbox.controller, progress=Progress(state="RUNNING"))
    run.step.after_state("RUNNING")
    tell(run.mailbox.controller, progress=Progress(state="RUNNING", checkpoint=CommittedCheckpoint("/c", 4), reports=1))
    run.report({})
    tell(run.mailbox.driver, end=1_800_000_000.0)
    run.step.after_poll(SimpleNamespace(), SimpleNamespace())
    run.start(1)
    tell(run.mailbox.controller, progress=Progress(state="FINISHED", checkpoint=CommittedCheckpoint("/c", 4)))
    run.step.after_finish()
    events = [(each["event"], each.get("state") or each.get("workers")) for each in run.records(JOURNAL)]
    assert events == [
        ("state", "SCHEDULING"),
        ("group", 2),
        ("state", "RUNNING"),
        ("checkpoint", None),
        ("notice", None),
        ("group", 1),
        ("state", "FINISHED"),
    ]
    assert {each["attempt"] for each in run.records(JOURNAL)} == {3}


def test_a_warning_is_noted_without_another_report(run: Run) -> None:
    """A rule may warn that nothing is reported."""
    tell(run.mailbox.controller, rule_warning=RunWarning("MetricRule", "no checkpoint was committed for 60 s"))
    run.step.after_poll(SimpleNamespace(), SimpleNamespace())
    assert [each["event"] for each in run.left(JOURNAL)] == ["warning"]


def test_a_head_without_a_claim_writes_nothing_to_the_run(run: Run) -> None:
    run.group.folder = None
    run.start()
    run.report({"loss": 1.0})
    run.step.after_finish()
    assert list(run.path.iterdir()) == [] and len(run.left(METRICS)) == 1


def test_a_head_that_has_lost_the_run_ends_its_uploads(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise Fenced("attempt 4 has taken over the run")

    monkeypatch.setattr(history_segments, "UPLOAD_SECONDS", 0.01)
    run.group.check_fence = refuse
    run.start()
    run.report({"loss": 1.0})
    uploader = run.step._uploader
    assert uploader is not None
    uploader._thread.join(30)
    assert not uploader._thread.is_alive() and list(run.path.iterdir()) == []


def test_records_reach_the_storage_while_training_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_segments, "UPLOAD_SECONDS", 0.01)
    run.start()
    for number in range(3):
        run.report({"n": number})
        wait_until("the record", lambda: len(run.records(METRICS)) > number, seconds=30)  # noqa: B023


def test_a_storage_that_hangs_holds_up_neither_training_nor_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history_segments, "UPLOAD_SECONDS", 0.01)
    monkeypatch.setattr(history_step, "END_SECONDS", 0.1)
    hangs, responds = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        responds.wait(60)

    run.group.check_fence = hang
    run.start()
    assert hangs.wait(30)
    began = time.monotonic()
    for number in range(100):
        run.report({"n": number})
    run.step.after_finish()
    assert time.monotonic() - began < 5
    assert "has not taken the end of the run's history within" in capfd.readouterr().out
    assert len(run.left(METRICS)) == 100, "the driver still has them"
    responds.set()


def test_a_storage_that_fails_is_reported_once_and_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(history_segments, "UPLOAD_SECONDS", 0.01)
    tries: list[int] = []

    def fail_thrice() -> None:
        tries.append(1)
        if len(tries) <= 3:
            raise OSError(28, "No space left on device")

    run.group.check_fence = fail_thrice
    run.start()
    run.report({"loss": 1.0})
    wait_until("the record", lambda: bool(run.records(METRICS)), seconds=30)
    run.step.after_finish()
    assert capfd.readouterr().out.count("cannot keep the run's history: OSError: [Errno 28]") == 1


def test_the_step_travels_to_the_controller(run: Run) -> None:
    """Ray pickles the steps before the run begins."""
    again = pickle.loads(pickle.dumps(run.step))
    assert isinstance(again, HistoryStep) and os.environ[e.ATTEMPT] == "3"
    again.after_report(SimpleNamespace(checkpoint=None), {"loss": 2.0})
    assert [each["metrics"] for each in run.left(METRICS)] == [{"loss": 2.0}]
