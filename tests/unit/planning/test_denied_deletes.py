"""A pod that may not be deleted holds nothing that may: neither the other pods of its attempt nor the next attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.decisions.next_attempt import decide_next_attempt
from railhead.planning.decisions.workers import decide_outdated_pods, decide_stale_pods
from railhead.planning.observed import Denial, Remove
from railhead.planning.planner import plan
from railhead.planning.pod_view import UNANSWERED_SECONDS, Problem
from tests.model.actors.denying_policy import DENIALS, UNEXPLAINED, Answer
from tests.model.api_server import Place
from tests.model.faults import Faults
from tests.model.play import Runner
from tests.model.queue_schedule import SPEC as QUEUED
from tests.model.world import World, is_live, role_of
from tests.unit.builders import NOW, RUNNING_STATUS, SETTINGS, make_head, make_job, make_observed, make_worker
from tests.unit.planning.simulation import JOB, Simulation

END_SECONDS = 60
OVER = END_SECONDS + UNANSWERED_SECONDS
DENIED = 'admission webhook "guard.example" denied the request: pods are protected'
UNPLACED: dict[str, Any] = {
    "phase": "Pending",
    "is_running": False,
    "node": "",
    "problem": Problem("Unschedulable", "no node"),
}
FINALIZER = {"finalizers": ["example.com/keep"]}


def protect(sim: Simulation, role: str) -> None:
    sim.api.deletion = lambda obj: DENIED if obj["kind"] == "Pod" and role_of(obj) == role else ""


def train(role: str, **spec: Any) -> Simulation:
    """A job that trains, and whose pods of this role may not be deleted."""
    sim = Simulation(scaling={"numWorkers": 3}, **spec)
    sim.run_until_training()
    sim.report(checkpoint=1)
    sim.settle()
    protect(sim, role)
    return sim


def run(sim: Simulation, seconds: int, *, step: int = 5) -> None:
    for _ in range(seconds // step):
        sim.reconcile()
        sim.later(step)
    sim.reconcile()


def count(sim: Simulation, role: str) -> int:
    return sum(pod.is_live and pod.role == role for pod in sim.pods.values())


def suspend(sim: Simulation) -> None:
    sim.apply(scaling={"numWorkers": 3}, suspend=True)


def pass_deadline(sim: Simulation) -> None:
    sim.later(3600)


def delete(sim: Simulation) -> None:
    sim.api.patch(JOB, {"metadata": FINALIZER})
    sim.api.delete(JOB, {})


@pytest.mark.parametrize(
    ("stop", "spec"),
    [(suspend, {}), (pass_deadline, {"activeDeadlineSeconds": 3600}), (delete, {})],
    ids=["suspended", "failed", "deleted"],
)
def test_the_workers_of_a_head_that_may_not_be_deleted_go_after_its_grace_period(
    stop: Callable[[Simulation], None], spec: dict[str, Any]
) -> None:
    sim = train(names.HEAD, **spec)
    stop(sim)
    run(sim, OVER - 10)
    assert count(sim, names.WORKER) == 3, "the driver may wait for one more checkpoint"
    run(sim, 30)
    assert (count(sim, names.WORKER), count(sim, names.HEAD)) == (0, 1)
    before = len(sim.operator.client.names("delete", "pods"))
    run(sim, 60, step=1)
    assert 3 <= len(sim.operator.client.names("delete", "pods")) - before <= 6, "tried again every 15 s"
    sim.api.deletion = lambda obj: ""
    run(sim, 30)
    assert count(sim, names.HEAD) == 0


@pytest.mark.parametrize("answer", [DENIALS[15], UNEXPLAINED[0]], ids=["denied", "persistent"])
def test_a_preemptor_of_the_queue_finds_no_worker_of_the_job_that_it_evicted(answer: Answer) -> None:
    world = World(epochs=1000, pace=timedelta(seconds=30))
    world.add_queue(gpus=4)

    def judge(method: str, place: Place, subresource: str) -> str:
        if method == "DELETE" and place[2].endswith("-head"):
            raise answer.to_error()
        return ""

    world.policies.append(judge)
    spec: dict[str, Any] = {**QUEUED, "suspendGraceSeconds": END_SECONDS}
    world.apply(**spec)

    async def play() -> None:
        runner = Runner(world, Faults())
        for number in range(150):
            await runner.run_operator()
            world.step()
            world.tick(5)
            if number == 30:
                assert world.kueue is not None
                world.kueue.stop()

    asyncio.run(play())
    assert [role_of(pod) for pod in world.pods() if is_live(pod)] == [names.HEAD]


@pytest.mark.parametrize("field", ["ttlSecondsAfterFinished", "keepPodsSeconds"])
def test_a_head_that_may_not_be_deleted_keeps_no_clean_up_from_its_time(field: str) -> None:
    sim = train(names.HEAD, activeDeadlineSeconds=3600, **{field: 10})
    pass_deadline(sim)
    run(sim, OVER + 60)
    if field == "keepPodsSeconds":
        assert sim.status["cleanUpTime"]
        assert not [place for place in sim.api.objects if place[0] == "configmaps" and "-input-" in place[2]]
    else:
        assert JOB not in sim.api.objects


def test_another_operator_measures_the_grace_period_again() -> None:
    sim = train(names.HEAD)
    suspend(sim)
    run(sim, OVER - 30)
    sim.restart()
    run(sim, 40)
    assert count(sim, names.WORKER) == 3
    run(sim, OVER - 30)
    assert count(sim, names.WORKER) == 0


def test_a_worker_that_may_not_be_deleted_keeps_no_other_pod_of_a_suspended_job() -> None:
    sim = train(names.WORKER)
    sim.api.deletion = lambda obj: DENIED if "-w1-" in obj["metadata"]["name"] else ""
    suspend(sim)
    run(sim, 10)
    assert [pod.slot for pod in sim.pods.values()] == [1]


@pytest.mark.parametrize("protected", [(0,), (0, 1, 2)])
def test_a_worker_of_a_lost_attempt_that_may_not_be_deleted_delays_no_attempt(protected: tuple[int, ...]) -> None:
    sim = train(names.WORKER)
    kept = [name for name, pod in sim.pods.items() if pod.slot in protected]
    sim.api.deletion = lambda obj: DENIED if obj["metadata"]["name"] in kept else ""
    sim.end_head("Infrastructure")
    run(sim, 20)
    sim.start_pods()
    sim.settle()
    sim.report(joined=3)
    sim.settle()
    assert (sim.status["attempt"], sim.status["phase"]) == (2, "Running")
    assert {name for name, pod in sim.pods.items() if pod.attempt == 1 and pod.role == names.WORKER} == set(kept)
    told = [each["message"] for each in sim.status["conditions"] if each["type"] == "DeleteDenied"]
    assert len(told) == 1 and min(kept) in told[0]
    before = len(sim.operator.client.names("delete", "pods"))
    run(sim, 60, step=1)
    assert len(sim.operator.client.names("delete", "pods")) - before >= 3 * len(kept), "they are tried again"
    sim.api.deletion = lambda obj: ""
    run(sim, 30)
    assert not set(kept) & set(sim.pods) and sim.status["phase"] == "Running"


def test_a_job_whose_workers_may_not_be_deleted_takes_at_most_twice_its_gpus() -> None:
    sim = train(names.WORKER)
    for _ in range(3):
        sim.end_head("Infrastructure")
        run(sim, 60)
        sim.start_pods()
        run(sim, 60)
        if sim.status["attempt"] > 2 or not sim.live_heads:
            break
    assert (sim.status["attempt"], count(sim, names.WORKER)) == (2, 6)
    assert [each["reason"] for each in sim.status["conditions"] if each["type"] == "Reconciling"] == ["WaitingForPods"]
    sim.api.deletion = lambda obj: ""
    run(sim, 60)
    assert (sim.status["attempt"], count(sim, names.WORKER)) == (3, 3)


def test_a_head_of_a_lost_attempt_that_may_not_be_deleted_is_waited_for() -> None:
    """It may still commit: promise 3."""
    sim = Simulation(scaling={"numWorkers": 3}, startDeadlineSeconds=60)
    sim.settle()
    sim.start_pods(but=[name for name in sim.pods if "-w0-" in name])
    protect(sim, names.HEAD)
    sim.settle()
    sim.later(60)
    run(sim, 3600, step=60)
    assert sim.status["failure"]["reason"] == "StartDeadlineExceeded"
    assert (sim.status["attempt"], count(sim, names.HEAD), count(sim, names.WORKER)) == (1, 1, 0)


def make_denial(pod: Any, **changes: Any) -> Denial:
    return replace(Denial("Pod", pod.name, "protected", tries=9, at=NOW - timedelta(seconds=20)), **changes)


LOST = {**RUNNING_STATUS, "failure": {"class": "Infrastructure", "attempt": 1, "time": "2025-01-01T00:00:00Z"}}


@pytest.mark.parametrize("seconds", [0, 14, 16, 170])
def test_a_denied_worker_delays_nothing_between_two_tries_and_during_one(seconds: int) -> None:
    old = make_worker(0)
    denial = make_denial(old, at=NOW - timedelta(seconds=seconds))
    decision = decide_next_attempt(replace(make_job(old, status=LOST), denials=(denial,)))
    assert decision is not None and decision.wanted is not None and decision.wanted.status.attempt == 2
    later = {**RUNNING_STATUS, "attempt": 2}
    stale = decide_stale_pods(replace(make_job(old, make_head(2), status=later), denials=(denial,)))
    assert (stale is None) == (seconds < 15), "the next try is a pass of its own"


def test_a_denial_of_long_ago_says_nothing_about_a_delete_now() -> None:
    """As of a pod that was to go once, and then was needed after all."""
    old, head = make_worker(0), make_head()
    long_ago = NOW - timedelta(hours=1)
    denials = (make_denial(old, at=long_ago), make_denial(head, at=long_ago, since=long_ago))
    lost = replace(make_job(old, status=LOST), denials=denials)
    decision = decide_next_attempt(lost)
    assert decision is not None and [each.name for each in decision.deletes] == [old.name]
    assert decision.status_after(lost).attempt == 1, "it is waited for"
    assert replace(make_job(head, status=RUNNING_STATUS), denials=denials).find_protected_end(head) is None


def test_a_head_that_is_denied_again_much_later_gets_its_grace_period_again() -> None:
    sim = train(names.HEAD)
    suspend(sim)
    run(sim, OVER - 30)
    sim.later(300)  # without a pass, as while the API server is away
    run(sim, 60)
    assert count(sim, names.WORKER) == 3
    run(sim, 60)
    assert count(sim, names.WORKER) == 0


def test_a_change_of_a_workload_that_is_denied_protects_no_pod() -> None:
    old = make_worker(0)
    denial = make_denial(old, kind="Workload", verb="change")
    job = replace(make_job(old, status=LOST), denials=(denial,))
    assert not job.protected and job.find_protected_end(make_head()) is None


def test_the_grace_period_begins_with_the_first_denial_and_not_in_the_future() -> None:
    head = make_head()
    job = make_job(head)
    ends = []
    for since in (None, NOW - timedelta(hours=1), NOW + timedelta(hours=1)):
        denied = replace(job, denials=(make_denial(head, since=since, at=NOW),))
        ends.append(denied.find_protected_end(head))
    over = timedelta(seconds=job.spec.end_seconds + UNANSWERED_SECONDS)
    assert ends == [NOW + over, NOW - timedelta(hours=1) + over, NOW + over]


def test_a_head_that_avoids_a_node_no_more_and_may_not_be_deleted_holds_up_nothing() -> None:
    head = make_head(**UNPLACED, avoids=("node-9",), created_at=NOW - timedelta(hours=1))
    job = make_job(head, make_worker(0), make_worker(1), status=RUNNING_STATUS)
    assert decide_outdated_pods(job) is not None
    assert decide_outdated_pods(replace(job, denials=(make_denial(head, at=NOW),))) is None


def test_a_worker_whose_delete_has_no_answer_yet_begins_one_round() -> None:
    """Each write of the status begins the next pass: a round in each of them would be a loop."""
    at = NOW - timedelta(hours=1)
    pods = [make_worker(slot, **UNPLACED, avoids=("node-9",), created_at=at) for slot in range(2)]
    first = decide_outdated_pods(make_job(make_head(), *pods, status=RUNNING_STATUS))
    assert first is not None and first.wanted is not None and first.wanted.status.round == 1
    again = decide_outdated_pods(make_job(make_head(), *pods, status={**RUNNING_STATUS, "round": 1}))
    assert again is not None and again.wanted is not None
    assert again.wanted.is_guard and again.wanted.status.round == 1
    assert [each.name for each in again.creates] == [each.name for each in first.creates]
    assert again.deletes == first.deletes


OLD_INPUT = Remove("ConfigMap", "digits-0f1e2d-input-old")
KEPT_INPUT = Denial(OLD_INPUT.kind, OLD_INPUT.name, "protected", 1, NOW - timedelta(seconds=20), remove=OLD_INPUT)


def test_a_removal_that_was_denied_is_tried_again_although_the_status_names_another_object() -> None:
    observed = make_observed(make_head(), make_worker(0), make_worker(1), status=RUNNING_STATUS)
    wanted = plan(replace(observed, denials=(KEPT_INPUT,)))
    assert wanted.removes == (OLD_INPUT,) and wanted.status is not None
    waits = plan(replace(observed, denials=(replace(KEPT_INPUT, at=NOW),)))
    assert not waits.removes and waits.wake_at is not None


def test_a_denied_removal_of_what_an_attempt_needs_again_is_not_repeated() -> None:
    own = make_job().own_mounts.input
    denial = replace(KEPT_INPUT, name=own, remove=replace(OLD_INPUT, name=own))
    wanted = plan(replace(make_observed(), denials=(denial,)))
    assert own in [create.name for create in wanted.creates] and not wanted.removes


def test_a_denied_input_that_another_operator_does_not_know_goes_with_its_job() -> None:
    """No status names it, and the operator may not list ConfigMaps: garbage collection removes it."""
    sim = train(names.WORKER)
    old = sim.status["input"]
    place = ("configmaps", JOB[1], old)
    sim.api.deletion = lambda obj: DENIED if obj["metadata"]["name"] == old else ""
    newer = replace(SETTINGS, report_ca="another")
    sim.restart(newer)
    sim.end_head("Infrastructure")
    run(sim, 60)
    assert (sim.status["attempt"], sim.status["input"] != old) == (2, True)
    assert sim.check_condition("DeleteDenied")
    sim.restart(newer)
    sim.api.deletion = lambda obj: ""
    run(sim, 60)
    assert place in sim.api.objects and not sim.check_condition("DeleteDenied")
    sim.api.delete(JOB, {})
    while sim.api.collect():
        pass
    assert not [name for plural, _, name in sim.api.objects if plural != "events" and name.startswith("digits")]
