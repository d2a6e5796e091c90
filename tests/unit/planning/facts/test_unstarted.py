"""A pod that does not start on its node, although others like it have, is replaced; its node is to blame."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.amendments.avoided_node_list import list_avoided_nodes
from railhead.planning.decisions.workers import decide_unstarted_pods
from railhead.planning.facts.avoided_nodes import Evidence, compute_avoidance, is_blamed, list_evidence
from railhead.planning.facts.reasons import OF_ONE_NODE, POD_EVENTS
from railhead.planning.facts.unstarted import (
    ERROR_LIMIT_SECONDS,
    ERROR_SECONDS,
    MINORITY_SECONDS,
    SLOW_SECONDS,
    find_unconfirmed,
    is_head_like_workers,
    list_overdue,
    list_unstarted,
    next_unstarted,
)
from railhead.planning.job import Job
from railhead.planning.observed import Denial
from railhead.planning.plan import Decision
from railhead.planning.pod_view import PodView, Problem
from tests.model.operator import PODS
from tests.unit.builders import NOW, make_head, make_job, make_spec, make_worker
from tests.unit.planning.simulation import KEY, Simulation

NO_SPACE = Problem("ImagePullBackOff", "container ray: failed to pull image: no space left on device")
HOUR = timedelta(hours=1)


def ago(seconds: float) -> Any:
    return NOW - timedelta(seconds=seconds)


def waiting(slot: int = 0, *, since: float, problem: Problem | None = NO_SPACE, **changes: Any) -> PodView:
    """It has had its node for that long."""
    defaults = {"phase": "Pending", "is_running": False, "node": f"sick-{slot}", "created_at": ago(since + 1)}
    return make_worker(slot, problem=problem, **{**defaults, "scheduled_at": ago(since), **changes})


def waiting_head() -> PodView:
    at = ago(100)
    return make_head(phase="Pending", is_running=False, node="sick", problem=NO_SPACE, created_at=at, scheduled_at=at)


def running(slot: int, *, since: float = 3600, node: str = "") -> PodView:
    return make_worker(slot, node=node or f"node-{slot}", started_at=ago(since))


def starting(*pods: PodView, workers: int = 4, head_pod: PodView | None = None, refused: int = 0, **spec: Any) -> Job:
    status = {
        "observedGeneration": 1,
        "phase": "Pending",
        "attempt": 1,
        "workers": {"desired": workers, "ready": 0},
        "waiting": {"since": "2026-01-01T11:00:00Z", "again": False},
        "workerLosses": {"refused": refused},
    }
    spec = {"scaling": {"numWorkers": workers}, **spec}
    return make_job(head_pod or make_head(started_at=ago(3600)), *pods, status=status, spec=make_spec(**spec))


@pytest.mark.parametrize("reason", sorted(OF_ONE_NODE))
def test_a_pod_with_an_error_that_others_do_not_have_is_replaced_and_its_node_avoided(reason: str) -> None:
    others = [running(slot) for slot in (1, 2, 3)]
    for since, is_due in ((ERROR_SECONDS - 1, False), (ERROR_SECONDS, True)):
        pod = waiting(since=since, problem=Problem(reason, "why"), events_read_at=NOW)
        job = starting(pod, *others)
        assert [each.pod for each in list_overdue(job)] == ([pod] if is_due else [])
        avoided = [(node.name, node.reason) for node in compute_avoidance(job).nodes]
        assert avoided == ([("sick-0", "PodNotStarted")] if is_due else [])
        assert next_unstarted(job) == (None if is_due else ago(-1))


@pytest.mark.parametrize(
    ("problem", "since", "reason", "said"),
    [
        (Problem("ImagePullBackOff", "x" * 801), ERROR_SECONDS, "PodNotStarted", f" (ImagePullBackOff): {'x' * 800}"),
        (None, SLOW_SECONDS, "PodStartSlow", "; the kubelet reports no error"),
    ],
)
def test_the_evidence_says_what_the_kubelet_reports(
    problem: Problem | None, since: int, reason: str, said: str
) -> None:
    pod = waiting(since=since, problem=problem, events_read_at=NOW)
    what = f"Node sick-0 does not start pod {pod.name}, although worker pods have started on other nodes"
    expected = Evidence("sick-0", reason, f"{what}{said}", ago(since + 1), needs_another=problem is None)
    assert list_evidence(starting(pod, *(running(slot) for slot in (1, 2, 3)))) == [expected]


@pytest.mark.parametrize(
    ("since", "created_at", "is_known"),
    [
        ("2026-01-01T12:00:00Z", NOW, True),
        ("2026-01-01T12:00:00Z", ago(1), True),
        ("2026-01-01T12:00:00Z", ago(-1), False),
        ("2026-01-01T12:00:00Z", None, False),
        (None, NOW, False),
        (None, None, False),
    ],
)
def test_a_node_is_blamed_for_pods_that_existed_when_it_was(since: Any, created_at: Any, is_known: bool) -> None:
    entry = {"name": "sick-0", "reason": "PodNotStarted", "since": since, "times": 1}
    for key in ("avoidedNodes", "formerlyAvoidedNodes"):
        job = make_job(status={"phase": "Pending", "attempt": 1, key: [entry]})
        assert is_blamed(job, waiting(since=0, created_at=created_at)) == is_known


@pytest.mark.parametrize(
    "problem",
    [
        Problem("InvalidImageName", "couldn't parse image name"),
        Problem("CreateContainerConfigError", 'secret "token" not found'),
        Problem("FailedAttachVolume", "Multi-Attach error for volume: it is already used by pod(s) on another node"),
        Problem("FailedMount", 'MountVolume.SetUp failed for volume "x" : configmap "mine" not found'),
        Problem("FailedMount", 'MountVolume.SetUp failed for volume "x" : secret "mine" not found'),
        Problem("FailedMount", "references non-existent config key: a"),
        Problem(
            "FailedMount", "MountVolume.SetUp failed for volume: object default/railhead-driver-test not registered"
        ),
        Problem("Unschedulable", "0/3 nodes are available"),
    ],
)
def test_what_another_node_would_not_solve_is_left_alone(problem: Problem) -> None:
    pod = waiting(since=100_000, problem=problem, events_read_at=NOW)
    assert not list_unstarted(starting(pod, *(running(slot) for slot in (1, 2, 3))))


def test_an_image_that_no_node_can_pull_is_no_nodes_fault() -> None:
    """Nor is it while only the head has started: nodes with GPUs may have a cause of their own."""
    job = starting(*(waiting(slot, since=100_000) for slot in range(4)))
    assert not list_unstarted(job) and not compute_avoidance(job).nodes and next_unstarted(job) is None


@pytest.mark.parametrize(("started", "seconds"), [(1, MINORITY_SECONDS), (2, ERROR_SECONDS), (3, ERROR_SECONDS)])
def test_while_few_others_have_started_an_error_may_last_longer(started: int, seconds: int) -> None:
    """A registry that limits pulls lets some of them through first."""
    others = [running(slot, since=0) for slot in range(1, started + 1)]
    stuck = [waiting(slot, since=500) for slot in (0, *range(started + 1, 4))]
    assert next_unstarted(starting(*stuck, *others)) == ago(-seconds)


def test_the_time_begins_when_half_of_the_others_have_started() -> None:
    others = [running(1, since=50), running(2, since=40), running(3, since=0)]
    assert next_unstarted(starting(waiting(since=500), *others)) == ago(40 - ERROR_SECONDS)


def test_a_clock_that_is_fast_delays_nothing() -> None:
    others = [make_worker(slot, node=f"n{slot}", started_at=NOW + HOUR, scheduled_at=ago(500)) for slot in (1, 2, 3)]
    assert list_overdue(starting(waiting(since=ERROR_SECONDS), *others))


def test_only_pods_of_other_nodes_tell_what_the_node_should_be_able_to_do() -> None:
    """A node may have run out of addresses or space since it started another pod."""
    others = [running(slot, node="sick-0") for slot in (1, 2, 3)]
    assert not list_unstarted(starting(waiting(since=100_000), *others))
    assert list_overdue(starting(waiting(since=100_000), *others[:2], running(3)))


def test_a_pod_whose_delete_is_denied_is_not_replaced_again_and_again() -> None:
    denied = Denial("Pod", waiting(since=0).name, "pods are protected", tries=1, at=NOW)
    job = starting(waiting(since=100_000), *(running(slot) for slot in (1, 2, 3)))
    assert list_unstarted(job) and not list_unstarted(replace(job, denials=(denied,)))


def decide(job: Job) -> Decision:
    """As a pass does, with the nodes that the status lists."""
    decision = decide_unstarted_pods(job)
    assert decision is not None
    return list_avoided_nodes(job, decision)


@pytest.mark.parametrize("role", [names.WORKER, names.HEAD])
def test_a_pod_whose_delete_has_no_answer_yet_is_counted_and_reported_once(role: str) -> None:
    """Each write of the status begins the next pass, and the pod still exists there."""
    others = [running(slot) for slot in (1, 2, 3)]
    if role == names.WORKER:
        job = starting(waiting(since=ERROR_SECONDS), *others)
    else:
        job = starting(running(0), *others, head_pod=waiting_head())
    first = decide(job)
    assert first.wanted is not None and first.wanted.status.worker_losses is not None
    assert first.wanted.status.worker_losses.refused == 1
    assert [event.reason for event in first.events] == ["PodNotStarted", "NodeAvoided"]
    again = decide(replace(job, status=first.wanted.status))
    assert again.wanted is not None and again.wanted.is_guard, "nothing is written"
    assert again.wanted.status == first.wanted.status
    assert again.deletes == first.deletes and not again.events
    assert [each.name for each in again.creates] == [each.name for each in first.creates]


def test_another_pod_that_does_not_start_is_counted_although_an_earlier_one_still_exists() -> None:
    stuck = [waiting(slot, since=ERROR_SECONDS) for slot in (0, 1)]
    others = [running(slot) for slot in (2, 3, 4)]
    first = decide(starting(stuck[0], running(1), *others, workers=5))
    assert first.wanted is not None
    again = decide(replace(starting(*stuck, *others, workers=5), status=first.wanted.status))
    assert again.wanted is not None and again.wanted.status.worker_losses is not None
    assert again.wanted.status.worker_losses.refused == 2


@pytest.mark.parametrize(("refused", "factor"), [(0, 1), (3, 1), (4, 2), (5, 4), (9, 7)])
def test_replacements_that_do_not_start_either_take_longer(refused: int, factor: int) -> None:
    job = starting(waiting(since=0), *(running(slot) for slot in (1, 2, 3)), refused=refused)
    assert next_unstarted(job) == ago(-min(ERROR_SECONDS * factor, ERROR_LIMIT_SECONDS))


def test_a_large_image_on_a_cold_node_is_left_alone_for_long() -> None:
    others = [running(slot) for slot in (1, 2, 3)]
    for since, is_due in ((SLOW_SECONDS - 1, False), (SLOW_SECONDS, True)):
        job = starting(waiting(since=since, problem=None, events_read_at=NOW), *others)
        assert bool(list_overdue(job)) == is_due
        assert not compute_avoidance(job).nodes, "once may be the image"
        assert [node.times for node in compute_avoidance(job).former] == ([0] if is_due else [])
    again = starting(waiting(since=SLOW_SECONDS, problem=None), *others, refused=1)
    assert next_unstarted(again) == ago(-SLOW_SECONDS), "the next one gets twice the time"


def test_an_init_container_takes_as_long_as_it_takes() -> None:
    others = [running(slot) for slot in (1, 2, 3)]
    assert not list_unstarted(starting(waiting(since=100_000, problem=None, has_begun=True), *others))
    assert not list_unstarted(starting(waiting(since=100_000, has_begun=True), *others)), "a sidecar's image"


def test_nothing_is_replaced_by_an_event_from_before_its_time() -> None:
    """The volume may be there by now, and the image on its way."""
    assert "FailedMount" in POD_EVENTS
    others = [running(slot) for slot in (1, 2, 3)]
    for read, is_confirmed in ((30, False), (0, True)):
        pod = waiting(since=ERROR_SECONDS + 10, problem=Problem("FailedMount", "why"), events_read_at=ago(read))
        job = starting(pod, *others)
        assert bool(list_overdue(job)) == is_confirmed
        assert find_unconfirmed(job) == (None if is_confirmed else pod)


def test_a_job_that_avoids_no_nodes_leaves_its_pods_alone() -> None:
    pods = (waiting(since=100_000), *(running(slot) for slot in (1, 2, 3)))
    assert not list_unstarted(starting(*pods, scheduling={"nodeAvoidance": "None"}))


@pytest.mark.parametrize(
    ("template", "is_like"),
    [
        ({}, True),
        ({"metadata": {"labels": {"a": "b"}}}, True),
        ({"spec": {"nodeSelector": {"a": "b"}, "tolerations": []}}, True),
        ({"spec": {"containers": [{"name": "ray", "image": "other:1"}]}}, False),
        ({"spec": {"volumes": []}}, False),
        ({"spec": {"runtimeClassName": "nvidia"}}, False),
    ],
)
@pytest.mark.parametrize("role", ["head", "worker"])
def test_a_head_is_compared_with_workers_if_it_needs_the_same(role: str, template: Any, is_like: bool) -> None:
    changes: dict[str, Any] = {role: {"podTemplate": template}}
    assert is_head_like_workers(make_spec(**changes)) == is_like
    head = waiting_head()
    job = starting(*(running(slot) for slot in range(4)), head_pod=head, **changes)
    assert [each.pod for each in list_overdue(job)] == ([head] if is_like else [])


def cannot_pull(sim: Simulation, name: str, node: str) -> None:
    if not sim.pods[name].node:
        sim.api.bind(name, node, namespace=KEY.namespace)
    state = {"waiting": {"reason": NO_SPACE.reason, "message": NO_SPACE.message}}
    status = {"phase": "Pending", "containerStatuses": [{"name": names.CONTAINER, "state": state}]}
    sim.api.patch((PODS, KEY.namespace, name), {"status": status}, subresource="status")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("slot", [-1, 1])
def test_the_gang_of_a_node_that_cannot_pull_trains_within_minutes_and_has_spent_nothing(
    slot: int, is_first: bool
) -> None:
    sim = Simulation(scaling={"numWorkers": 4}, backoffLimit=0, noProgressLimit=0, disruptionLimit=5)
    sim.settle()
    if not is_first:
        sim.run_until_training()
        sim.report(checkpoint=1)
        for name in [pod.name for pod in sim.pods.values() if pod.slot == max(slot, 0)]:
            sim.lose(name)
        if slot < 0:
            sim.lose(sim.head.name)
        for _ in range(20):
            sim.reconcile()
            sim.later(5)
    disruptions = sim.status.get("restarts", {}).get("disruptions", 0)
    [sick] = [pod.name for pod in sim.pods.values() if pod.slot == slot and pod.is_live and not pod.is_running]
    for name, pod in sim.pods.items():
        if pod.is_live and not pod.is_running and name != sick:
            sim.api.bind(name, f"node-{pod.slot}", namespace=KEY.namespace)
            sim.start_pod(name)
    cannot_pull(sim, sick, "sick")
    uid = sim.bodies[sick]["metadata"]["uid"]
    attempt, others = sim.status["attempt"], {pod.uid for pod in sim.pods.values() if pod.is_running}
    for _ in range(30):
        sim.settle()
        for name, pod in sim.pods.items():
            if pod.uid != uid and pod.is_live and not pod.is_running:
                assert "sick" in str(sim.bodies[name]["spec"]["affinity"])
                sim.start_pod(name)
        sim.later(5)
    sim.report()
    sim.settle()
    assert (sim.status["phase"], sim.status["attempt"]) == ("Running", attempt)
    assert others <= {pod.uid for pod in sim.pods.values()}, "the others stay"
    assert [(node["name"], node["reason"]) for node in sim.status["avoidedNodes"]] == [("sick", "PodNotStarted")]
    assert sim.status.get("restarts", {}).get("disruptions", 0) == disruptions and "budget" not in sim.status
    assert sim.events.count("PodNotStarted") == 1 and sim.events.count("NodeAvoided") == 1


GONE = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
# pkg/kubelet/status/status_manager.go: TerminatePod marks a pod that never ran as Failed before it is deleted; its
# containers only if no init container has to run first.
ENDS_UNSTARTED: tuple[dict[str, Any], ...] = (
    {},
    {"phase": "Failed", "containerStatuses": [{"name": names.CONTAINER, "state": {"terminated": GONE}}]},
    {"phase": "Failed"},
)


@pytest.mark.parametrize("end", ENDS_UNSTARTED, ids=["silent", "marked", "not initialized"])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_head_that_is_deleted_before_it_runs_costs_nothing(end: dict[str, Any], is_kept: bool) -> None:
    """Its node is healthy. `is_kept`: a finalizer keeps the object beyond its grace period, and with it the name."""
    sim = Simulation(backoffLimit=0, noProgressLimit=0, disruptionLimit=0)
    sim.settle()
    head = sim.head.name
    sim.api.bind(head, "node-of-the-head", namespace=KEY.namespace)
    sim.settle()
    sim.evict(head, gone_in=35)
    sim.settle()
    if end:
        sim.api.patch((PODS, KEY.namespace, head), {"status": end}, subresource="status")
    sim.settle()
    assert (sim.status["attempt"], sim.status["phase"]) == (1, "Pending")
    if is_kept:
        sim.later(35)
        sim.settle()
        assert (sim.status["failure"]["class"], sim.status["failure"]["reason"]) == ("Startup", "PodDeleted")
        assert "was deleted before it ran" in sim.status["failure"]["message"]
        for _ in range(3):
            sim.later(60)
            sim.settle()
    else:
        sim.lose(head)
        sim.settle()
    assert sim.status["attempt"] == (2 if is_kept else 1)
    assert len(sim.live_heads) == 1
    assert "restarts" not in sim.status and "budget" not in sim.status
    assert "avoidedNodes" not in sim.status and "suspectNodes" not in sim.status
