"""Why a rank's process died: the last output of its runtime, and the GPUs of its pod that are gone."""

from __future__ import annotations

import json
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.driver.train_controller import deaths
from railhead.driver.train_controller.deaths import TAIL_BYTES, find_deaths, read_deaths
from railhead.driver.train_controller.evidence import Death
from railhead.driver.train_controller.group import Process
from tests.unit.driver.evidence.texts_of_processes import BUS_ERROR, TIMEOUT_2_5
from tests.unit.driver.flight_dumps import make_dump, pickle_dump, run


def test_reads_the_end_of_each_ranks_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    logs = tmp_path / "session_2026-11-22" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-0a-01000000-71.err").write_text("x" * TAIL_BYTES + "\n" + BUS_ERROR)
    stacks = "\n".join([TIMEOUT_2_5, *["frame #9: <unknown function> + 0x8609"] * 5000])
    (logs / "worker-0b-01000000-72.err").write_text("x" * TAIL_BYTES + "\n" + stacks)
    found = read_deaths([71, 72, 73])
    assert [found[pid].words for pid in (71, 73)] == ["Fatal Python error: Bus error", ""]
    assert "Watchdog caught collective operation timeout" in found[72].words


@pytest.mark.parametrize(
    ("before", "answering", "lost"), [("8", 8, 0), ("8", 7, 1), ("8", 0, 8), ("8", None, 0), ("0", 0, 0), ("1", 2, 0)]
)
def test_counts_the_gpus_that_are_gone_since_the_pod_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, answering: int | None, lost: int
) -> None:
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    monkeypatch.setenv("RAILHEAD_GPUS", before)
    monkeypatch.setattr(deaths, "begin_count", lambda: lambda: answering)
    [death] = read_deaths([71]).values()
    assert (death.lost_gpus, death.gpus) == (lost, int(before))


def test_reads_the_flight_record_of_each_process_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods keep what processes of earlier groups have left, some of them torn."""
    monkeypatch.setenv("RAILHEAD_TEMP", str(tmp_path))
    dump = pickle_dump(make_dump(run(3)))
    for name, data in {"71-5": dump, "72-6": dump[:-30], "7-1": dump, "711-2": dump}.items():
        (tmp_path / f"flight-record-{name}").write_bytes(data)
    records = {pid: death.record for pid, death in read_deaths([71, 72, 73]).items()}
    assert records[71] is not None and len(json.loads(zlib.decompress(records[71]))["entries"]) == 3
    assert (records[72], records[73]) == (None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flight-record-7-1", "flight-record-711-2"]


class Nodes:
    """Ray's tasks, each with the node on which it runs; `silent` ones never end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, silent: set[str]) -> None:
        self.asked: dict[str, list[int]] = {}
        self.silent = silent
        monkeypatch.setattr("ray.remote", lambda **options: lambda function: self)
        monkeypatch.setattr("ray.wait", self.wait)
        monkeypatch.setattr("ray.get", lambda node: {pid: Death(f"{node} {pid}") for pid in self.asked[node]})

    def options(self, *, scheduling_strategy: Any) -> Any:
        return SimpleNamespace(remote=partial(self.run, scheduling_strategy.node_id))

    def run(self, node: str, pids: list[int]) -> str:
        assert node not in self.asked, "one task per node"
        self.asked[node] = pids
        return node

    def wait(self, nodes: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert (num_returns, timeout) == (len(nodes), deaths.ANSWER_TIMEOUT)
        return [node for node in nodes if node not in self.silent], []


def test_asks_each_node_once_about_all_of_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pods have the same process ids. A node that does not answer in time says nothing of the others."""
    ids = [f"{number:056x}" for number in range(64)]
    nodes = Nodes(monkeypatch, {ids[7]})
    found = find_deaths({rank: Process(ids[rank // 8], 100 + rank % 8) for rank in range(512)})
    assert {node: len(pids) for node, pids in nodes.asked.items()} == dict.fromkeys(ids, 8)
    assert set(range(512)) - set(found) == set(range(56, 64))
    assert [found[rank].words for rank in (0, 37, 511)] == [f"{ids[0]} 100", f"{ids[4]} 105", f"{ids[63]} 107"]
