"""The record of a run, as heads write it: in order, behind its own fence, and without credentials."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import environment as e
from railhead.contract.failure import Failure, FailureClass
from railhead.contract.job_input import CheckpointInput, DatasetInput, ElasticInput, GitInput, JobInput, ScalingInput
from railhead.contract.outcome import Outcome
from railhead.contract.report import NO_CHECKPOINT, CommittedCheckpoint, Report, ReportedOutcome
from railhead.contract.run_folder import RECORD
from railhead.contract.run_record import RunRecord, parse_record
from railhead.driver.container.pod_input import Pod
from railhead.driver.head import run_recorder
from railhead.driver.head.publisher import Publisher
from railhead.driver.head.run_recorder import RunRecorder, describe_environment, digest_folder
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.attempt_errors import Fenced
from railhead.driver.storage import history_segments
from tests.unit.driver.mailboxes import tell

SECRET = "s3cr3t-0123456789"
JOB = JobInput(
    "ns",
    "digits",
    "u",
    "run",
    ScalingInput(4, elastic=ElasticInput(2, 1, 0, 0)),
    4,
    train_func="m:f",
    entrypoint=["python", "--password", SECRET],
    train_loop_config={"lr": 0.1, "url": f"https://user:{SECRET}@host/", "list": [SECRET]},
    datasets={"a": DatasetInput(uri="s3://b/a"), "b": DatasetInput(function="m:d"), "c": DatasetInput()},
    checkpoint=CheckpointInput(score_attribute="loss"),
    git=GitInput("https://host/a.git", "abc"),
)
FIRST = CommittedCheckpoint("/runs/run/c1", 0, "2026-11-28T10:00:00Z", {"loss": "0.5"}, 1)


class Head:
    """A head of the job, with the pod's uid as its name."""

    def __init__(self, folder: Path, *, attempt: int = 1, pod: str = "p", job: JobInput = JOB) -> None:
        temp = folder / f"{job.uid}-{attempt}-{pod}"
        temp.mkdir()
        self.mailbox = Mailbox(temp)
        base = Report(job.namespace, job.name, job.uid, attempt, "STARTING")
        self.publisher = Publisher(endpoint=None, mailbox=self.mailbox, base=base)
        job = replace(job, storage_path=str(folder / "runs"))
        self.pod = Pod(temp, "", "", "", 0, temp, attempt, -1, None, None, None, None, None, uid=pod)
        self.recorder = RunRecorder(self.pod, job, self.publisher, self.mailbox)

    def train(self, **progress: Any) -> None:
        found = Progress(state="RUNNING", has_run=True, **progress)
        tell(self.mailbox.controller, progress=found)

    def end(self, outcome: str = "Succeeded") -> None:
        ended = ReportedOutcome(outcome, "Word", f"of {SECRET}", suspect_pod="w0")
        self.publisher.update(lambda report: replace(report, outcome=ended, state="FINISHED"))
        self.recorder.finish()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    monkeypatch.setenv(e.IMAGE, "image:1")
    (tmp_path / "runs" / "run").mkdir(parents=True)
    return tmp_path


def read(runs: Path) -> RunRecord:
    record = parse_record((runs / "runs" / "run" / RECORD).read_bytes())
    assert record is not None
    return record


def test_a_head_that_never_trains_leaves_nothing(runs: Path) -> None:
    Head(runs).end("Configuration")
    assert not (runs / "runs" / "run" / RECORD).exists()


def test_a_short_attempt_has_a_record_with_all_that_was_known(runs: Path) -> None:
    head = Head(runs)
    head.train(reports=3, metrics={"loss": "0.5"}, checkpoint=FIRST, best_checkpoint=FIRST, processes=("0", "1"))
    head.end()
    record = read(runs)
    assert (record.namespace, record.name, record.uid) == ("ns", "digits", "u")
    assert (record.checkpoint, record.best_checkpoint, record.metrics) == (FIRST, FIRST, {"loss": "0.5"})
    assert (record.spec.train_func, record.spec.num_workers, record.spec.min_workers) == ("m:f", 4, 2)
    assert record.spec.datasets == {"a": "s3://b/a", "b": "m:d", "c": "a path"}
    assert (record.environment.image, record.environment.revision) == ("image:1", "abc")
    assert {"python", "railhead", "ray", "torch"} <= record.environment.versions.keys()
    (attempt,) = record.attempts
    assert (attempt.key, attempt.outcome, attempt.workers, attempt.reports) == (("u", 1, "p"), "Succeeded", 2, 3)
    assert attempt.started <= attempt.seen and attempt.suspect_pod == "w0"


def test_no_credential_is_in_it(runs: Path) -> None:
    head = Head(runs)
    head.train(metrics={SECRET: SECRET})
    head.end()
    data = (runs / "runs" / "run" / RECORD).read_text()
    assert SECRET not in data
    assert read(runs).spec.train_loop_config == {"lr": 0.1, "url": "https://(hidden)@host/", "list": ["(hidden)"]}


def test_attempts_follow_each_other_and_what_earlier_ones_committed_stays(runs: Path) -> None:
    first = Head(runs)
    first.train(checkpoint=FIRST, best_checkpoint=FIRST, metrics={"loss": "0.5"})
    first.end("Application")
    second = Head(runs, attempt=2)
    second.train()
    second.recorder._write()
    record = read(runs)
    assert [(each.number, each.outcome) for each in record.attempts] == [(1, "Application"), (2, "")]
    assert (record.checkpoint, record.best_checkpoint, record.metrics) == (FIRST, FIRST, {"loss": "0.5"})
    third = Head(runs, pod="q", job=replace(JOB, uid="other", name="digits-r2"))  # another TrainJob with this run.name
    third.train(best_checkpoint=NO_CHECKPOINT)
    third.end()
    record = read(runs)
    assert [each.key[:2] for each in record.attempts] == [("u", 1), ("u", 2), ("other", 1)]
    assert (record.name, record.best_checkpoint) == ("digits-r2", NO_CHECKPOINT)


