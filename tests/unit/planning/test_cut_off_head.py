"""A head whose own network is broken reaches none of its workers: it is replaced, not they, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.report import ACCELERATOR_NOT_THERE, MAX_LOST_PODS, RunWarning
from railhead.planning.planner import plan
from tests.model.operator import PODS
from tests.unit.builders import RUNNING_STATUS, make_head, make_observed, make_spec, make_worker
from tests.unit.planning.simulation import KEY, Simulation

HEAD_NODE = "head-node"
ROUND_SECONDS = 20  # until a driver misses the pods of the next round


def start(sim: Simulation, *, nodes: int = 512, beside: int = 0) -> None:
    """Starts the pods that do not run, on new nodes; the first workers on that of the head."""
    numbers = count()
    for name, pod in sorted(sim.pods.items()):
        if pod.is_live and not pod.node:
            is_beside = pod.role == names.HEAD or pod.slot < beside
            node = HEAD_NODE if is_beside else f"{sim.now:%H-%M-%S}-{next(numbers) % nodes}"
            sim.api.bind(name, node, namespace=KEY.namespace)
    sim.start_pods()


def train(*, nodes: int = 512, beside: int = 0, **spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.settle()
    start(sim, nodes=nodes, beside=beside)
    sim.settle()
    sim.report()
    sim.settle()
    return sim


def find_remote(sim: Simulation) -> list[str]:
    """The workers on other nodes than the head's."""
    return sorted(name for name, pod in sim.pods.items() if pod.is_live and pod.node not in ("", HEAD_NODE))


def miss(sim: Simulation, lost: Iterable[str], *, warning: RunWarning | None = None) -> None:
    """The driver reports that these do not answer."""
    sim.report("RESTARTING", lost_pods=tuple(lost), warning=warning)
    sim.settle()


def cut_off(sim: Simulation, *, nodes: int = 512, beside: int = 0) -> int:
    """The head calls all workers in vain, but those on its own node. Returns how many rounds that costs."""
    before = int(sim.status["round"])
    for _ in range(3):
        miss(sim, find_remote(sim))
        if sim.status["attempt"] > 1 or "failure" in sim.status:
            break
        start(sim, nodes=nodes, beside=beside)
        sim.later(ROUND_SECONDS)
    assert sim.status.get("failure", {}).get("reason") == "HeadCutOff"
    return int(sim.status["round"]) - before


def test_a_head_that_is_cut_off_costs_its_attempt_and_no_round() -> None:
    sim = train(scaling={"numWorkers": 64})
    assert cut_off(sim) == 0
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.count_created(PODS) == 2 * 65


@pytest.mark.parametrize(("lost", "is_cut_off"), [(MAX_LOST_PODS, True), (MAX_LOST_PODS - 1, False)])
def test_a_full_report_counts_as_most_of_a_large_group(lost: int, is_cut_off: bool) -> None:
    size = 4 * MAX_LOST_PODS
    workers = [make_worker(slot, node=f"node-{slot}") for slot in range(size)]
    progress = {"attempt": 1, "state": "RESTARTING", "joined": size, "lostPods": [pod.name for pod in workers[:lost]]}
    status = {**RUNNING_STATUS, "progress": progress, "workers": {"desired": size, "ready": size, "joined": size}}
    wanted = plan(make_observed(make_head(), *workers, status=status, spec=make_spec(scaling={"numWorkers": size})))
    assert wanted.status is not None and ("failure" in wanted.status.fields) == is_cut_off


@pytest.mark.parametrize(
    ("workers", "nodes", "beside", "rounds"),
    [
        pytest.param(2, 2, 0, 0, id="two nodes"),
        pytest.param(8, 4, 4, 0, id="half of the workers beside the head"),
        pytest.param(1, 1, 0, 1, id="one worker"),
        pytest.param(4, 1, 0, 1, id="one node"),
        pytest.param(2, 1, 1, 1, id="one of two workers beside the head"),
    ],
)
def test_it_costs_one_round_where_the_loss_of_one_node_looks_the_same(
    workers: int, nodes: int, beside: int, rounds: int
) -> None:
    sim = train(scaling={"numWorkers": workers}, nodes=nodes, beside=beside)
    assert cut_off(sim, nodes=nodes, beside=beside) == rounds


