"""A node whose kubelet refuses a job's pod gets no more of them for a while, unless no other node is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.api.status import MAX_AVOIDED_NODES
from railhead.contract.outcome import Outcome
from railhead.contract.report import RestartInPlace
from railhead.contract.times import format_time, parse_time
from railhead.planning.facts.avoided_nodes import (
    Evidence,
    compute_avoidance,
    explain_avoided,
    explain_used_again,
    list_evidence,
)
from railhead.planning.facts.pod_failure import classify_pod
from railhead.planning.pod_view import PodView, Problem
from railhead.resources.placement import REQUIRED
from tests.model.api_server import Object
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    is_empty,
    make_head,
    make_job,
    make_spec,
    make_worker,
)
from tests.unit.planning.simulation import JOB, Simulation
from tests.unit.planning.state import decide
from tests.unit.planning.test_refused_pods import HOUR, refuse

MINUTE = timedelta(minutes=1)
FULL = "0/9 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 8 Insufficient nvidia.com/gpu."


def avoided_by(body: Object) -> set[str]:
    """What the scheduler reads."""
    rules = (body["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = rules[REQUIRED]["nodeSelectorTerms"] if REQUIRED in rules else []
    return {f["values"][0] for term in terms for f in term.get("matchFields", []) if f["operator"] == "NotIn"}


class Cluster:
    """One pod per node. The scheduler takes the first free node, so a sick one first: it is always free.

    Attributes:
        sick: nodes whose kubelets refuse pods.
    """

    def __init__(self, sim: Simulation, *, sick: Iterable[str], healthy: int) -> None:
        self.sim, self.sick = sim, set(sick)
        self.nodes = [*sorted(sick), *(f"node-{number}" for number in range(healthy))]

    def act(self) -> None:
        for name, body in self.sim.bodies.items():
            pod = self.sim.pods[name]
            if pod.is_live and not pod.node:
                self._place(name, body)
            elif pod.is_live and not pod.is_running:
                self.sim.start_pod(name)

    def _place(self, name: str, body: Object) -> None:
        taken = {pod.node for pod in self.sim.pods.values() if not pod.is_over}
        node = next((node for node in self.nodes if node not in taken | avoided_by(body)), None)
        if node is None:
            self.sim.cannot_schedule(name, FULL)
            return
        self.sim.api.bind(name, node, namespace="default")
        if node in self.sick:
            refuse(self.sim, name)

    def play(self, seconds: float) -> None:
        sim, end = self.sim, self.sim.now + timedelta(seconds=seconds)
        while sim.now < end:
            self.act()
            if is_empty(sim.reconcile()) and sim.last.wake_at is not None and sim.last.wake_at > sim.now:
                sim.now = min(sim.last.wake_at, end)
            else:
                sim.later(1)

    def break_node_of(self, *, slot: int) -> str:
        """Its kubelet restarts, and refuses the pod that runs there."""
        pod = next(pod for pod in self.sim.pods.values() if pod.slot == slot and pod.is_live)
        self.sick.add(pod.node)
        self.nodes.sort(key=lambda node: node not in self.sick)
        refuse(self.sim, pod.name)
        return pod.node

    def train(self) -> None:
        self.play(10)
        self.sim.report()
        self.sim.settle()
        assert self.sim.status["phase"] == "Running"


def listed(sim: Simulation) -> list[str]:
    return [node["name"] for node in sim.status.get("avoidedNodes", [])]


@pytest.mark.parametrize("workers", [8, 30])
def test_a_refusing_node_costs_one_pod_while_another_node_is_free(workers: int) -> None:
    sim = Simulation(scaling={"numWorkers": workers}, backoffLimit=0, noProgressLimit=0)
    cluster = Cluster(sim, sick=[], healthy=workers + 2)
    cluster.train()
    node = cluster.break_node_of(slot=3)
    healthy = {pod.uid for pod in sim.pods.values() if pod.slot != 3}
    cluster.play(HOUR - 60)
    assert sim.count_created("pods") <= workers + 1 + 3
    assert healthy <= {pod.uid for pod in sim.pods.values()}
    assert listed(sim) == [node]
    assert sim.status["avoidedNodes"][0]["reason"] == "NodeRefusedPod"
    assert sim.events.count("NodeAvoided") == 1
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_a_refused_head_avoids_the_node_in_the_next_attempt() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    assert len(sim.heads) == 2 and sim.status["attempt"] == 2
    assert sim.head.node != "sick" and listed(sim) == ["sick"]
    body = sim.bodies[sim.head.name]
    assert avoided_by(body) == {"sick"} and body["metadata"]["annotations"][names.AVOIDED_NODES] == "sick"


def test_an_avoidance_ends_after_an_hour_and_the_next_one_after_twice_as_long() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    for hours in (1, 2, 4):
        cluster.play(hours * HOUR - 60)
        assert listed(sim) == ["sick"]
        cluster.play(90)
        assert listed(sim) == [] and sim.status["formerlyAvoidedNodes"][0]["times"] == hours.bit_length()
        sim.lose(next(pod.name for pod in sim.pods.values() if pod.slot == 0))
        cluster.play(10)
        assert listed(sim) == ["sick"] and "formerlyAvoidedNodes" not in sim.status
    assert sim.events.count("NodeAvoided") == 4 and sim.events.count("NodeAvoidanceEnded") == 3


BROKEN = Outcome("Hardware", "GPUFailed", "rank 1: CUDA error: uncorrectable ECC error encountered")


def fail_on_node_of(sim: Simulation, slot: int, outcome: Outcome) -> str:
    """The driver ends the attempt, and suspects the pod of this slot."""
    pod = next(pod for pod in sim.pods.values() if pod.slot == slot and pod.is_live)
    sim.end_with(replace(outcome, suspect_pod=pod.name))
    return pod.node


@pytest.mark.parametrize("reason", ["GPUFailed", "ProcessNotEnding", "NodeEvicted"])
def test_sure_evidence_of_broken_hardware_keeps_the_next_attempt_off_the_node(reason: str) -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=[], healthy=5)
    cluster.train()
    node = fail_on_node_of(sim, 1, replace(BROKEN, reason=reason))
    cluster.play(300)
    assert sim.status["attempt"] == 2 and listed(sim) == [node]
    assert sim.status["avoidedNodes"][0]["reason"] == reason
    assert all(avoided_by(sim.bodies[pod.name]) == {node} for pod in sim.pods.values())
    [event] = [e.object for e in sim.api.log if e.plural == "events" and e.object["reason"] == "NodeAvoided"]
    assert "uncorrectable ECC error" in event["message"]
    cluster.play(HOUR)
    assert listed(sim) == [], "an old failure is no news"
    sim.report()
    node = fail_on_node_of(sim, 1, replace(BROKEN, reason=reason))
    cluster.play(300)
    assert listed(sim) == [node]


def test_a_broken_gpu_costs_one_pod_and_the_group_forms_anew_in_place() -> None:
    sim = Simulation(scaling={"numWorkers": 8})
    cluster = Cluster(sim, sick=[], healthy=10)
    cluster.train()
    pod = next(pod for pod in sim.pods.values() if pod.slot == 3)
    healthy = {each.uid for each in sim.pods.values()} - {pod.uid}
    failed = RestartInPlace(1, 0, "Hardware", "GPUFailed", "rank 3: uncorrectable ECC error", pod.name)
    sim.report("RESTARTING", restart=failed)
    sim.report("RESTARTING", restart=failed, lost_pods=(pod.name,))
    cluster.play(60)
    assert listed(sim) == [pod.node] and sim.status["avoidedNodes"][0]["reason"] == "GPUFailed"
    [new] = [each for each in sim.pods.values() if each.slot == 3]
    assert avoided_by(sim.bodies[new.name]) == {pod.node} and healthy <= {each.uid for each in sim.pods.values()}
    assert (sim.status["attempt"], sim.status["round"]) == (1, 1) and "budget" not in sim.status
    sim.report(restart=failed, lost_pods=(pod.name,))
    cluster.play(HOUR)
    assert listed(sim) == [] and sim.status["phase"] == "Running"
    lost = next(each for each in sim.pods.values() if each.slot == 5)
    sim.report("RESTARTING", restart=failed, lost_pods=(lost.name,))
    cluster.play(60)
    assert listed(sim) == [], "another pod was lost for another reason"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Hardware", "NetworkFailed"),
        ("Hardware", "BusError"),
        ("Hang", "CollectiveTimedOut"),
        ("Application", "GPUFailed"),
    ],
)
def test_a_guess_is_no_evidence_against_a_node(kind: str, reason: str) -> None:
    sim = Simulation(backoffLimit=3)
    cluster = Cluster(sim, sick=[], healthy=5)
    cluster.train()
    fail_on_node_of(sim, 1, Outcome(kind, reason, "rank 1: some words"))
    cluster.play(300)
    assert sim.status["attempt"] == 2 and listed(sim) == [] and sim.status["failure"]["suspectNode"]


LOST = Outcome("Hardware", "GPULost", "rank 1: CUDA error: unknown error")
HANG = Outcome("Hang", "ProgressDeadlineExceeded", "rank 1 is elsewhere than all others")
CUT_OFF = Outcome("Infrastructure", "HeadCutOff", "the head reaches none of its workers")


@pytest.mark.parametrize(
    ("outcome", "hours", "is_avoided"),
    [
        (LOST, 1, True),
        (replace(LOST, reason="BusError"), 1, True),
        (HANG, 23, True),
        (HANG, 25, False),
        (replace(LOST, reason="NetworkFailed"), 1, False),
        (CUT_OFF, 1, False),
    ],
)
def test_likely_evidence_counts_after_twice_on_one_node_within_a_day(
    outcome: Outcome, hours: int, is_avoided: bool
) -> None:
    sim = Simulation(backoffLimit=9, noProgressLimit=9)
    cluster = Cluster(sim, sick=[], healthy=4)
    cluster.train()
    node = fail_on_node_of(sim, 0, outcome)
    cluster.play(60)
    cluster.train()
    assert listed(sim) == [] and sim.status["attempt"] == 2
    sim.later(hours * HOUR)
    other = next(pod for pod in sim.pods.values() if pod.is_live and pod.node != node and pod.slot is not None)
    fail_on_node_of(sim, other.slot, outcome)
    cluster.play(60)
    cluster.train()
    assert listed(sim) == [], "once on each of two nodes"
    same = next(pod for pod in sim.pods.values() if pod.is_live and pod.node == node)
    sim.end_with(replace(outcome, suspect_pod=same.name))
    cluster.play(60)
    assert sim.status["attempt"] == 4 and listed(sim) == ([node] if is_avoided else [])


@pytest.mark.parametrize("seconds_ahead", [0, 90])
def test_restarts_in_place_are_likely_evidence_each_once(seconds_ahead: int) -> None:
    """By the time that the driver gives, whose clock may be ahead."""
    sim = Simulation()
    cluster = Cluster(sim, sick=[], healthy=5)
    cluster.train()
    pod = next(pod for pod in sim.pods.values() if pod.slot == 1)

    def restart(number: int) -> None:
        at = format_time(sim.now + timedelta(seconds=seconds_ahead))
        failed = RestartInPlace(number, 0, "Hang", "CollectiveTimedOut", "rank 1 waits for nothing", pod.name, at)
        sim.report("RESTARTING", restart=failed)
        cluster.play(20)
        assert listed(sim) == ([pod.node] if number == 2 else []), "the same restart is in each report"
        for _ in range(3):
            sim.later(HOUR)
            sim.report(restart=failed)
            sim.settle()

    restart(1)
    restart(2)
    assert sim.events.count("NodeAvoided") == 1
    assert listed(sim) == [], "an hour is over, and the same restart is no news"
    assert sim.status["formerlyAvoidedNodes"][0]["times"] == 1
    assert sim.status["formerlyAvoidedNodes"][0]["name"] == pod.node


def unseen(pod: PodView, *, minutes: float, created_hours: float = 1) -> PodView:
    """Its node has rebooted that long ago."""
    return replace(
        pod,
        phase="Failed",
        is_running=False,
        exit_code=255,
        reason="ContainerStatusUnknown",
        created_at=NOW - timedelta(hours=created_hours),
        finished_at=NOW - timedelta(minutes=minutes),
    )


@pytest.mark.parametrize(("hours", "is_avoided"), [(0.01, False), (0.1, True), (23, True), (25, False), (None, False)])
@pytest.mark.parametrize("role", [names.HEAD, names.WORKER])
def test_a_second_reboot_under_the_jobs_pods_within_a_day_makes_the_node_avoided(
    role: str, hours: float | None, is_avoided: bool
) -> None:
    """Since the first one ended, however long its pods had run; pods that end within a minute were in one reboot."""
    former = []
    if hours is not None:
        since = format_time(NOW - timedelta(hours=hours))
        former = [{"name": "sick", "reason": "NodeRebooted", "since": since, "times": 0}]
    head, worker = make_head(), make_worker(1)
    if role == names.HEAD:
        head = unseen(make_head(node="sick"), minutes=0, created_hours=100)
    else:
        worker = unseen(make_worker(1, node="sick"), minutes=0, created_hours=100)
    status = {**RUNNING_STATUS, "formerlyAvoidedNodes": former}
    found = compute_avoidance(make_job(head, make_worker(0), worker, status=status))
    assert [(node.name, node.reason) for node in found.nodes] == ([("sick", "NodeRebooted")] if is_avoided else [])
    assert is_avoided or [(node.name, node.times) for node in found.former] == [("sick", 0)]


def test_pods_of_one_node_that_end_together_have_ended_in_one_reboot() -> None:
    workers = [unseen(make_worker(slot, node="sick"), minutes=slot / 3) for slot in range(3)]
    found = compute_avoidance(make_job(make_head(), *workers, status=RUNNING_STATUS, spec=make_spec(scaling=THREE)))
    assert not found.nodes and [node.name for node in found.former] == ["sick"]


THREE = {"numWorkers": 3}


def test_the_evidence_of_an_end_without_a_cause_names_the_pod_and_when_it_ended() -> None:
    rebooted = unseen(make_worker(0, node="n0"), minutes=1)
    killed = replace(unseen(make_worker(1, node="n1"), minutes=2), reason="Error", exit_code=137)
    reboot = f"Node n0 has rebooted under pod {rebooted.name}, or its container runtime restarted"
    kill = f"Pod {killed.name} was killed on node n1 for no known reason, such as when the node has no memory left"
    assert list_evidence(make_job(make_head(), rebooted, killed, status=RUNNING_STATUS)) == [
        Evidence("n0", "NodeRebooted", reboot, NOW - MINUTE, needs_another=True, apart=MINUTE),
        Evidence("n1", "PodKilled", kill, NOW - 2 * MINUTE, needs_another=True, apart=MINUTE),
    ]


@pytest.mark.parametrize("reason", ["NodeShutdown", "Killed", ""])
def test_other_ends_of_pods_are_no_reboot(reason: str) -> None:
    worker = replace(unseen(make_worker(1, node="sick"), minutes=0), reason=reason)
    found = compute_avoidance(make_job(make_head(), make_worker(0), worker, status=RUNNING_STATUS))
    assert not found.nodes and not found.former


@pytest.mark.parametrize(("is_deleting", "is_evidence"), [(False, True), (True, False)])
@pytest.mark.parametrize("role", [names.HEAD, names.WORKER])
def test_a_pod_that_is_deleted_before_it_runs_ends_unseen_without_a_reboot(
    role: str, is_deleting: bool, is_evidence: bool
) -> None:
    """The kubelet gives the containers of both the same end."""
    head, worker = make_head(node="fine"), make_worker(1, node="fine")
    if role == names.HEAD:
        head = replace(unseen(make_head(node="sick"), minutes=0), is_deleting=is_deleting)
    else:
        worker = replace(unseen(make_worker(1, node="sick"), minutes=0), is_deleting=is_deleting)
    job = make_job(head, make_worker(0), worker, status=RUNNING_STATUS)
    assert [each.node for each in list_evidence(job)] == ["sick"] * is_evidence
    lost = head if role == names.HEAD else worker
    assert classify_pod(lost).reason == ("PodDeleted" if is_deleting else "ContainerStatusUnknown")


@pytest.mark.parametrize(
    ("change", "is_evidence"),
    [
        ({}, True),
        ({"reason": ""}, True),
        ({"exit_code": 143}, False),
        ({"exit_code": 1}, False),
        ({"reason": "OOMKilled"}, False),
        ({"reason": "Evicted"}, False),
        ({"is_deleting": True}, False),
        ({"disruption": Problem("DeletionByTaintManager", "")}, False),
    ],
)
@pytest.mark.parametrize("role", [names.HEAD, names.WORKER])
def test_a_second_kill_that_nothing_explains_makes_the_node_avoided(
    role: str, change: dict[str, Any], is_evidence: bool
) -> None:
    """Such as when the node has no memory left: SIGKILL, and no limit of the pod's own."""
    since = format_time(NOW - timedelta(hours=1))
    former = [{"name": "sick", "reason": "PodKilled", "since": since, "times": 0}]
    head, worker = make_head(node="fine"), make_worker(1, node="fine")
    if role == names.HEAD:
        head = replace(unseen(make_head(node="sick"), minutes=0), **{"reason": "Error", "exit_code": 137, **change})
    else:
        pod = make_worker(1, node="sick")
        worker = replace(unseen(pod, minutes=0), **{"reason": "Error", "exit_code": 137, **change})
    first = compute_avoidance(make_job(head, make_worker(0), worker, status=RUNNING_STATUS))
    assert not first.nodes and [node.name for node in first.former] == ["sick"] * is_evidence
    status = {**RUNNING_STATUS, "formerlyAvoidedNodes": former}
    second = compute_avoidance(make_job(head, make_worker(0), worker, status=status))
    assert [(node.name, node.reason) for node in second.nodes] == [("sick", "PodKilled")] * is_evidence


