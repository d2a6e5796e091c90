"""When lost pods end the attempt: repeated OOM kills, too many rounds without a new checkpoint, or a head whose own
network is broken, so that it reaches none of its workers: it is replaced, not they, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.contract.report import ACCELERATOR_NOT_THERE, MAX_LOST_PODS, RunWarning
from railhead.planning.facts.pod_failure import classify_pod
from railhead.planning.plan import Plan
from railhead.planning.pod_view import PodView
from tests.model.operator import PODS
from tests.unit.builders import NOW, RUNNING_STATUS, make_head, make_spec, make_worker
from tests.unit.planning.simulation import KEY, Simulation
from tests.unit.planning.state import decide

CAN_CHANGE = ", which can change while the job is suspended"
CHECKPOINT = {"uri": "/runs/c7", "index": 7, "time": "2026-01-01T00:00:00Z", "attempt": 1}
HEAD_NODE = "head-node"
ROUND_SECONDS = 20  # until a driver misses the pods of the next round


def make_killed(round_: int, *, seconds_ago: float = 3600) -> PodView:
    """Worker 1, OOM-killed in this round."""
    finished = NOW - timedelta(seconds=seconds_ago)
    return make_worker(
        1, round_=round_, phase="Failed", is_running=False, exit_code=137, reason="OOMKilled", finished_at=finished
    )


def run(lost: PodView, losses: dict[str, int] | None, **changes: Any) -> Plan:
    status = {**RUNNING_STATUS, "round": lost.round, **changes}
    if losses is not None:
        status["workerLosses"] = losses
    return decide(make_head(), make_worker(0), lost, status=status)


def fields_of(wanted: Plan) -> dict[str, Any]:
    assert wanted.status is not None, wanted
    return dict(wanted.status.fields)


def test_the_third_oom_kill_in_a_row_without_a_checkpoint_ends_the_attempt_as_out_of_memory() -> None:
    counts = []
    losses: dict[str, int] | None = None
    for round_ in (0, 1):
        fields = fields_of(run(make_killed(round_), losses))
        assert fields["round"] == round_ + 1 and "failure" not in fields
        losses = fields["workerLosses"]
        counts.append(losses["ownFault"])
    assert counts == [1, 2]
    failure = fields_of(run(make_killed(2), losses))["failure"]
    assert failure["class"] == "OutOfMemory"
    assert failure["message"].endswith(f"{CAN_CHANGE} (3 times in a row without a new checkpoint)")


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (make_killed(0), "spec.scaling.resourcesPerWorker.memory"),
        (make_head(reason="OOMKilled", exit_code=137), "spec.head.resources.memory"),
        (replace(make_killed(0), container="proxy"), "its memory limit in podTemplate"),
    ],
)
def test_an_oom_kill_names_what_to_raise_and_when_that_is_possible(pod: PodView, field: str) -> None:
    assert classify_pod(pod).message.endswith(f"was OOM-killed; raise {field}{CAN_CHANGE}")


@pytest.mark.parametrize(("role", "explained"), [("head", True), ("worker", False)])
def test_a_head_that_ray_has_ended_names_the_raylet(role: str, *, explained: bool) -> None:
    pod = replace(make_head(reason="Error", exit_code=1), role=role)
    failure = classify_pod(pod)
    assert failure.class_ is FailureClass.INFRASTRUCTURE
    assert ("raylet" in failure.message) == explained


@pytest.mark.parametrize(("losses", "delay"), [(None, 10), ({"rounds": 1, "ownFault": 1, "checkpoint": -1}, 20)])
def test_an_oom_killed_pod_is_replaced_with_backoff(losses: dict[str, int] | None, delay: int) -> None:
    wanted = run(make_killed(1, seconds_ago=delay - 1), losses)
    assert (wanted.creates, wanted.wake_at) == ((), NOW + timedelta(seconds=1))
    assert fields_of(run(make_killed(1, seconds_ago=delay), losses))["round"] == 2


@pytest.mark.parametrize(("age", "is_due"), [(5, False), (10, True)])
def test_a_fast_node_clock_delays_a_replacement_only_by_its_backoff(age: int, is_due: bool) -> None:
    """Not until the operator's clock reaches the pod's finish time on the node's clock."""
    lost = replace(make_killed(1, seconds_ago=-3600), created_at=NOW - timedelta(seconds=age))
    wanted = run(lost, None)
    if is_due:
        assert fields_of(wanted)["round"] == 2
    else:
        assert (wanted.creates, wanted.wake_at) == ((), NOW + timedelta(seconds=10 - age))


def test_an_oom_kill_without_a_finish_time_causes_no_delay() -> None:
    lost = replace(make_killed(1), finished_at=None)
    assert fields_of(run(lost, None))["round"] == 2


def test_a_new_checkpoint_resets_the_counts() -> None:
    losses = {"rounds": 20, "ownFault": 2, "checkpoint": 6}
    fields = fields_of(run(make_killed(20), losses, checkpoint=CHECKPOINT))
    assert fields["workerLosses"] == {"rounds": 1, "ownFault": 1, "refused": 0, "checkpoint": 7}
    assert fields["round"] == 21, "a job that makes progress keeps its attempt"


def test_another_loss_between_two_oom_kills_resets_the_count() -> None:
    deleted = make_worker(1, round_=2, is_deleting=True)
    fields = fields_of(run(deleted, {"rounds": 2, "ownFault": 2, "checkpoint": -1}))
    assert fields["workerLosses"] == {"rounds": 3, "ownFault": 0, "refused": 0, "checkpoint": -1}


def test_a_pod_of_an_earlier_round_that_is_still_terminating_does_not_count() -> None:
    """It was OOM-killed and counted; now its successor is deleted."""
    earlier = replace(make_killed(1, seconds_ago=1), is_deleting=True)
    successor = make_worker(1, round_=2, is_deleting=True)
    status = {**RUNNING_STATUS, "round": 2, "workerLosses": {"rounds": 2, "ownFault": 2, "checkpoint": -1}}
    fields = fields_of(decide(make_head(), make_worker(0), earlier, successor, status=status))
    assert (fields["round"], fields["workerLosses"]["ownFault"]) == (3, 0)


def test_more_than_twenty_rounds_without_a_checkpoint_end_the_attempt() -> None:
    deleted = make_worker(1, round_=7, is_deleting=True)
    at_limit = {"rounds": 19, "ownFault": 0, "checkpoint": -1}
    assert fields_of(run(deleted, at_limit))["round"] == 8
    failure = fields_of(run(deleted, {**at_limit, "rounds": 20}))["failure"]
    assert failure["class"] == "Infrastructure"
    assert "worker pods were lost in 21 rounds without a new checkpoint" in failure["message"]


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
    wanted = decide(make_head(), *workers, status=status, spec=make_spec(scaling={"numWorkers": size}))
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
    assert sim.status["restarts"]["disruptions"] == 1 and "budget" not in sim.status


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