def test_the_head_and_its_node_are_suspected_and_the_job_is_not_at_fault() -> None:
    sim = train(backoffLimit=0, noProgressLimit=0)
    head = sim.head.name
    cut_off(sim)
    failure = sim.status["failure"]
    assert (failure["class"], failure["pod"], failure["node"]) == ("Infrastructure", head, HEAD_NODE)
    assert (failure["suspectPod"], failure["suspectNode"]) == (head, HEAD_NODE)
    assert f"{head} on node {HEAD_NODE} does not reach 2 of 2 worker pods" in failure["message"]
    assert sim.status["phase"] == "Restarting" and "avoidedNodes" not in sim.status
    sim.later(60)
    sim.settle()
    assert sim.status["disruptions"]["total"] == 1 and "budget" not in sim.status


def test_heads_that_are_cut_off_one_after_the_other_are_replaced_ever_more_slowly() -> None:
    sim = train(noProgressLimit=0)
    for _ in range(360):
        if sim.status.get("failure", {}).get("attempt") != sim.status["attempt"]:
            start(sim)
            miss(sim, find_remote(sim))
        sim.later(10)
        sim.settle()
    assert sim.status["phase"] != "Failed" and 8 <= sim.status["attempt"] <= 20
    assert sim.count_created(PODS) == 3 * sim.status["attempt"]


def mark(sim: Simulation, lost: list[str]) -> None:
    """The node lifecycle controller finds that most of their nodes do not respond, and looks at the others next."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    for name in lost[:-2]:
        sim.api.patch((PODS, KEY.namespace, name), {"status": {"conditions": conditions}}, subresource="status")


def delete(sim: Simulation, lost: list[str]) -> None:
    for name in lost:
        sim.evict(name, gone_in=60)


def leave_alone(sim: Simulation, lost: list[str]) -> None:
    pass


WRONG = RunWarning(ACCELERATOR_NOT_THERE, "node n has another GPU")
ELASTIC = {"minWorkers": 1, "maxWorkers": 8, "desiredWorkers": 8}


@pytest.mark.parametrize(
    ("happens", "lost", "scaling", "warning"),
    [
        pytest.param(leave_alone, 4, {"numWorkers": 8}, None, id="half of the workers do not answer"),
        pytest.param(mark, 8, {"numWorkers": 8}, None, id="Kubernetes has marked most of them"),
        pytest.param(delete, 8, {"numWorkers": 8}, None, id="they are being deleted"),
        pytest.param(leave_alone, 7, ELASTIC, None, id="an elastic job trains with the others"),
        pytest.param(leave_alone, 7, {"numWorkers": 8}, WRONG, id="the driver reaches them and does not want them"),
    ],
)
def test_a_head_that_is_not_at_fault_keeps_its_attempt(
    happens: Callable[[Simulation, list[str]], None], lost: int, scaling: dict[str, int], warning: RunWarning | None
) -> None:
    sim = train(scaling=scaling)
    missed = find_remote(sim)[:lost]
    happens(sim, missed)
    miss(sim, missed, warning=warning)
    assert (sim.status["attempt"], sim.status["round"]) == (1, 1) and "failure" not in sim.status
    assert len(find_remote(sim)) == 8 - lost and sim.count_created(PODS) == 9 + lost


def test_a_node_that_is_lost_after_each_checkpoint_ends_no_attempt() -> None:
    sim = train(scaling={"numWorkers": 1})
    for index in range(4):
        sim.report(checkpoint=index)
        sim.settle()
        miss(sim, find_remote(sim))
        start(sim)
        sim.later(ROUND_SECONDS)
        sim.settle()
    assert (sim.status["attempt"], sim.status["round"]) == (1, 4)