def test_six_reboots_of_the_heads_node_between_two_checkpoints_spend_nothing() -> None:
    sim = Simulation(noProgressLimit=0, backoffLimit=0)
    cluster = Cluster(sim, sick=[], healthy=4)
    cluster.train()
    sim.report(checkpoint=7)
    for number in range(6):
        sim.later(2400)
        end = {"exitCode": 255, "reason": "Unknown", "finishedAt": format_time(sim.now)}
        status = {"phase": "Failed", "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": end}}]}
        node = sim.head.node
        sim.api.patch(("pods", "default", sim.head.name), {"status": status}, subresource="status")
        cluster.play(300)
        cluster.train()
        assert (sim.status["attempt"], sim.status["restarts"]["disruptions"]) == (number + 2, number + 1)
        assert sim.status["failure"]["reason"] == "ContainerStatusUnknown" and node in sim.status["failure"]["message"]
    assert sim.status["restarts"] == {"application": 0, "withoutProgress": 0, "disruptions": 6}


def test_the_condition_names_the_node_that_the_job_excludes_and_karpenter_adds_one_once_it_is_cordoned() -> None:
    """Karpenter ignores pods that exclude a node by name, and a cordoned node takes no pod."""
    sim = Simulation()
    cluster = Cluster(sim, sick=[], healthy=3)
    cluster.train()
    sick = cluster.break_node_of(slot=1)
    cluster.play(25)
    [reconciling] = [c for c in sim.status["conditions"] if c["type"] == "Reconciling"]
    assert reconciling["reason"] == "Unschedulable" and f"node {sick} (NodeRefusedPod)" in reconciling["message"]
    assert f"`kubectl cordon {sick}`" in reconciling["message"]
    cluster.nodes.remove(sick)
    cluster.sick.clear()
    for _ in range(300):
        cluster.play(1)
        ignored = [pod for pod in sim.pods.values() if not pod.node and avoided_by(sim.bodies[pod.name])]
        if not ignored and not all(pod.node for pod in sim.pods.values()):
            cluster.nodes.append("new")
    assert "new" in {pod.node for pod in sim.pods.values()} and all(pod.is_up for pod in sim.pods.values())


