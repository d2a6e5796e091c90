"""The end of an attempt's history, which the driver writes when Ray's processes are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.contract.history import JOURNAL, METRICS
from railhead.contract.outcome import Outcome
from railhead.driver.errors import Fenced, JobRefused
from railhead.driver.storage.fence import take_run
from railhead.driver.storage.history import complete_history
from railhead.driver.storage.run_folder import RunFolder, open_own_folder
from railhead.driver.storage.segments import Segments, find_spool
from railhead.history import read_history

UID, POD = "0a1b-mine", "abcdef01-0000"
OUTCOME = Outcome("Preemption", "Terminated", "the head received SIGTERM")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return open_own_folder(str(tmp_path / "runs"), "r")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """What the controller has left in the pod: one report."""
    spool = find_spool(tmp_path / "temp")
    Segments(spool, METRICS, job=UID, attempt=2, pod=POD).append({"time": "t", "attempt": 2, "report": 1})
    return spool


def test_the_storage_gets_what_the_controller_left_and_the_attempts_end(folder: RunFolder, spool: Path) -> None:
    complete_history(folder, take_run(folder, uid=UID, attempt=2, pod=POD), spool, OUTCOME)
    own = Path(folder.path, ".railhead")
    reports, events = (
        read_history({file.name: file.read_bytes() for file in (own / kind).iterdir()}).records
        for kind in (METRICS, JOURNAL)
    )
    assert [each["report"] for each in reports] == [1]
    assert [(each["event"], each["outcome"], each["attempt"]) for each in events] == [("end", "Preemption", 2)]


def test_a_head_that_has_lost_the_run_writes_nothing(folder: RunFolder, spool: Path) -> None:
    claim = take_run(folder, uid=UID, attempt=2, pod=POD)
    take_run(folder, uid=UID, attempt=3, pod="successor")
    with pytest.raises(Fenced):
        complete_history(folder, claim, spool, OUTCOME)
    take_run(folder, uid="another-job", attempt=1, pod="p")
    with pytest.raises((Fenced, JobRefused)):
        complete_history(folder, claim, spool, OUTCOME)
    assert not Path(folder.path, ".railhead", METRICS).exists()
