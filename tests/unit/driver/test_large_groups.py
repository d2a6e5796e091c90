"""What the head does for each node and rank of a large group, by counted calls and bytes; without any time.

The nodes have all the fields of Ray 2.60's `ray.nodes()`, with long values.
"""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.train import WorkerGroupError

from railhead.contract.job_input import ScalingInput
from railhead.contract.outcome import LIMIT_BYTES as OUTCOME_BYTES
from railhead.contract.outcome import Outcome
from railhead.contract.report import LIMIT_BYTES, MAX_LOST_PODS, Report
from railhead.driver.head import ray_cluster as ray_cluster_module
from railhead.driver.head.publisher import Publisher
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.progress import Progress
from railhead.driver.messages.rank_marks import name_process
from railhead.driver.rank.flight_dump import read_dump
from railhead.driver.ray import nodes as ray_nodes
from railhead.driver.train_controller.failures.collectives import Record, compare_records, parse_record
from railhead.driver.train_controller.failures.failure_policy import RetryDecider
from railhead.driver.train_controller.worker_group import Group
from tests.ray.pods import make_job
from tests.slow_cases import slow_after
from tests.unit.driver.flight_dumps import Call, make_dump, pickle_dump, run
from tests.unit.driver.mailboxes import tell
from tests.unit.driver.pod.test_ray_start import POD
from tests.unit.driver.train_controller.failures.test_failure_policy import dead_actor

# The bounds are the same for the larger one, which is slow.
SIZES = slow_after(1, (256, 1000))
METRICS = {f"metric-{number}": "1.23456e-05" for number in range(64)}
BASE = Report(namespace="ns", name="n", uid="u", attempt=2, state="STARTING")


def make_nodes(size: int) -> list[dict[str, Any]]:
    """Workers, after the head."""
    head = {**make_node(0), "Resources": {"node:__internal_head__": 1.0, "memory": 1e9}}
    return [head, *(make_node(number) for number in range(1, size + 1))]


def make_node(number: int) -> dict[str, Any]:
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    sockets = "/tmp/railhead/session_2026-11-23_06-38-14_123456_7/sockets"
    return {
        "NodeID": f"{number:056x}",
        "Alive": True,
        "NodeManagerAddress": address,
        "NodeManagerHostname": f"a-rather-long-name-of-a-job-7f3a-worker-{number}",
        "NodeManagerPort": 40001,
        "ObjectManagerPort": 40002,
        "ObjectStoreSocketName": f"{sockets}/plasma_store",
        "RayletSocketName": f"{sockets}/raylet",
        "MetricsExportPort": 40003,
        "NodeName": address,
        "RuntimeEnvAgentPort": 40004,
        "DeathReason": 0,
        "DeathReasonMessage": "",
        "alive": True,
        "Resources": {"CPU": 8.0, "GPU": 8.0, f"node:{address}": 1.0, "memory": 1e12, "accelerator_type:H100": 1.0},
        "Labels": {"ray.io/node-id": f"{number:056x}", "ray.io/accelerator-type": "H100"},
    }


