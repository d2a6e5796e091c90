"""What the pods tell after a failure: why a rank's process died, and whom the others wait for in a hang."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from railhead.contract import environment
from railhead.driver.rank import pod_report
from railhead.driver.rank.pod_report import TAIL_BYTES, PodReport, read_pod
from railhead.driver.storage.claims import Claimant, check_claim, take_run
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.train_controller.failures import flight_records, post_mortem
from railhead.driver.train_controller.failures.flight_records import KEPT_RANKS, keep_records
from railhead.driver.train_controller.failures.post_mortem import ask_pods, find_difference
from railhead.driver.train_controller.worker_group import Group, RankAnswer
from tests.unit.driver.evidence.texts_of_processes import BUS_ERROR, TIMEOUT_2_5
from tests.unit.driver.flight_dumps import Call, convert, make_dump, pickle_dump, run
from tests.unit.driver.processes import Process

WAITING = convert(make_dump([Call("all_reduce", 4, "scheduled")]))
LEFT_OUT = convert(make_dump(run(3)))
PROCESSES = {rank: Process("node", 100 + rank, hostname="w0") for rank in range(5)}


def test_reads_the_end_of_each_ranks_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    logs = tmp_path / "session_2026-11-22" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0a-01000000-71.err").write_text("x" * TAIL_BYTES + "\n" + BUS_ERROR)
    stacks = "\n".join([TIMEOUT_2_5, *["frame #9: <unknown function> + 0x8609"] * 5000])
    (logs / "worker-0b-01000000-72.err").write_text("x" * TAIL_BYTES + "\n" + stacks)
    found = read_pod({0: 71, 4: 72, 2: 73})
    assert [found[rank].words for rank in (0, 2)] == ["Fatal Python error: Bus error", ""]
    assert "Watchdog caught collective operation timeout" in found[4].words


@pytest.mark.parametrize(
    ("before", "answering", "lost"), [("8", 8, 0), ("8", 7, 1), ("8", 0, 8), ("8", None, 0), ("0", 0, 0), ("1", 2, 0)]
)
def test_counts_the_gpus_that_are_gone_since_the_pod_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, answering: int | None, lost: int
) -> None:
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    monkeypatch.setenv("RAILHEAD_GPUS", before)
    monkeypatch.setattr(pod_report, "begin_count_of_gpus", lambda: lambda: answering)
    [report] = read_pod({0: 71}).values()
    assert (report.lost_gpus, report.gpus) == (lost, int(before))


def test_reads_the_flight_record_of_each_process_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods keep what processes of earlier groups have left, some of them torn."""
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    dump = pickle_dump(make_dump(run(3)))
    for name, data in {"71-5": dump, "72-6": dump[:-30], "7-1": dump, "711-2": dump}.items():
        (tmp_path / f"flight-record-{name}").write_bytes(data)
    records = {rank: report.record for rank, report in read_pod({0: 71, 1: 72, 2: 73}).items()}
    assert records[0] is not None and len(json.loads(zlib.decompress(records[0]))["entries"]) == 3
    assert (records[1], records[2]) == (None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flight-record-7-1", "flight-record-711-2"]


class Nodes:
    """Ray's tasks, each with the node on which it runs; `silent` ones never end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, silent: set[str]) -> None:
        self.asked: dict[str, dict[int, int]] = {}
        self.silent = silent
        monkeypatch.setattr("ray.remote", lambda **options: lambda function: self)
        monkeypatch.setattr("ray.wait", self.wait)
        monkeypatch.setattr("ray.get", self.get)

    def options(self, *, scheduling_strategy: Any) -> Any:
        return SimpleNamespace(remote=partial(self.run, scheduling_strategy.node_id))

    def get(self, node: str) -> dict[int, PodReport]:
        return {rank: PodReport(f"{node} {pid}") for rank, pid in self.asked[node].items()}

    def run(self, node: str, pids: dict[int, int]) -> str:
        assert node not in self.asked, "one task per node"
        self.asked[node] = pids
        return node

    def wait(self, nodes: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert (num_returns, timeout) == (len(nodes), post_mortem.ANSWER_TIMEOUT_SECONDS)
        return [node for node in nodes if node not in self.silent], []


def test_asks_each_node_once_about_all_of_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods have the same process ids. A node that does not answer in time says nothing of the others."""
    ids = [f"{number:056x}" for number in range(64)]
    nodes = Nodes(monkeypatch, {ids[7]})
    found = ask_pods({rank: Process(ids[rank // 8], 100 + rank % 8) for rank in range(512)})
    assert {node: len(pids) for node, pids in nodes.asked.items()} == dict.fromkeys(ids, 8)
    assert set(range(512)) - set(found) == set(range(56, 64))
    assert [found[rank].words for rank in (0, 37, 511)] == [f"{ids[0]} 100", f"{ids[4]} 105", f"{ids[63]} 107"]


@pytest.fixture(name="group")
def make_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Group:
    """The group of a run that the second attempt has claimed."""
    folder = RunFolder(LocalFileSystem(), str(tmp_path / "run"))
    claim = take_run(folder, Claimant("0a1b"), attempt=2, pod="head")
    monkeypatch.setenv(environment.ATTEMPT, "2")
    workers: Any = object()
    group = Group(worker_group=workers)
    group.folder, group.check_fence = folder, partial(check_claim, folder, claim)
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
        monkeypatch.setattr(post_mortem, "call_ranks", self.call)
        monkeypatch.setattr(post_mortem, "ask_pods", self.ask_pods)

    def call(self, workers: Any, ranks: Iterable[int], function: Any, *, timeout: float) -> dict[int, RankAnswer[Any]]:
        self.asked["living"] = sorted(ranks)
        return {rank: RankAnswer(self.living.get(rank)) for rank in self.asked["living"]}

    def ask_pods(self, processes: dict[int, Process]) -> dict[int, PodReport]:
        self.asked["dead"] = sorted(processes)
        return {rank: PodReport(record=self.dead.get(rank)) for rank in processes}


def test_asks_each_rank_and_the_pods_of_those_that_died_meanwhile(
    group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = Ranks(monkeypatch, living={1: WAITING, 2: LEFT_OUT}, dead={3: WAITING})
    finding = find_difference({0: WAITING, 4: b"torn"}, PROCESSES, group)
    assert ranks.asked == {"living": [1, 2, 3], "dead": [3]}
    assert finding is not None
    assert finding.message == "rank 2 never entered ALLREDUCE #4 of default_pg, in which ranks 0-1 and 3 wait"
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
    take_run(folder, Claimant("0a1b"), attempt=3, pod="other")
    find_difference({0: WAITING, 1: LEFT_OUT}, PROCESSES, group)
    assert folder.list_names(".railhead/dumps") == []


def test_storage_that_hangs_or_fails_holds_up_no_restart(
    group: Group, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ranks(monkeypatch, living={}, dead={})
    release = threading.Event()
    monkeypatch.setattr(flight_records, "STORE_PATIENCE_SECONDS", 0.05)

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
