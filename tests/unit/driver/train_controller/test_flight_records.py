"""The records of a hang: whom the controller asks, and what it keeps in the run's folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from railhead.contract import environment as e
from railhead.driver.storage.fence import look, take_run
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.train_controller import flight_records
from railhead.driver.train_controller.evidence import Death
from railhead.driver.train_controller.flight_records import KEPT_RANKS, find_difference, keep_records
from railhead.driver.train_controller.group import Answer, Group, Process
from tests.unit.driver.flight_dumps import Call, convert, make_dump, run

WAITING = convert(make_dump([Call("all_reduce", 4, "scheduled")]))
LEFT_OUT = convert(make_dump(run(3)))
PROCESSES = {rank: Process("node", 100 + rank, pod="w0") for rank in range(5)}


@pytest.fixture(name="group")
def make_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """The group of a run that the second attempt has claimed."""
    folder = RunFolder(LocalFileSystem(), str(tmp_path / "run"))
    claim = take_run(folder, uid="0a1b", attempt=2, pod="head")
    monkeypatch.setenv(e.ATTEMPT, "2")
    workers: Any = object()
    group = Group(worker_group=workers)
    group.folder, group.check_fence = folder, partial(look, folder, claim)
    return group


@pytest.fixture(name="folder")
def get_folder(group: Group) -> RunFolder:
    assert group.folder is not None
    return group.folder


class Ranks:
    """Those of PROCESSES that live, and the records that the pods of dead ones have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, living: dict[int, bytes], dead: dict[int, bytes]) -> None:
        self.living, self.dead = living, dead
        self.asked: dict[str, list[int]] = {}
        monkeypatch.setattr(flight_records, "call_ranks", self.call)
        monkeypatch.setattr(flight_records, "find_deaths", self.find_deaths)

    def call(self, workers: Any, ranks: Iterable[int], function: Any, *, timeout: float) -> dict[int, Answer]:
        self.asked["living"] = sorted(ranks)
        return {rank: Answer(self.living.get(rank)) for rank in self.asked["living"]}

    def find_deaths(self, processes: dict[int, Process]) -> dict[int, Death]:
        self.asked["dead"] = sorted(processes)
        return {rank: Death(record=self.dead.get(rank)) for rank in processes}


def test_asks_each_rank_and_the_pods_of_those_that_died_meanwhile(
    group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, living={1: WAITING, 2: LEFT_OUT}, dead={3: WAITING})
    finding = find_difference({0: WAITING, 4: b"torn"}, PROCESSES, group)
    assert ranks.asked == {"living": [1, 2, 3], "dead": [3]}
    assert finding is not None
    assert finding.message == "rank 2 never entered ALLREDUCE #4 of default_pg, in which ranks 0, 1 and 3 wait"
    kept = json.loads(folder.read(".railhead/dumps/2-1/rank-2.json") or b"")
    assert [entry["collective_seq_id"] for entry in kept["entries"]] == [1, 2, 3]


def test_without_records_nothing_is_kept(group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    Ranks(monkeypatch, living={}, dead={})
    assert find_difference({}, PROCESSES, group) is None
    assert folder.list_names(".railhead/dumps") == []


def test_an_attempt_that_lost_the_run_keeps_nothing(
    group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranks(monkeypatch, living={}, dead={})
    take_run(folder, uid="0a1b", attempt=3, pod="other")
    find_difference({0: WAITING, 1: LEFT_OUT}, PROCESSES, group)
    assert folder.list_names(".railhead/dumps") == []


def test_storage_that_hangs_or_fails_holds_up_no_restart(
    group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranks(monkeypatch, living={}, dead={})
    release = threading.Event()
    monkeypatch.setattr(flight_records, "STORE_PATIENCE", 0.05)

    def hang() -> None:
        release.wait()

    group.check_fence = hang
    assert find_difference({0: WAITING, 1: LEFT_OUT}, PROCESSES, group) is not None
    release.set()
    for thread in threading.enumerate():
        if thread.name == "railhead-flight-records":
            thread.join()

    def fail() -> None:
        raise OSError("no storage")

    group.check_fence = fail
    assert find_difference({0: WAITING, 1: LEFT_OUT}, PROCESSES, group) is not None


def test_keeps_the_odd_ranks_first_and_the_last_failures_only(group: Group, folder: RunFolder) -> None:
    records = dict.fromkeys(range(KEPT_RANKS + 40), LEFT_OUT)
    for attempt in (1, 1, 2):
        keep_records(folder, {0: LEFT_OUT}, attempt=attempt, first=())
    assert keep_records(folder, records, attempt=2, first=(100,)) == ".railhead/dumps/2-2"
    assert sorted(folder.list_names(".railhead/dumps")) == ["1-2", "2-1", "2-2"]
    names = folder.list_names(".railhead/dumps/2-2")
    assert len(names) == KEPT_RANKS and {"rank-100.json", "rank-0.json"} <= set(names)
    assert "rank-63.json" not in names