def test_the_condition_names_a_node_that_is_used_again_for_lack_of_others() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=[], healthy=3)
    cluster.train()
    sick = cluster.break_node_of(slot=1)
    cluster.play(25)
    cluster.nodes.clear()
    while listed(sim):
        cluster.play(1)
    for _ in range(3):
        sim.reconcile()
    [reconciling] = [c for c in sim.status["conditions"] if c["type"] == "Reconciling"]
    assert f"they may use node {sick} (NodeRefusedPod) again" in reconciling["message"], reconciling


def restarted(class_: str, reason: str, **changes: Any) -> dict[str, Any]:
    """The status of a job whose group has restarted in place just now, because of worker 1."""
    failed = {"number": 1, "class": class_, "reason": reason, "suspectPod": make_worker(1).name}
    progress = {"attempt": 1, "state": "RUNNING", "restart": {**failed, "time": format_time(NOW)}}
    return {**RUNNING_STATUS, "countedRestarts": {"number": 1, "charged": 0}, "progress": progress, **changes}


def test_sure_evidence_counts_at_once_on_a_node_under_suspicion() -> None:
    suspicion = entry("node-1", reason="GPULost", since="2026-01-01T11:59:00Z", expirationTime=None, times=0)
    worker = make_worker(1, node="node-1", created_at=NOW - timedelta(hours=2))
    status = restarted("Hardware", "GPUFailed", formerlyAvoidedNodes=[suspicion])
    assert [node.times for node in compute_avoidance(make_job(make_head(), worker, status=status)).nodes] == [1]


