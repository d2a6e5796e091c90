"""A run's history with a real Ray: three attempts that end in three ways, read when all their pods are gone.

The reader is the script of docs/how-to/read-metrics.md. The logs of those that failed are in the archive.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railhead.client.explain.past_run import open_past_run
from railhead.client.run.run_list import list_runs, read_records
from railhead.client.run.run_storage import PathStorage, RunStorage, open_storage
from railhead.contract import environment as e
from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.outcome import Outcome
from railhead.history import read_history
from tests.ray.pods import Pods, describe_known, make_single_job
from tests.ray.test_log_archive import check as check_archive
from tests.ray.test_log_archive import check_modes, make_job, read_path
from tests.s3 import BUCKET, start_s3

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "read-metrics.md"
SECRET = "s3cr3t-0123456789"
# Each attempt has two epochs, the first of which the attempt before it has reported too; only those before have
# checkpoints. The first attempt raises, the second waits for its end, the third returns. Each trains for half a second
# before its checkpoint: milliseconds would be 0.0 % of a slow machine's minutes.
TRAINING = """
import logging, os, tempfile, time
import ray.train
from ray.train import Checkpoint
from railhead.training import attempt

def train_func(config):
    last = ray.train.get_checkpoint()
    first = 0
    if last:
        with last.as_directory() as folder:
            first = int(open(os.path.join(folder, "epoch")).read()) + 1
    time.sleep(0.5)
    for epoch in range(first, first + 2):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "epoch"), "w").write(str(epoch))
            checkpoint = Checkpoint.from_directory(folder) if epoch == first else None
            ray.train.report({"epoch": epoch, "loss": 1 / 3 + epoch, "note": os.environ["NOTE"]}, checkpoint=checkpoint)
    if attempt() == 1:
        logging.getLogger().warning("through the logger")
        print("my last words, and not", os.environ.get("TRACKER_TOKEN"), flush=True)
        raise ValueError("once")
    while attempt() == 2:
        time.sleep(0.1)
"""
CURVE = [(1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]


@dataclass
class Attempts:
    """The attempts of one job, each with new pods, on one storage."""

    folder: Path
    storage: str
    env: Mapping[str, str]
    known: str = "[]"
    index: int = -1
    logs: list[str] = field(default_factory=list)

    def run(self, number: int, *, is_terminated: bool = False) -> int:
        is_path = self.storage.startswith("/")
        changes: dict[str, Any] = {} if is_path else {"storage_path": self.storage}
        job = make_job(**changes)
        own = self.folder / str(number)
        env = {
            **self.env,
            e.KNOWN_CHECKPOINTS: self.known,
            e.POD_UID: f"0000000{number}-aaaa-bbbb",
            e.ATTEMPT: str(number),
        }
        with Pods(own, job, source={"user.py": TRAINING}, storage=self.storage if is_path else "") as pods:
            pods.start(workers=1, attempt=number, checkpoint_index=self.index, env=env)
            if is_terminated:
                pods.wait_until(lambda: any(each["reports"] == 2 for each in pods.reports))
                pods.terminate("head")
            code = pods.wait_ended()
            # A worker pod archives its log when it ends.
            pods.terminate("w0-0")
            pods.wait_ended("w0-0", timeout=60)
            self.logs.append(pods.read_log())
            self._take(pods.read_outcome())
        return code

    def _take(self, outcome: Outcome) -> None:
        assert outcome.checkpoint is not None, self.logs[-1]
        self.known, self.index = describe_known(outcome.checkpoint), outcome.checkpoint.index


def run_all(attempts: Attempts) -> None:
    assert attempts.run(1) == FailureClass.APPLICATION.exit_code, attempts.logs[-1]
    assert attempts.run(2, is_terminated=True) == FailureClass.PREEMPTION.exit_code, attempts.logs[-1]
    assert attempts.run(3) == SUCCEEDED_CODE, attempts.logs[-1]


def read_page(folder: Path, run_uri: str, env: Mapping[str, str]) -> list[str]:
    """Returns what the page's script prints."""
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert found
    (folder / "curve.py").write_text(found[1])
    command = [sys.executable, str(folder / "curve.py"), run_uri]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow  # test_failures.py has the history of attempts that are terminated, succeed and fail
