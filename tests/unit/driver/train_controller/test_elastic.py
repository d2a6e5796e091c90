"""When an elastic group starts, with how many workers, and when it is resized."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.job_input import WORKER_SLOT, ElasticInput, ScalingInput
from railhead.driver.fit.train_func_trainer import plan_configs
from railhead.driver.pod.ray_start import build_ray_environment
from railhead.driver.ray import nodes as ray_nodes
from railhead.driver.ray.nodes import LostNode
from railhead.driver.train_controller import elastic
from railhead.driver.train_controller.elastic import Bounds, decide_resize, decide_start
from railhead.driver.train_controller.worker_group import Group
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.ray.pods import make_job
from tests.unit.builders import make_spec

SCALING = ScalingInput(
    8,
    elastic=ElasticInput(min_workers=2, workers_per_pod=2, start_wait_seconds=30, resize_interval_seconds=60),
)
BOUNDS = Bounds(least=2, most=8, desired=6, per_pod=2, start_wait=30, resize_interval=60)


class Nodes:
    """The nodes that Ray lists and those that a probe finds lost, with a count of calls."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, found: frozenset[str], lost: frozenset[str] = frozenset()
    ) -> None:
        self.found, self.lost, self.lists, self.probes = found, lost, 0, 0
        monkeypatch.setattr(elastic, "list_worker_nodes", self._list)
        monkeypatch.setattr(elastic, "list_lost", self._probe)

    def _list(self) -> frozenset[str]:
        self.lists += 1
        return self.found

    def _probe(self, nodes: frozenset[str]) -> frozenset[str]:
        self.probes += len(nodes)
        return self.lost


@pytest.mark.parametrize(
    ("nodes", "waited", "has_run", "workers"),
    [
        (0, 1000.0, True, None),
        (1, 0.0, False, None),
        (2, 29.9, False, None),
        (1, 30.0, False, 2),
        (2, 30.0, False, 4),
        (3, 0.0, False, 6),
        (4, 0.0, False, 8),
        (9, 0.0, False, 8),
        (2, 0.0, True, 4),
    ],
)
def test_decides_the_start(nodes: int, waited: float, has_run: bool, workers: int | None) -> None:
    assert decide_start(BOUNDS, nodes=nodes, waited=waited, has_run=has_run) == workers


@pytest.mark.parametrize(
    ("nodes", "workers", "ran", "resized"),
    [(3, 4, 60.0, 6), (3, 4, 59.9, None), (2, 4, 60.0, None), (1, 4, 60.0, None), (9, 4, 60.0, 8), (9, 8, 60.0, None)],
)
def test_decides_a_resize(nodes: int, workers: int, ran: float, resized: int | None) -> None:
    assert decide_resize(BOUNDS, nodes=nodes, workers=workers, ran=ran) == resized


@given(st.integers(0, 20), st.floats(0, 100), st.booleans())
def test_a_group_is_within_its_bounds_and_fills_its_pods(nodes: int, waited: float, has_run: bool) -> None:
    workers = decide_start(BOUNDS, nodes=nodes, waited=waited, has_run=has_run)
    if workers is not None:
        assert BOUNDS.least <= workers <= BOUNDS.most and workers % BOUNDS.per_pod == 0
        assert workers <= nodes * BOUNDS.per_pod


def test_considers_a_resize_only_after_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, frozenset("abc"))
    group = Group()
    decider = elastic.ResizeDecider(replace(BOUNDS, resize_interval=0), group)
    assert decider.decide_start() == 6
    assert decider.decide_resize(workers=4) is None and nodes.lists == 1
    group.commits = 1
    assert decider.decide_resize(workers=4) == 6
    assert decider.decide_resize(workers=4) is None
    assert nodes.lists == 2
    assert nodes.probes == 3, "a node that is alive for Ray may be lost by now"


def test_does_not_count_a_lost_node_that_is_alive_for_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"NodeID": name, "Alive": name != "gone", "Resources": {WORKER_SLOT: 1.0}} for name in ("a", "b", "gone")]
    head = {"NodeID": "head", "Alive": True, "Resources": {}}
    monkeypatch.setattr("ray.nodes", lambda: [*nodes, head])
    monkeypatch.setattr(
        elastic, "list_lost_nodes", lambda nodes: [LostNode(n, n, is_known=False) for n in nodes & {"b", "head"}]
    )
    found = ray_nodes.list_worker_nodes()
    assert found == {"a", "b"}
    assert elastic.list_lost(found) == {"b"}


def test_a_group_below_its_minimum_waits_without_spinning_or_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray asks for a decision again as soon as it has one."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(elastic, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    nodes = Nodes(monkeypatch, frozenset(f"n{number}" for number in range(60)), lost=frozenset(["n0"]))
    decider = elastic.ResizeDecider(replace(BOUNDS, least=60, most=64, desired=60, per_pod=1), Group())
    assert decider.decide_start() == 60 and nodes.probes == 0
    calls = 0
    while now < 59:
        calls += 1
        assert decider.decide_start() is None, "one of them is lost"
    assert nodes.probes == 60, "each node once"
    assert nodes.lists <= 1 + 1 + 60 and calls <= 60 * 6
    now = 62.0
    assert decider.decide_start() == 60, "by now Ray itself would have noticed"


def test_the_bounds_of_a_start_are_those_of_the_input_and_the_wanted_pods() -> None:
    assert Bounds.from_job(SCALING, worker_pods=3) == BOUNDS
    assert Bounds.from_job(SCALING, worker_pods=None) == replace(BOUNDS, desired=8)
    assert Bounds.from_job(ScalingInput(8), worker_pods=3) is None


def test_ray_receives_the_bounds_and_the_input_omits_the_desired_number() -> None:
    job = JobRef(namespace="team", name="digits", uid="0f1e2d3c-1111-2222-3333-444444444444")
    bounds = {"minWorkers": 2, "maxWorkers": 8, "workersPerPod": 2}
    built = build_job_input(job, make_spec(scaling={**bounds, "desiredWorkers": 4}))
    assert built == build_job_input(job, make_spec(scaling={**bounds, "desiredWorkers": 8}))
    assert built.worker_pods == 4
    assert built.scaling.elastic == ElasticInput(2, 2, start_wait_seconds=120, resize_interval_seconds=60)
    plan = plan_configs(built, storage_path="/runs")
    assert plan.scaling["num_workers"] == (2, 8)
    assert plan.scaling["elastic_resize_monitor_interval_s"] == 60


def test_an_elastic_group_has_a_short_start_timeout() -> None:
    from tests.unit.driver.pod.test_ray_start import POD

    def timeout(scaling: ScalingInput) -> str | None:
        job = make_job(scaling=scaling)
        built = build_ray_environment({}, job=job, pod=POD, folder="/")
        return built.get("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S")

    assert timeout(ScalingInput(2, elastic=SCALING.elastic)) == "20"
    assert timeout(ScalingInput(2)) is None
