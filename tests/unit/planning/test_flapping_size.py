"""Resizes alone are no losses, whenever and however often a user or an autoscaler changes desiredWorkers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.api import names
from railhead.planning.facts.settlement import replacement_at
from tests.unit.builders import RUNNING_STATUS, ended, make_head, make_job, make_spec, make_worker
from tests.unit.planning.simulation import Simulation

NO_BUDGET = {"backoffLimit": 0, "noProgressLimit": 0, "disruptionLimit": 0}
COUNTERS = {"restarts", "disruptions", "workerLosses", "failure", "budget"}


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


@pytest.mark.parametrize("is_slow", [False, True], ids=["end at once", "terminate slowly"])
def test_a_job_that_shrinks_and_grows_100_times_loses_nothing(is_slow: bool) -> None:
    sim = Simulation(**sized(4))
    sim.run_until_training()
    for number in range(100):
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


@settings(max_examples=200)
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
    assert sim.status["restarts"]["infrastructure"] == sim.status["disruptions"]["total"] == 1
    assert sim.status["workerLosses"]["rounds"] == 1


def test_resizes_do_not_lengthen_the_backoff_after_a_loss() -> None:
    failed = ended(make_worker(1, round_=20), "Infrastructure")
    status = {**RUNNING_STATUS, "round": 20, "workers": {"desired": 2, "ready": 1, "joined": 1}}
    job = make_job(make_head(), make_worker(0), failed, status=status, spec=make_spec(**sized(2)))
    assert failed.finished_at is not None
    assert (replacement_at(job) - failed.finished_at).total_seconds() == 1