def test_a_suspicion_costs_no_status_write_of_its_own() -> None:
    status = restarted("Hang", "CollectiveTimedOut")
    job = make_job(make_head(), make_worker(0), make_worker(1, node="node-1"), status=status)
    assert [(node.name, node.times) for node in compute_avoidance(job).former] == [("node-1", 0)]
    assert decide(make_head(), make_worker(0), make_worker(1, node="node-1"), status=status).status is None


def test_the_list_costs_no_status_write_of_its_own_until_it_ends() -> None:
    writes = []
    for avoidance in ("None", "Auto"):
        sim = Simulation(scheduling={"nodeAvoidance": avoidance})
        cluster = Cluster(sim, sick=[], healthy=4)
        cluster.train()
        cluster.nodes.remove(cluster.break_node_of(slot=1))
        cluster.play(60)
        writes.append(sim.count_status_writes())
        assert bool(listed(sim)) == (avoidance == "Auto")
    assert writes[0] == writes[1]


@pytest.mark.parametrize("role", [names.HEAD, names.WORKER])
def test_a_pod_that_finds_no_other_node_gets_the_avoided_one_back_and_nothing_is_counted(role: str) -> None:
    sim = Simulation(backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    cluster = Cluster(sim, sick=[] if role == names.WORKER else ["sick"], healthy=3 if role == names.WORKER else 2)
    if role == names.WORKER:
        cluster.train()
        cluster.break_node_of(slot=1)
    cluster.play(20)
    [sick], before, created = listed(sim), sim.status, sim.count_created("pods")
    assert any(pod.problem for pod in sim.pods.values())
    cluster.sick.clear()
    cluster.play(40)
    assert listed(sim) == [] and sim.events.count("NodeAvoidanceEnded") == 1
    assert {pod.node for pod in sim.pods.values()} == set(cluster.nodes)
    assert sim.count_created("pods") == created + 1
    assert sim.status.get("restarts") == before.get("restarts") and sim.status["attempt"] == before["attempt"]
    assert "budget" not in sim.status and not any(sim.status.get("restarts", {}).values()) and sick in cluster.nodes
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_a_job_whose_only_free_node_refuses_its_pod_creates_few_pods() -> None:
    sim = Simulation(scaling={"numWorkers": 8}, backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    cluster = Cluster(sim, sick=[], healthy=9)
    cluster.train()
    created = sim.count_created("pods")
    cluster.break_node_of(slot=3)
    cluster.play(HOUR)
    assert sim.count_created("pods") - created <= 8 + HOUR / 60
    assert sim.status["attempt"] == 1 and sim.status["workerLosses"]["rounds"] == 0
    assert {"restarts", "budget", "failure"}.isdisjoint(sim.status)
    cluster.sick.clear()
    cluster.play(420)
    sim.report()
    sim.settle()
    assert sim.status["phase"] == "Running"


def test_none_and_auto_forget_all_nodes() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    sim.edit_status(formerlyAvoidedNodes=[{"name": "other", "reason": "NodeRefusedPod", "times": 3}])
    sim.apply(scheduling={"nodeAvoidance": "None"})
    sim.settle()
    assert {"avoidedNodes", "formerlyAvoidedNodes"}.isdisjoint(sim.status)
    assert sim.events.count("NodeAvoidanceEnded") == 1
    sim.apply(scheduling={"nodeAvoidance": "Auto"})
    sim.settle()
    sim.lose(next(pod.name for pod in sim.pods.values() if pod.slot == 0))
    cluster.play(10)
    assert sim.status["avoidedNodes"][0]["times"] == 1


def test_a_job_that_avoids_no_nodes_adds_nothing_to_its_pods() -> None:
    sim = Simulation(scheduling={"nodeAvoidance": "None"})
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.play(5)
    cluster.sick.clear()
    cluster.train()
    assert listed(sim) == [] and "NodeAvoided" not in sim.events
    assert not any(avoided_by(body) for body in sim.bodies.values())


def test_a_resumed_job_still_avoids_the_node() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    sim.apply(suspend=True)
    cluster.play(10)
    assert sim.status["phase"] == "Suspended"
    sim.apply(suspend=False)
    cluster.train()
    assert listed(sim) == ["sick"] and sim.events.count("NodeAvoided") == 1
    assert "sick" not in {pod.node for pod in sim.pods.values()}


def test_a_finished_job_keeps_the_list_and_is_left_alone() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    sim.end_head("Succeeded")
    sim.settle()
    assert listed(sim) == ["sick"]
    sim.later(2 * HOUR)
    sim.settle()
    assert listed(sim) == ["sick"] and sim.status["phase"] == "Succeeded"


def test_evidence_waits_for_the_write_of_the_replacement() -> None:
    """From the second refusal in a row on, a replacement waits."""
    status = {**RUNNING_STATUS, "round": 1, "workers": {"desired": 2, "ready": 1}, "workerLosses": {"refused": 2}}
    for seconds, is_written in ((1, False), (2, True)):
        refused = replace(make_worker(1, round_=1, **REFUSED, node="sick"), created_at=NOW - timedelta(seconds=seconds))
        wanted = decide(make_head(), make_worker(0), refused, status=status)
        assert (wanted.status is not None) == is_written
        assert wanted.status is None or [n["name"] for n in wanted.status.fields["avoidedNodes"]] == ["sick"]


REFUSED: dict[str, Any] = {
    "phase": "Failed",
    "is_running": False,
    "is_refused": True,
    "reason": "OutOfcpu",
    "created_at": NOW,
}


def entry(name: str, **changes: Any) -> dict[str, Any]:
    since, until = NOW - timedelta(minutes=10), NOW + timedelta(minutes=50)
    times = {"since": format_time(since), "expirationTime": format_time(until), "times": 1}
    return {"name": name, "reason": "NodeRefusedPod", **times, **changes}


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (8, 8), (18, 16), (500, 16)])
def test_a_job_avoids_at_most_16_nodes_on_sure_evidence(workers: int, most: int) -> None:
    pods = [make_worker(slot, node=f"node-{slot}", **REFUSED) for slot in range(workers)]
    job = make_job(make_head(), *pods, status=RUNNING_STATUS, spec=make_spec(scaling={"numWorkers": workers}))
    assert len(compute_avoidance(job).nodes) == most <= MAX_AVOIDED_NODES