@pytest.mark.parametrize("later", [{"attempt": 2}, {"pod": "q"}, {"job": replace(JOB, uid="other")}])
def test_a_head_writes_nothing_once_a_later_one_has_the_run(runs: Path, later: dict[str, Any]) -> None:
    old = Head(runs)
    old.train()
    old.recorder._write()
    new = Head(runs, **later)
    new.recorder._write()
    with pytest.raises(Fenced):
        old.recorder._write()
    old.end("Hang")
    assert [each.outcome for each in read(runs).attempts] == ["", ""]


def test_the_link_of_an_earlier_attempt_stays_until_there_is_another(runs: Path) -> None:
    first = Head(runs)
    first.train()
    tell(first.mailbox.controller, tracker_url="https://t/runs/1")
    first.end("Hang")
    second = Head(runs, attempt=2, pod="q")
    second.train()
    second.recorder._write()
    assert read(runs).tracker_url == "https://t/runs/1"
    tell(second.mailbox.controller, tracker_url="https://t/runs/2")
    second.recorder._write()
    assert read(runs).tracker_url == "https://t/runs/2"


def test_a_head_that_is_slow_to_begin_finds_its_successor(runs: Path) -> None:
    Head(runs, attempt=2).recorder._write()
    with pytest.raises(Fenced):
        Head(runs, attempt=1).recorder._write()


def test_a_write_that_lands_late_is_mended_by_the_next(runs: Path) -> None:
    old = Head(runs)
    old.recorder._write()
    late = (runs / "runs" / "run" / RECORD).read_bytes()
    new = Head(runs, attempt=2)
    new.recorder._write()
    (runs / "runs" / "run" / RECORD).write_bytes(late)
    new.recorder._write()
    assert [each.number for each in read(runs).attempts] == [1, 2]


@pytest.mark.parametrize("foreign", [b"", b"{", b"[" * 10**5, b'{"version": 1, "attempts": 3}', b"\xff" * 10**6])
def test_what_is_no_record_is_replaced(runs: Path, foreign: bytes) -> None:
    file = runs / "runs" / "run" / RECORD
    file.parent.mkdir()
    file.write_bytes(foreign)
    Head(runs).recorder._write()
    assert len(read(runs).attempts) == 1


def test_a_record_of_another_version_stays(runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = runs / "runs" / "run" / RECORD
    file.parent.mkdir()
    file.write_bytes(b'{"version": 2}')
    head = Head(runs)
    head.train()
    head.end()
    assert file.read_bytes() == b'{"version": 2}'
    assert "version 2, and not 1" in capfd.readouterr().out


def test_a_link_in_its_place_is_not_followed(runs: Path) -> None:
    file = runs / "runs" / "run" / RECORD
    file.parent.mkdir()
    (runs / "precious").write_text("{}")
    file.symlink_to(runs / "precious")
    head = Head(runs)
    head.train()
    head.end()
    assert (runs / "precious").read_text() == "{}"


def test_the_record_shows_a_sign_of_life_each_minute(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert history_segments.UPLOAD_SECONDS == 60.0
    monkeypatch.setattr(history_segments, "UPLOAD_SECONDS", 0.01)
    monkeypatch.setattr(run_recorder, "LOOK_SECONDS", 0.01)
    written = threading.Semaphore(0)
    original: Callable[[RunRecorder], None] = RunRecorder._write

    def write(recorder: RunRecorder) -> None:
        original(recorder)
        written.release()

    monkeypatch.setattr(RunRecorder, "_write", write)
    head = Head(runs)
    threading.Thread(target=head.recorder.watch, daemon=True).start()
    head.train()
    assert all(written.acquire(timeout=30) for _ in range(3))
    assert read(runs).attempts[0].outcome == ""
    head.end()
    assert read(runs).attempts[0].outcome == "Succeeded"


def test_the_digest_is_of_the_users_files(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("x")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("x")
    (tmp_path / "..data" / "a.py").write_text("one")
    (tmp_path / "a.py").symlink_to(tmp_path / "..data" / "a.py")  # as the kubelet mounts a ConfigMap
    first = digest_folder(tmp_path)
    (tmp_path / ".git" / "HEAD").write_text("y")
    assert digest_folder(tmp_path) == first != ""
    (tmp_path / "..data" / "a.py").write_text("two")
    assert digest_folder(tmp_path) != first


def test_much_code_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * 100)
    monkeypatch.setattr(run_recorder, "MOST_CODE_BYTES", 99)
    assert digest_folder(tmp_path) == ""
    assert describe_environment(JOB, {e.SOURCE: str(tmp_path)}).code == ""
    monkeypatch.undo()
    assert describe_environment(JOB, {e.SOURCE: str(tmp_path)}).code != "" == describe_environment(JOB, {}).code


def test_the_record_is_plain_json(runs: Path) -> None:
    Head(runs).recorder._write()
    values = json.loads((runs / "runs" / "run" / RECORD).read_text())
    assert values["version"] == 1 and values["attempts"][0]["number"] == 1
    assert Outcome("Hang").failure == Failure(FailureClass.HANG, "Hang", "")  # the words of `outcome` are classes
