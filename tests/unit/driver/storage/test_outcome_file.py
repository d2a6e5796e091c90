"""The success that an attempt leaves in the run's folder: who writes it, who believes it, who removes it.

The scenario spans `fence`, `acquire_run` and the driver's training, so its tests stay together.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from railhead.contract import environment as e
from railhead.contract.outcome import Outcome
from railhead.contract.report import CommittedCheckpoint
from railhead.contract.trackers import name_tracked_run
from railhead.driver.container.pod_input import Pod
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.acquire_run import acquire_run
from railhead.driver.head.rank_stream import Ranks
from railhead.driver.head.run_attempt import TrainingContext, run_training
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.messages.attempt_errors import Fenced
from railhead.driver.pod.ending import Success
from railhead.driver.storage.claims import OUTCOME, Claimant, leave_outcome, read_success, take_run
from railhead.driver.storage.run_folder_files import RunFolder, open_own_folder
from tests.ray.pods import make_job

UID, OTHER = "0a1b-mine", "9f8e-other"
SUCCESS = Outcome(
    "Succeeded", "TrainingSucceeded", checkpoint=CommittedCheckpoint("/runs/r/c3", 3), metrics={"loss": "1"}, reports=4
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return open_own_folder(str(tmp_path), "r")


def leave(folder: RunFolder, outcome: Outcome = SUCCESS, *, attempt: int = 1) -> None:
    leave_outcome(folder, take_run(folder, Claimant(UID), attempt=attempt, pod="pod-a"), outcome)


def test_only_a_later_attempt_of_the_same_job_believes_it(folder: RunFolder) -> None:
    assert read_success(folder, uid=UID, attempt=2) is None
    leave(folder)
    assert read_success(folder, uid=UID, attempt=2) == SUCCESS
    assert read_success(folder, uid=UID, attempt=9) == SUCCESS
    assert read_success(folder, uid=UID, attempt=1) is None
    assert read_success(folder, uid=OTHER, attempt=2) is None


@pytest.mark.parametrize("attempt", [1, 2, 9])
def test_a_restored_job_believes_it_even_if_the_backup_is_older(folder: RunFolder, attempt: int) -> None:
    leave(folder, attempt=7)
    assert read_success(folder, uid=OTHER, attempt=attempt, former_uids=("x", UID)) == SUCCESS
    assert read_success(folder, uid=OTHER, attempt=attempt, former_uids=("x",)) is None


def test_half_a_file_counts_as_absent(folder: RunFolder) -> None:
    leave(folder)
    data = folder.read(OUTCOME)
    assert data
    for size in range(len(data)):
        folder.write(OUTCOME, data[:size])
        assert read_success(folder, uid=UID, attempt=2) is None


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        "Succeeded",
        {"uid": UID, "attempt": 1},
        {"uid": UID, "attempt": "1", "outcome": SUCCESS.to_json()},
        {"uid": UID, "attempt": 0, "outcome": SUCCESS.to_json()},
        {"uid": UID, "attempt": 1, "outcome": "{}"},
        {"uid": UID, "attempt": 1, "outcome": {"outcome": "Succeeded"}},
        {"uid": UID, "attempt": 1, "outcome": Outcome("Application").to_json()},
        {"attempt": 1, "outcome": SUCCESS.to_json()},
    ],
    ids=str,
)
def test_anything_else_counts_as_absent(folder: RunFolder, values: Any) -> None:
    folder.write(OUTCOME, json.dumps(values).encode())
    assert read_success(folder, uid=UID, attempt=2) is None


def test_a_head_that_has_lost_the_run_leaves_nothing(folder: RunFolder) -> None:
    claim = take_run(folder, Claimant(UID), attempt=1, pod="pod-a")
    take_run(folder, Claimant(UID), attempt=2, pod="pod-c")
    with pytest.raises(Fenced):
        leave_outcome(folder, claim, SUCCESS)
    assert folder.read(OUTCOME) is None


def test_a_job_that_takes_over_the_run_removes_it_and_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_RUN", "")
    leave(open_own_folder(str(tmp_path), "r"))
    job = make_job(uid=OTHER, run_name="r", storage_path=str(tmp_path), is_sharing_run=True)
    config = SimpleNamespace(storage_path=str(tmp_path), storage_filesystem=LocalFileSystem(), name="r")
    run = acquire_run(config, RunContext(f"{tmp_path}/r"), pod=make_pod(tmp_path, attempt=1), job=job, warn=print)
    assert run.run_id == name_tracked_run("r", UID), "the same run in every tracker"
    assert not (tmp_path / "r" / OUTCOME).exists()


def run_attempt(folder: Path, *, attempt: int, uid: str = UID) -> tuple[Any, Mailbox]:
    """Its code does not exist, so it cannot train."""
    job = make_job(uid=uid, run_name="r", storage_path=str(folder), framework="", train_func="absent:f")
    mailbox, publisher = Mailbox(folder / "temp"), SimpleNamespace(update=lambda change: None, warn=print)
    pod = replace(make_pod(folder, attempt=attempt), checkpoint_index=-1)
    found = run_training(TrainingContext(pod, job, publisher, mailbox, print, Ranks(), []))  # type: ignore[arg-type]
    return found, mailbox


def test_the_next_attempt_succeeds_without_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(e.SOURCE, str(tmp_path / "no-source"))
    leave(open_own_folder(str(tmp_path), "r"))
    ending, mailbox = run_attempt(tmp_path, attempt=2)
    assert ending == Success("an earlier attempt had finished training before its head was lost")
    progress = mailbox.read_newest_fit().progress
    assert (progress.checkpoint, progress.metrics, progress.reports) == (SUCCESS.checkpoint, {"loss": "1"}, 4)
    assert progress.run_uri == f"{tmp_path}/r"
    for other in (run_attempt(tmp_path, attempt=1), run_attempt(tmp_path, attempt=2, uid=OTHER)):
        assert not isinstance(other[0], Success)


def make_pod(folder: Path, *, attempt: int) -> Pod:
    return Pod.from_environment(
        {
            e.INPUT: str(folder),
            e.BUNDLE: "",
            e.ATTEMPT: str(attempt),
            e.POD_UID: "the-pod",
            e.POD_IP: "127.0.0.1",
            e.HEAD_HOST: "head",
            e.HEAD_PORT: "1",
            e.TEMP: str(folder / "temp"),
        }
    )