@pytest.mark.parametrize(("workers", "most"), [(1, 1), (8, 1), (18, 1), (19, 2), (100, 10), (159, 16), (500, 16)])
@pytest.mark.parametrize("sure", [0, 3])
def test_a_job_avoids_a_tenth_of_its_pods_on_likely_evidence(workers: int, most: int, sure: int) -> None:
    """Nodes of sure evidence take no room from the others, until 16 are listed."""
    for likely in (most - 1, most):
        listed = [entry(f"hang-{number}", reason="CollectiveTimedOut") for number in range(likely)]
        listed += [entry(f"sure-{number}", reason="GPUFailed") for number in range(sure)]
        listed = listed[:MAX_AVOIDED_NODES]
        suspicion = entry("node-1", reason="CollectiveTimedOut", expirationTime=None, times=0)
        status = restarted("Hang", "CollectiveTimedOut", avoidedNodes=listed, formerlyAvoidedNodes=[suspicion])
        pods = [make_worker(slot, node=f"node-{slot}") for slot in range(workers)]
        if workers == 1:
            pods.append(make_worker(1, node="node-1"))
        job = make_job(make_head(), *pods, status=status, spec=make_spec(scaling={"numWorkers": workers}))
        nodes = [node.name for node in compute_avoidance(job).nodes]
        has_room = likely < most and len(listed) < MAX_AVOIDED_NODES
        assert ("node-1" in nodes) == has_room and len(nodes) == len(listed) + has_room


