"""Jobs that use what the operator does not allow get no pods, and a condition says why; what runs is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api.restrictions import ADVICE, Restrictions, make_restrictions
from railhead.api.spec import TrainJobSpec
from railhead.planning.amendments import restrictions
from railhead.planning.facts.deadlines import HOLD_SECONDS, OUTAGE_SECONDS
from railhead.planning.planner import plan
from railhead.planning.pod_view import Problem
from tests.unit.builders import SETTINGS, is_empty, make_observed, make_spec
from tests.unit.planning.simulation import Simulation

RESTRICTED = replace(
    SETTINGS,
    restrictions=make_restrictions(is_restricted=True, service_accounts=[], secrets=["keys"], claims=[]),
)
HOST: dict[str, Any] = {"podTemplate": {"spec": {"hostNetwork": True}}}
WHY = f"spec.podTemplate.spec.hostNetwork: must be false{ADVICE}"
CHILDREN = ("pods", "services", "secrets", "configmaps")


def find_reason(sim: Simulation) -> tuple[str, str]:
    [found] = [(c["reason"], c["message"]) for c in sim.status["conditions"] if c["type"] == "Reconciling"]
    return found


def train(**spec: Any) -> Simulation:
    """Before the operator was restricted."""
    sim = Simulation(**HOST, **spec)
    sim.run_until_training()
    sim.restart(RESTRICTED)
    return sim


def test_a_plan_for_a_job_that_is_not_allowed_creates_nothing() -> None:
    wanted = plan(make_observed(spec=make_spec(**HOST), settings=RESTRICTED))
    assert wanted.creates == () and wanted.refused == Problem("NotAllowed", WHY)


def test_a_job_that_is_not_allowed_gets_nothing_and_a_condition_with_the_cause() -> None:
    sim = Simulation(**HOST)
    sim.restart(RESTRICTED)
    sim.settle()
    assert find_reason(sim) == ("NotAllowed", WHY)
    assert sim.status["phase"] == "Pending" and not sim.check_condition("Running")
    writes = sim.count_status_writes()
    for _ in range(4):
        assert sim.last.wake_at is not None
        sim.now = sim.last.wake_at
        sim.settle()
    assert sim.count_created(*CHILDREN) == 0
    assert sim.count_status_writes() == writes and sim.events == ["NotAllowed"]


def test_it_starts_once_the_operator_allows_it() -> None:
    sim = Simulation(**HOST)
    sim.restart(RESTRICTED)
    sim.settle()
    sim.restart()
    sim.run_until_training()
    assert sim.status["phase"] == "Running" and sim.status["attempt"] == 1 and "restarts" not in sim.status


def test_a_job_that_is_allowed_does_not_notice() -> None:
    sim = Simulation(envFrom=[{"secretRef": {"name": "keys"}}])
    sim.restart(RESTRICTED)
    sim.run_until_training()
    assert sim.status["phase"] == "Running"


def test_a_running_job_keeps_its_pods_until_it_needs_new_ones() -> None:
    sim = train()
    assert is_empty(sim.reconcile()) and len(sim.pods) == 3
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    sim.settle()
    assert find_reason(sim) == ("NotAllowed", WHY) and len(sim.pods) == 2
    sim.later(HOLD_SECONDS)
    sim.settle()
    assert len(sim.pods) == 2, "somebody may allow it within minutes"
    sim.later(OUTAGE_SECONDS - HOLD_SECONDS)
    sim.settle()
    assert not sim.pods, "what waits in vain is released"
    assert sim.status["phase"] == "Restarting" and sim.status["failure"]["reason"] == "NotAllowed"
    assert not sim.status["restarts"].get("application")


def test_an_elastic_job_keeps_training_without_the_new_pods() -> None:
    scaling = {"minWorkers": 1, "maxWorkers": 3, "desiredWorkers": 2}
    sim = train(scaling=scaling)
    sim.apply(scaling={**scaling, "desiredWorkers": 3}, **HOST)
    sim.settle()
    assert sim.status["phase"] == "Running" and sim.check_condition("Running") and len(sim.pods) == 3
    reason, message = find_reason(sim)
    assert reason == "WaitingForWorkers" and WHY in message


def test_a_suspended_job_is_not_resumed() -> None:
    sim = train()
    sim.apply(suspend=True, **HOST)
    sim.settle()
    assert sim.status["phase"] == "Suspended"
    sim.apply(suspend=False, **HOST)
    sim.settle()
    assert find_reason(sim) == ("NotAllowed", WHY) and not sim.pods


def test_a_spec_is_judged_once_however_many_pods_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[TrainJobSpec] = []

    def judge(spec: TrainJobSpec, _: Restrictions) -> tuple[str, ...]:
        judged.append(spec)
        return ()

    monkeypatch.setattr(restrictions, "find_refusals", judge)
    wanted = plan(make_observed(spec=make_spec(scaling={"numWorkers": 64}), settings=RESTRICTED))
    assert sum(create.kind == "Pod" for create in wanted.creates) == 65
    assert len(judged) == 1