def test_the_curve_of_three_attempts_is_read_from_a_path(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, str(tmp_path / "runs"), {"NOTE": f"with {SECRET}", "TRACKER_TOKEN": SECRET})
    run_all(attempts)
    (run,) = (tmp_path / "runs").iterdir()
    assert read_page(tmp_path, str(run), {}) == [f"{a} {epoch} {1 / 3 + epoch}" for a, epoch in CURVE]
    metrics, journal = (
        {file.name: file.read_bytes() for file in (run / ".railhead" / kind).iterdir()}
        for kind in ("metrics", "journal")
    )
    names = ["1-00000001-1.jsonl", "2-00000002-1.jsonl", "3-00000003-1.jsonl"]
    assert sorted(metrics) == sorted(journal) == names
    kept = read_history(metrics)
    assert (kept.skipped, kept.dropped, kept.every) == (0, 0, 1)
    assert [(each["report"], each["workers"]) for each in kept.records] == [(1, 1), (2, 1)] * 3
    assert {each["metrics"]["note"] for each in kept.records} == {"with (hidden)"}
    assert SECRET not in json.dumps(str(metrics) + str(journal))
    check_journal(read_history(journal).records)
    check_record(PathStorage(str(tmp_path / "runs")), run.name)
    check_archive(read_path(run), succeeded=3)
    check_modes(run)


def check_journal(records: tuple[dict[str, Any], ...]) -> None:
    """Each attempt has its own story, in the order in which it happened."""
    stories = {n: [each["event"] for each in records if each["attempt"] == n] for n in (1, 2, 3)}
    for number, story in stories.items():
        assert (story[0], story[-1]) == ("state" if number == 1 else "resume", "end"), stories
        assert story.index("state") < story.index("group") < story.index("checkpoint"), stories
    assert "failure" in stories[1] and "notice" not in stories[1]
    assert [each["index"] for each in records if each["event"] == "checkpoint"] == [0, 1, 2]
    ends = [(each["outcome"], each["reason"]) for each in records if each["event"] == "end"]
    assert ends == [
        ("Application", "TrainFunctionRaised"),
        ("Preemption", "Terminated"),
        ("Succeeded", "TrainingSucceeded"),
    ]


def check_record(storage: RunStorage, name: str) -> None:
    """The run is listed with how its attempts ended, and opens with its checkpoints, without a TrainJob."""
    found = asyncio.run(read_records(storage))
    record = found.records[name]
    assert found.notes == ()
    assert [(each.number, each.outcome, each.reports) for each in record.attempts] == [
        (1, "Application", 2),
        (2, "Preemption", 2),
        (3, "Succeeded", 2),
    ]
    assert SECRET not in record.to_json().decode()
    assert {"ray", "python"} <= record.environment.versions.keys() and record.environment.code
    (row,) = list_runs(found.records, now=datetime.now(UTC))
    assert record.checkpoint is not None
    assert (row.state, row.attempts, row.checkpoint) == ("Succeeded", 3, record.checkpoint.index)
    assert row.goodput is not None and row.goodput > 0
    run = asyncio.run(open_past_run(storage, name, record))
    assert run.notes == () and run.checkpoints[-1].is_newest
    assert [each.what for each in run.moments if each.source == "record"] == ["AttemptStarted", "AttemptEnded"] * 3


@pytest.mark.slow  # test_failures.py has the same from a path; here the storage is a real object store
def test_the_curve_of_three_attempts_is_read_from_s3(tmp_path: Path) -> None:
    with start_s3(tmp_path) as s3:
        attempts = Attempts(tmp_path, s3.build_uri("runs"), {**s3.environment, "NOTE": ""})
        run_all(attempts)
        run = s3.build_uri("runs/" + make_single_job().run_name)
        assert read_page(tmp_path, run, s3.environment) == [f"{a} {epoch} {1 / 3 + epoch}" for a, epoch in CURVE]
        assert f"s3://{BUCKET}/" in run
        with pytest.MonkeyPatch.context() as patch:
            for key, value in s3.environment.items():
                patch.setenv(key, value)
            check_record(open_storage(s3.build_uri("runs")), make_single_job().run_name)
        assert s3.list(f"runs/{make_single_job().run_name}/.railhead/journal") == {
            "1-00000001-1.jsonl",
            "2-00000002-1.jsonl",
            "3-00000003-1.jsonl",
        }
