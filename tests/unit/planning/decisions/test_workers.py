"""The worker pods of an attempt: outdated ones, replacements of lost ones, and another number of workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.planning.decisions.workers import decide_stale_pods
from railhead.planning.facts.lost_workers import replacement_at
from railhead.planning.observed import Denial
from railhead.planning.plan import Decision, Delete, Plan
from railhead.planning.planner import plan
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    ended,
    is_empty,
    make_head,
    make_job,
    make_observed,
    make_spec,
    make_worker,
    to_job,
)
from tests.unit.kueue import ADMISSION, make_admitted, queued_spec, served
from tests.unit.planning.simulation import Simulation
from tests.unit.planning.state import decide

SECOND = {**RUNNING_STATUS, "attempt": 2}
CURRENT = (make_head(2), make_worker(0, 2), make_worker(1, 2))


def test_pods_of_earlier_attempts_are_deleted_whether_they_have_ended_or_not() -> None:
    old = (make_head(1), ended(make_worker(0), "Application"))
    decision = decide_stale_pods(make_job(*old, *CURRENT, status=SECOND))
    assert decision is not None and decision.deletes == tuple(Delete(pod.name, pod.uid) for pod in old)


def test_nothing_happens_while_a_pod_of_an_earlier_attempt_ends() -> None:
    ending = replace(make_head(1), is_deleting=True)
    assert decide_stale_pods(make_job(ending, *CURRENT, status=SECOND)) == Decision()


def test_an_ended_pod_whose_delete_was_denied_holds_up_nothing() -> None:
    old = ended(make_head(1), "Application")
    denial = Denial("Pod", old.name, "protected", tries=1, at=NOW)
    assert decide_stale_pods(replace(make_job(old, *CURRENT, status=SECOND), denials=(denial,))) is None


SILENT = make_worker(1)


def run(*lost: str, attempt: int = 1, elastic: bool = False) -> Plan:
    """All pods run, as far as Kubernetes knows."""
    progress = {**RUNNING_STATUS["progress"], "attempt": attempt, "state": "RESTARTING", "lostPods": list(lost)}
    scaling: dict[str, Any] = {"minWorkers": 1, "maxWorkers": 2, "desiredWorkers": 2} if elastic else {"numWorkers": 2}
    observed = make_observed(
        make_head(),
        make_worker(0),
        SILENT,
        status={**RUNNING_STATUS, "progress": progress},
        spec=make_spec(scaling=scaling, backoffLimit=0, noProgressLimit=0),
    )
    return plan(observed)


def test_it_is_deleted_and_replaced_at_once() -> None:
    for elastic in (False, True):
        wanted = run(SILENT.name, elastic=elastic)
        assert wanted.status is not None and wanted.status.fields["round"] == 1
        assert [(each.name, each.uid) for each in wanted.deletes] == [(SILENT.name, SILENT.uid)]
        assert [each.name for each in wanted.creates if each.kind == "Pod"] == [make_worker(1, round_=1).name]
        assert wanted.status.fields["restarts"]["disruptions"] == 1
        [event] = wanted.events
        assert f"{SILENT.name} (it does not answer the driver; node node-1)" in event.message


def test_reported_pods_that_are_gone_or_of_another_attempt_are_ignored() -> None:
    assert run(make_worker(1, round_=7).name).deletes == ()
    assert run(SILENT.name, attempt=2).deletes == ()


def test_it_is_deleted_also_while_another_one_cannot_be_replaced() -> None:
    """Otherwise it would hold what its own replacement needs: a quota rejects both."""
    limits = {"pods": 3}
    sim = Simulation(rejects=lambda body: "exceeded quota: few" if len(sim.pods) >= limits["pods"] else "")
    sim.run_until_training()
    first, second = (name for name, pod in sorted(sim.pods.items()) if pod.role == names.WORKER)
    limits["pods"] = 2
    sim.lose(second)
    sim.settle()
    assert sim.status["round"] == 1 and first in sim.pods
    sim.report("RESTARTING", lost_pods=(first,))
    sim.settle()
    assert first not in sim.pods
    limits["pods"] = 3
    sim.later(10)
    sim.settle()
    assert worker_slots(sim) == [0, 1]
    assert sim.status["round"] == sim.status["restarts"]["disruptions"] == 1, "one round replaces both"


def test_one_that_the_job_needs_no_more_is_deleted() -> None:
    sim = Simulation(**elastic(4))
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.apply(**elastic(3))
    sim.settle()
    last = _workers(sim)[-1][0]
    sim.report(joined=3, checkpoint=4, lost_pods=(last,))
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2] and sim.status["workers"]["desired"] == 3
    assert COUNTERS.isdisjoint(sim.status), "nothing that the job needs was lost"


def test_one_that_may_not_be_deleted_holds_up_nothing() -> None:
    progress = {**RUNNING_STATUS["progress"], "state": "RESTARTING", "lostPods": [SILENT.name]}
    status = {**RUNNING_STATUS, "round": 1, "workers": {"desired": 2, "ready": 1, "joined": 1}, "progress": progress}
    job = make_job(make_head(), make_worker(0, round_=1), SILENT, status=status)
    [delete] = plan(job).deletes
    assert delete.name == SILENT.name
    denied = replace(job, denials=(Denial("Pod", SILENT.name, "protected", tries=1, at=NOW),))
    assert [each.name for each in plan(denied).creates if each.kind == "Pod"] == [make_worker(1, round_=1).name]


def test_its_failure_names_the_node() -> None:
    progress = {**RUNNING_STATUS["progress"], "lostPods": [SILENT.name]}
    losses = {"rounds": 20, "ownFault": 0, "checkpoint": -1}
    status = {**RUNNING_STATUS, "progress": progress, "workerLosses": losses}
    wanted = decide(make_head(), make_worker(0), SILENT, status=status)
    assert wanted.status is not None
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["reason"], failure["node"]) == ("Infrastructure", "NodeLost", "node-1")
    assert not is_empty(wanted) and "does not answer its driver; check node node-1" in failure["message"]


NO_BUDGET = {"backoffLimit": 0, "noProgressLimit": 0, "disruptionLimit": 0}
COUNTERS = {"restarts", "workerLosses", "failure", "budget"}


def elastic(desired: int | None = None, **changes: Any) -> dict[str, Any]:
    scaling = {"minWorkers": 2, "maxWorkers": 6, "desiredWorkers": desired, **changes}
    return {"scaling": {key: value for key, value in scaling.items() if value is not None}}


def worker_slots(sim: Simulation) -> list[int]:
    return sorted(p.slot for p in sim.pods.values() if p.role == names.WORKER and p.is_live)


def start(sim: Simulation, *, but: int = 0) -> None:
    """All pods run except the last `but` workers."""
    sim.start_pods(but=[name for name, _ in _workers(sim)[::-1][:but]])


def _workers(sim: Simulation) -> list[tuple[str, int]]:
    return sorted(((n, p.slot) for n, p in sim.pods.items() if p.role == names.WORKER), key=lambda pair: pair[1])


def test_desired_workers_default_to_the_maximum() -> None:
    sim = Simulation(**elastic())
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3, 4, 5]


def test_pods_of_several_workers_are_counted_as_pods() -> None:
    sim = Simulation(**elastic(4, workersPerPod=2))
    sim.settle()
    assert worker_slots(sim) == [0, 1]
    assert to_job(sim.observe()).least_workers == 1


def test_training_starts_without_all_pods_and_the_status_names_the_missing_one() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    start(sim, but=1)
    sim.settle()
    assert sim.status["phase"] == "Starting"
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert "3 of 4 worker pods are up" in messages["Reconciling"]
    assert "after 120 s with at least 2" in messages["Reconciling"]
    sim.report(joined=3)
    last = _workers(sim)[-1][0]
    sim.cannot_schedule(last, "no")
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.status["workers"] == {"desired": 4, "ready": 3, "joined": 3}
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert messages["Running"] == "Training runs on 3 of 4 worker pods (attempt 1)"
    assert f"Waiting for 1 worker pods: pod {last} cannot start: Unschedulable" in messages["Reconciling"]


def test_a_lost_worker_is_replaced_while_training_continues() -> None:
    sim = Simulation(**elastic(3))
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.settle()
    assert sim.status["phase"] == "Running", "the driver reports when the group restarts"
    assert (sim.status["round"], sim.losses["infrastructure"]) == (1, 1)
    assert worker_slots(sim) == [0, 1, 2]
    sim.report("RESTARTING")
    sim.settle()
    assert sim.status["phase"] == "Restarting"
    sim.report(joined=2)
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.status["workers"] == {"desired": 3, "ready": 2, "joined": 2}
    sim.start_pods()
    sim.report(joined=3)
    sim.settle()
    assert sim.status["workers"] == {"desired": 3, "ready": 3, "joined": 3}
    assert not sim.check_condition("Reconciling")


def test_training_needs_the_minimum_number_of_workers() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.report("RESTARTING")
    sim.settle()
    assert not to_job(sim.observe()).are_enough_up


def test_additional_workers_are_created_at_once() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    before = set(sim.pods)
    sim.apply(**elastic(5))
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3, 4]
    assert before <= set(sim.pods), "running pods stay"
    assert sim.status["workers"]["desired"] == 5
    assert "restarts" not in sim.status, "nothing was lost"
    assert "Resized" in sim.events
    assert sim.status["phase"] == "Running"


def test_surplus_workers_leave_only_after_the_next_commit() -> None:
    sim = Simulation(**elastic(5))
    sim.run_until_training()
    sim.report(checkpoint=3)
    sim.settle()
    sim.apply(**elastic(2))
    sim.settle()
    assert sim.status["resize"] == {"workerPods": 2, "afterCheckpoint": 3}
    assert worker_slots(sim) == [0, 1, 2, 3, 4]
    messages = {c["type"]: c["message"] for c in sim.status["conditions"]}
    assert "3 worker pods leave right after the next committed checkpoint" in messages["Reconciling"]
    sim.report(checkpoint=4)
    sim.settle()
    assert worker_slots(sim) == [0, 1]
    assert "resize" not in sim.status
    assert sim.status["round"] == 1 and "workerLosses" not in sim.status
    assert sim.status["workers"]["desired"] == 2


def test_a_resize_gives_the_quota_of_the_workers_that_leave_up_in_the_same_write() -> None:
    """Before the queue hears of it: a larger number later must not use what others may have by then."""
    scaling = {"minWorkers": 1, "maxWorkers": 4, "desiredWorkers": 2}
    status = {**RUNNING_STATUS, "phase": "Pending", "progress": {}, "workers": {"desired": 3}}
    for count, kept in ((3, 2), (2, None)):
        admission = {**ADMISSION, "podSets": [{"name": "workers", "count": count}]}
        wanted = decide(
            make_head(),
            *(make_worker(slot) for slot in range(3)),
            status={**status, "admission": admission},
            spec=queued_spec(scaling=scaling),
            queue=served(make_admitted(count=count, asked_workers=3)),
        )
        assert wanted.status is not None and wanted.status.fields["workers"]["desired"] == 2
        written = wanted.status.fields.get("admission")
        assert (written["podSets"][0]["count"] if written else None) == kept
        assert ("gets the quota back" in wanted.events[0].message) is (kept is not None)


def test_a_reverted_resize_costs_nothing() -> None:
    sim = Simulation(**elastic(4))
    sim.run_until_training()
    sim.apply(**elastic(2))
    sim.settle()
    sim.apply(**elastic(4))
    sim.settle()
    assert "resize" not in sim.status
    sim.report(checkpoint=0)
    sim.settle()
    assert worker_slots(sim) == [0, 1, 2, 3]
    assert sim.count_deleted() == 0


def test_before_training_surplus_pods_leave_at_once_idle_ones_first() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    sim.start_pods(but=[name for name, slot in _workers(sim) if slot == 1])
    sim.apply(**elastic(3))
    sim.settle()
    assert worker_slots(sim) == [0, 2, 3]


def test_the_next_attempt_starts_with_the_newly_desired_number() -> None:
    sim = Simulation(**elastic(2))
    sim.run_until_training()
    sim.apply(**elastic(4))
    sim.end_head("Infrastructure")
    for _ in range(4):
        sim.later(400)
        sim.settle()
    assert sim.status["attempt"] == 2
    assert worker_slots(sim) == [0, 1, 2, 3]


def lose_head(sim: Simulation) -> None:
    """And waits for the next attempt."""
    sim.lose(sim.head.name)
    for _ in range(2):
        sim.later(400)
        sim.settle()


def test_a_head_that_vanishes_while_workers_are_missing_is_lost_rather_than_recreated() -> None:
    sim = Simulation(**elastic(4))
    sim.settle()
    start(sim, but=1)
    sim.settle()
    lose_head(sim)
    assert sim.status["attempt"] == 2


def test_the_same_holds_for_a_fixed_number_of_workers() -> None:
    sim = Simulation(scaling={"numWorkers": 2})
    sim.run_until_training()
    sim.lose(_workers(sim)[0][0])
    sim.settle()
    lose_head(sim)
    assert sim.status["attempt"] == 2
    assert len(sim.heads) == len(set(sim.heads)) == 2


def sized(desired: int) -> dict[str, Any]:
    return {"scaling": {"minWorkers": 2, "maxWorkers": 6, "desiredWorkers": desired}, **NO_BUDGET}


def commit(sim: Simulation) -> None:
    sim.report(checkpoint=(sim.status.get("checkpoint") or {}).get("index", -1) + 1)


def make_slow(sim: Simulation) -> None:
    """Workers that are deleted from now on stay Terminating."""
    sim.stuck |= {name for name, pod in sim.pods.items() if pod.role == names.WORKER}


def end_slow(sim: Simulation) -> None:
    for name in [name for name in sim.stuck if name in sim.pods and sim.pods[name].is_deleting]:
        sim.lose(name)


@pytest.mark.parametrize("times", [12, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_slow", [False, True], ids=["end at once", "terminate slowly"])
def test_a_job_that_shrinks_and_grows_many_times_loses_nothing(is_slow: bool, times: int) -> None:
    sim = Simulation(**sized(4))
    sim.run_until_training()
    for number in range(times):
        if is_slow:
            make_slow(sim)
        sim.apply(**sized(2))
        sim.settle()
        commit(sim)
        sim.reconcile()
        sim.apply(**sized(4))
        sim.settle()
        sim.run_until_training()
        assert (sim.status["workers"]["desired"], sim.status["workers"]["ready"]) == (4, 4)
        if number % 3 == 2:
            end_slow(sim)
        sim.later(60)
    assert (sim.status["attempt"], sim.status["phase"]) == (1, "Running")
    assert COUNTERS.isdisjoint(sim.status)
    assert "WorkerReplaced" not in sim.events


def shrink(sim: Simulation) -> None:
    """Up to the write after which the surplus pods are deleted."""
    sim.apply(**sized(2))
    sim.reconcile()
    commit(sim)
    sim.reconcile()


ACTIONS = st.sampled_from(
    ["shrink", "2", "4", "6", "pass", "pass", "settle", "start", "commit", "slow", "end", "later"]
)


@given(st.lists(ACTIONS, min_size=4, max_size=40))
def test_resizes_in_any_order_with_anything_else_count_nothing(actions: list[str]) -> None:
    sim = Simulation(**sized(4))
    sim.run_until_training()
    acts: dict[str, Any] = {
        "shrink": shrink,
        "pass": Simulation.reconcile,
        "settle": Simulation.settle,
        "start": Simulation.start_pods,
        "commit": commit,
        "slow": make_slow,
        "end": end_slow,
        "later": lambda sim: sim.later(45),
    }
    for action in actions:
        if action.isdigit():
            sim.apply(**sized(int(action)))
        else:
            acts[action](sim)
    sim.settle()
    assert sim.status["attempt"] == 1
    assert COUNTERS.isdisjoint(sim.status)


def test_a_worker_that_is_lost_after_a_resize_still_counts() -> None:
    sim = Simulation(**{**sized(4), "disruptionLimit": 5})
    sim.run_until_training()
    sim.apply(**sized(2) | {"disruptionLimit": 5})
    sim.settle()
    commit(sim)
    sim.settle()
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))
    sim.settle()
    assert sim.losses["infrastructure"] == sim.status["restarts"]["disruptions"] == 1
    assert sim.status["workerLosses"]["rounds"] == 1


def test_resizes_do_not_lengthen_the_backoff_after_a_loss() -> None:
    failed = ended(make_worker(1, round_=20), "Infrastructure")
    status = {**RUNNING_STATUS, "round": 20, "workers": {"desired": 2, "ready": 1, "joined": 1}}
    job = make_job(make_head(), make_worker(0), failed, status=status, spec=make_spec(**sized(2)))
    assert failed.finished_at is not None
    assert (replacement_at(job) - failed.finished_at).total_seconds() == 1
