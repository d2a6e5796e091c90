"""spec.ttlSecondsAfterFinished: when what is left of a finished job goes, and what stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.times import parse_time
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from tests.unit.builders import is_empty
from tests.unit.planning.simulation import Simulation

CODE = {"kind": "ConfigMap", "metadata": {"namespace": "default", "name": "code"}, "data": {"train.py": ""}}


def finished(outcome: str = "Succeeded", **spec: Any) -> Simulation:
    sim = Simulation(**spec)
    sim.api.put(CODE)
    sim.run_until_training()
    sim.end_head(outcome)
    sim.settle()
    return sim


def clean(sim: Simulation) -> Plan:
    """One pass, with its last write."""
    wanted = sim.reconcile()
    assert wanted.last is not None
    return wanted


@pytest.mark.parametrize("outcome", ["Succeeded", "Configuration"])
def test_the_children_go_after_the_time_by_one_alarm(outcome: str) -> None:
    sim = finished(outcome, ttlSecondsAfterFinished=3600)
    ended = parse_time(sim.status["completionTime"])
    assert ended is not None
    assert sim.reconcile() == Plan(wake_at=ended + timedelta(hours=1))
    sim.now = ended + timedelta(seconds=3599)
    assert is_empty(sim.reconcile())
    sim.later(1)
    before = dict(sim.status)
    wanted = clean(sim)
    assert not sim.pods
    service = names.service_name("digits", sim.observe().uid)
    assert {(r.kind, r.name.split("-", 2)[-1]) for r in wanted.removes} == {
        ("Service", service.split("-", 2)[-1]),
        ("Secret", "auth"),
        ("ConfigMap", "input"),
        ("NetworkPolicy", service.split("-", 2)[-1]),
    }
    assert wanted.status is None and not wanted.events
    assert {key for key in sim.status if sim.status[key] != before.get(key)} == {"cleanUpTime"}
    assert sim.reconcile() == Plan(), "once"
    assert plan(replace(sim.observe(), generation=7)).status is not None, "a later change is acknowledged"


def test_without_a_time_the_head_pod_is_kept() -> None:
    sim = finished()
    sim.later(10**8)
    assert sim.reconcile() == Plan()
    assert len(sim.pods) == 1


def test_a_job_that_goes_on_is_not_cleaned_up() -> None:
    sim = Simulation(ttlSecondsAfterFinished=0)
    sim.run_until_training()
    sim.end_head("Application")
    sim.settle()
    assert sim.status["phase"] == "Restarting"
    sim.later(3600)
    sim.settle()
    assert sim.status["attempt"] == 2
    assert "cleanUpTime" not in sim.status


@pytest.mark.parametrize("has_network_policies", [True, False])
def test_a_time_that_comes_later_is_taken_up_and_copies_and_policies_go_too(has_network_policies: bool) -> None:
    """Policies also after `--job-network-policies` was switched off: an operator before this one may have made them."""
    sim = finished(source={"configMap": {"name": "code"}})
    sim.later(7200)
    sim.apply(source={"configMap": {"name": "code"}}, ttlSecondsAfterFinished=3600)
    observed = sim.observe()
    settings = replace(observed.settings, has_network_policies=has_network_policies)
    wanted = plan(replace(observed, settings=settings))
    assert [r.kind for r in wanted.removes] == ["Secret", "Service", "ConfigMap", "ConfigMap", "NetworkPolicy"]


def test_a_driver_that_was_told_of_a_deadline_says_its_last_word_first() -> None:
    sim = Simulation(activeDeadlineSeconds=600, ttlSecondsAfterFinished=0)
    sim.run_until_training()
    sim.later(600)
    head = sim.head
    sim.stuck.add(head.name)
    sim.settle()
    assert sim.status["phase"] == "Failed"
    gone_by = sim.pods[head.name].gone_by
    assert gone_by is not None and gone_by > sim.now
    wanted = sim.reconcile()
    assert wanted.last is None and len(sim.pods) == 3, "its workers are needed for one more checkpoint"
    sim.now = gone_by
    assert clean(sim).removes