def test_the_oldest_of_several_nodes_may_have_the_pod_that_finds_no_other() -> None:
    """Not the newest, and only nodes that the pod avoids."""
    listed = [entry(f"node-{number}") for number in range(1, 5)]
    waiting = replace(
        make_worker(1, phase="Pending", is_running=False, node="", created_at=NOW - timedelta(seconds=31)),
        problem=Problem("Unschedulable", FULL),
        avoids=("node-2", "node-3", "node-4"),
    )
    status = {**RUNNING_STATUS, "round": 1, "workers": {"desired": 2, "ready": 1}, "avoidedNodes": listed}
    found = compute_avoidance(make_job(make_head(), make_worker(0), waiting, status=status))
    assert [node.name for node in found.nodes] == ["node-1", "node-3", "node-4"]
    assert [node.name for node in found.former] == ["node-2"]


def test_listed_nodes_are_used_again_one_by_one_the_oldest_first() -> None:
    """Each gets a pod before the next one is tried, and a sick one is the newest again."""
    sim = Simulation(scaling={"numWorkers": 4}, backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    cluster = Cluster(sim, sick=["sick-0", "sick-1", "sick-2"], healthy=4)
    cluster.play(20)
    assert listed(sim) == ["sick-0", "sick-1", "sick-2"]
    cluster.play(30)
    assert listed(sim) == ["sick-1", "sick-2", "sick-0"], "it refused the pod again"
    cluster.sick.discard("sick-1")
    cluster.play(40)
    assert listed(sim) == ["sick-2", "sick-0"]
    assert {pod.node for pod in sim.pods.values()} == {"sick-1", *(f"node-{number}" for number in range(4))}
    assert (sim.status["attempt"], sim.status.get("restarts")) == (4, None), "each of them refused a head first"


@pytest.mark.parametrize(
    ("known", "minutes", "times"),
    [
        ([entry("sick")], 5, 1),  # it still is
        ([], 5, 1),
        ([entry("sick", expirationTime="2026-01-01T11:59:59Z", times=3)], 5, 4),
        ([entry("sick", expirationTime="2026-01-01T11:59:59Z", times=3)], 15, None),  # a pod from before
        ([entry("sick", expirationTime="2026-01-01T11:59:59Z", times=900)], 5, 901),
        ([entry("sick", expirationTime="2026-01-01T11:59:59Z", times=1000)], 5, 1000),  # the CRD's limit
        ([entry("sick", expirationTime=None, times=3)], 5, 4),
    ],
)
def test_a_pod_from_before_the_avoidance_is_no_news(known: list[Any], minutes: int, times: int | None) -> None:
    worker = make_worker(1, **{**REFUSED, "created_at": NOW - timedelta(minutes=minutes)}, node="sick")
    status = {**RUNNING_STATUS, "avoidedNodes": known}
    found = compute_avoidance(make_job(make_head(), make_worker(0), worker, status=status)).nodes
    assert [node.times for node in found] == ([times] if times else [])
    for node in found if times and times > 1 else ():
        until = parse_time(node.expiration_time)
        assert until is not None and until - NOW == timedelta(hours=min(2 ** ((times or 1) - 1), 24))


def test_a_finished_list_has_at_most_16_former_nodes() -> None:
    old = "2026-01-01T11:59:59Z"
    status = {
        **RUNNING_STATUS,
        "avoidedNodes": [entry(f"node-{number}", expirationTime=old) for number in range(10)],
        "formerlyAvoidedNodes": [entry(f"node-{number}", expirationTime=old) for number in range(5, 21)],
    }
    job = make_job(make_head(), make_worker(0), make_worker(1), status=status)
    former = [node.name for node in compute_avoidance(job).former]
    assert former == [*(f"node-{n}" for n in range(15, 21)), *(f"node-{n}" for n in range(10))]


def test_only_a_change_of_the_list_is_written() -> None:
    sim = Simulation()
    cluster = Cluster(sim, sick=["sick"], healthy=4)
    cluster.train()
    version = sim.api.objects[JOB]["metadata"]["resourceVersion"]
    sim.later(60)
    sim.settle()
    assert sim.api.objects[JOB]["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    ("avoids", "listed"),
    [
        (("n1",), "n1 (GPULost)"),
        (("n1", "n2", "n3"), "n1 (GPULost), n2 (before), n3 (before)"),
        (("n1", "n2", "n3", "n4", "n5"), "n1 (GPULost), n2 (before), n3 (before) and 2 more"),
    ],
)
def test_a_pod_that_the_job_keeps_from_nodes_names_them_and_says_what_to_do(
    avoids: tuple[str, ...], listed: str
) -> None:
    job = make_job(status={"phase": "Pending", "attempt": 1, "avoidedNodes": [entry("n1", reason="GPULost")]})
    assert explain_avoided(job, replace(make_worker(0), avoids=avoids)) == (
        f"; the job itself excludes node {listed} (status.avoidedNodes). It uses the oldest of them again if no other "
        "node comes within 5 minutes. Karpenter adds no node for a pod that excludes one by name: `kubectl cordon n1` "
        "keeps all pods away, so that it adds another one"
    )


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [
        ({"expirationTime": "2026-01-01T12:00:01Z"}, True),
        ({"expirationTime": "2026-01-01T12:00:00Z"}, False),  # its time is over
        ({"expirationTime": "2026-01-01T12:00:01Z", "times": 0}, False),  # it was only suspected
    ],
)
def test_only_a_node_whose_time_is_not_over_is_used_again(changes: dict[str, Any], *, is_named: bool) -> None:
    job = make_job(status={"phase": "Starting", "attempt": 1, "formerlyAvoidedNodes": [entry("n1", **changes)]})
    assert ("use node n1 (NodeRefusedPod) again" in explain_used_again(job)) == is_named