class Cluster:
    """Counts calls; `nodes` is what Ray lists, `lost` the addresses that do not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self.nodes: list[dict[str, Any]] = []
        self.lost: set[str] = set()
        monkeypatch.setattr("ray.nodes", self.list_nodes)
        monkeypatch.setattr(ray_nodes, "is_listening", self.probe)

    def list_nodes(self) -> list[dict[str, Any]]:
        self.calls["ray.nodes"] += 1
        return self.nodes

    def probe(self, address: str, port: int, *, timeout: float) -> bool:
        self.calls["probe"] += 1
        return address not in self.lost


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


@pytest.mark.parametrize("size", SIZES)
def test_a_round_asks_ray_once_and_probes_only_while_a_lost_node_is_listed(
    size: int, ray_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, counts = make_nodes(size + 1), list[int]()
    rounds = [nodes[: size // 2], nodes[: size + 1], nodes[: size + 1], nodes, [nodes[0], *nodes[2:]]]
    probes: list[int] = []
    ray_cluster.lost = {nodes[1]["NodeManagerAddress"]}

    def next_round(seconds: float) -> None:
        probes.append(ray_cluster.calls["probe"] - sum(probes))
        if len(probes) == len(rounds):
            raise StopIteration
        ray_cluster.nodes = rounds[len(probes)]

    ray_cluster.nodes = rounds[0]
    monkeypatch.setattr(ray_cluster_module, "time", SimpleNamespace(sleep=next_round))
    publisher = SimpleNamespace(update=lambda change: counts.append(change(BASE).joined), forget_warning=str)
    job = make_job(worker_pods=size, scaling=ScalingInput(size, accelerator_type="H100"))
    with pytest.raises(StopIteration):
        ray_cluster_module.watch_nodes(POD, job, publisher, on_fatal=pytest.fail)  # type: ignore[arg-type]
    assert counts == [size // 2 - 1, size]
    assert probes == [0, 0, 0, size + 2, 0], "the head's own node too"
    assert ray_cluster.calls["ray.nodes"] == len(rounds) + 1


@pytest.mark.parametrize("size", SIZES)
def test_the_loss_of_all_nodes_stays_within_the_bounds_of_a_report(
    size: int, ray_cluster: Cluster, tmp_path: Path
) -> None:
    ray_cluster.nodes = make_nodes(size)
    workers = [
        SimpleNamespace(
            metadata=SimpleNamespace(
                node_id=n["NodeID"], pid=7, node_ip=n["NodeManagerAddress"], hostname=n["NodeManagerHostname"]
            )
        )
        for n in ray_cluster.nodes[1:]
    ]
    found: Any = SimpleNamespace(get_workers=lambda: workers)
    group = Group(worker_group=found)
    for node in ray_cluster.nodes[1:]:
        node["Alive"] = False
    mailbox = Mailbox(tmp_path)
    processes = tuple(name_process(node["NodeID"], 1234567) for node in ray_cluster.nodes[1:])
    tell(mailbox.controller, progress=Progress(state="RUNNING", metrics=METRICS, processes=processes))
    error = WorkerGroupError("Ray's own text. " * size, {rank: dead_actor("gone" * 99) for rank in range(size)})
    assert RetryDecider(group, Mailbox(tmp_path), max_failures=0).decide(error)
    assert ray_cluster.calls["ray.nodes"] <= 3 and ray_cluster.calls["probe"] == 0, "Ray knows of the loss"

    report = Publisher(endpoint=None, mailbox=mailbox, base=BASE).build_report()
    body = report.to_json()
    assert len(body) <= LIMIT_BYTES
    assert (len(json.loads(body)["lost_pods"]), report.workers) == (MAX_LOST_PODS, size)
    assert report.metrics == METRICS, "there is room for them"
    assert len((tmp_path / "fit-1.json").read_bytes()) <= LIMIT_BYTES, "it is written with each report of the group"


@pytest.mark.parametrize("size", SIZES)
def test_the_message_of_a_failure_of_all_ranks_is_short(size: int, ray_cluster: Cluster, tmp_path: Path) -> None:
    error = WorkerGroupError("text " * size, {rank: ValueError("no " * 999) for rank in range(size)})
    assert not RetryDecider(Group(), Mailbox(tmp_path), max_failures=0).decide(error)
    found = Mailbox(tmp_path).controller.read().failure
    assert found is not None and "; also failed: ranks 1-" in found.message
    assert len(Outcome(found.class_.value, found.reason, found.message).to_json().encode()) <= OUTCOME_BYTES


@pytest.mark.slow
def test_512_full_dumps_one_of_them_torn() -> None:
    """2000 calls each, each dump read by a process of its own: about 30 s of two processors, 53 s on a busy machine."""
    usual = pickle_dump(make_dump([*run(1999), Call("all_reduce", 2000, "scheduled")]))
    dumps = dict.fromkeys(range(512), usual) | {37: pickle_dump(make_dump(run(1999))), 41: usual[:-9]}
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(dumps, pool.map(read_dump, dumps.values()), strict=True))
    records: dict[int, Record] = {}
    for rank, data in found.items():
        record = parse_record(data) if data else None
        if record is not None:
            records[rank] = record
    finding = compare_records(records, size=512)
    assert len(records) == 511 and finding is not None
    assert finding.message.startswith("rank 37 never entered ALLREDUCE #2000 of default_pg, in which ranks 0-36")
