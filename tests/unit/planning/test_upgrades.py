"""An upgrade of the operator mid-run: all pods of an attempt run the driver that it started with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from railhead.planning.observed import Observed, Remove
from railhead.planning.plan import Create, Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView, Problem
from tests.model.world import driver_of
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    SETTINGS,
    make_head,
    make_job,
    make_observed,
    make_spec,
    make_worker,
)
from tests.unit.planning.state import decide

OLD = "railhead-driver-old"
LOST = make_worker(1, is_deleting=True)


def observe(*pods: PodView, **status: Any) -> Observed:
    """After the upgrade."""
    return make_observed(*pods, status={**RUNNING_STATUS, "driver": OLD, **status})


def find_drivers(wanted: Plan) -> set[str]:
    """Drivers that the created pods mount."""
    return {
        driver_of(create.build()) for create in wanted.creates if isinstance(create, Create) and create.kind == "Pod"
    }


def creates_driver(wanted: Plan) -> bool:
    return any(isinstance(create, Create) and create.name == SETTINGS.bundle_name for create in wanted.creates)


def test_a_replaced_worker_runs_the_driver_of_its_attempt() -> None:
    wanted = plan(observe(make_head(), make_worker(0), LOST))
    assert find_drivers(wanted) == {OLD}
    assert not creates_driver(wanted), "this operator has another one"


def test_missing_pods_are_created_with_the_driver_of_their_attempt() -> None:
    wanted = plan(observe(make_worker(0), phase="Pending", head={}, progress={}))
    assert find_drivers(wanted) == {OLD}


def test_the_next_attempt_runs_the_new_driver() -> None:
    failure = {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:00:00Z"}
    wanted = plan(observe(phase="Restarting", failure=failure))
    assert wanted.status is not None and wanted.status.fields["driver"] == SETTINGS.bundle_name
    assert find_drivers(wanted) == {SETTINGS.bundle_name} and creates_driver(wanted)


def test_a_status_without_a_driver_gets_this_operators() -> None:
    wanted = plan(observe(make_head(), make_worker(0), LOST, driver=""))
    assert find_drivers(wanted) == {SETTINGS.bundle_name} and creates_driver(wanted)


def lose_driver(name: str, *, known: str = OLD) -> Plan:
    problem = Problem(
        "FailedMount", f'MountVolume.SetUp failed for volume "railhead-bundle" : configmap "{name}" not found'
    )
    waits = make_worker(1, round_=1, phase="Pending", is_running=False, problem=problem, events_read_at=NOW)
    return plan(observe(make_head(), make_worker(0), waits, round=1, phase="Restarting", driver=known))


def test_an_attempt_ends_when_its_driver_is_gone_and_is_not_this_operators() -> None:
    wanted = lose_driver(OLD)
    assert wanted.status is not None
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["reason"]) == ("Infrastructure", "DriverGone")
    assert f"ConfigMap {OLD} with the driver of attempt 1 is gone" in failure["message"]


def test_pods_keep_waiting_for_other_missing_config_maps() -> None:
    wanted = lose_driver("keys")
    assert wanted.status is None or "failure" not in wanted.status.fields
    own = lose_driver(SETTINGS.bundle_name, known=SETTINGS.bundle_name)
    assert own.status is None or "failure" not in own.status.fields


def test_the_same_operator_creates_its_driver_again() -> None:
    observed = observe(make_head(), make_worker(0), LOST, driver=SETTINGS.bundle_name)
    assert creates_driver(plan(observed))
    assert not creates_driver(plan(replace(observed, settings=replace(SETTINGS, bundle_name="railhead-driver-newer"))))


def test_a_missing_driver_spends_no_budget() -> None:
    observed = observe(make_head(), make_worker(0), make_worker(1, is_running=False, problem=missing("configmap", OLD)))
    wanted = plan(replace(observed, spec=make_spec(backoffLimit=0, noProgressLimit=0)))
    assert wanted.status is not None and wanted.status.fields["phase"] == "Restarting"


OWN = make_job().own_mounts


def missing(kind: str, name: str) -> Problem:
    return Problem("FailedMount", f'MountVolume.SetUp failed for volume "v" : {kind} "{name}" not found')


def find_created(wanted: Plan) -> set[str]:
    return {create.name for create in wanted.creates}


def test_a_deleted_input_or_secret_is_created_again_by_the_operator_that_can_make_the_same() -> None:
    own = {"driver": OWN.driver, "input": OWN.input, "secret": OWN.secret}
    assert {OWN.input, OWN.secret} <= find_created(plan(observe(make_head(), make_worker(0), LOST, **own)))
    with_other_key = find_created(plan(observe(make_head(), make_worker(0), LOST, **{**own, "secret": "other"})))
    assert OWN.input in with_other_key and not {OWN.secret, "other"} & with_other_key
    with_other_input = find_created(plan(observe(make_head(), make_worker(0), LOST, **{**own, "input": "other"})))
    assert not {OWN.input, OWN.secret, "other"} & with_other_input


@pytest.mark.parametrize("name", ["driver", "input", "secret"])
def test_all_pods_of_an_attempt_mount_the_same_and_the_next_attempts_get_the_new(name: str) -> None:
    old = f"digits-{name}-old"
    status = {"driver": OWN.driver, "input": OWN.input, "secret": OWN.secret, name: old}
    [replacement] = [c for c in plan(observe(make_head(), make_worker(0), LOST, **status)).creates if c.kind == "Pod"]
    assert old in json.dumps(dict(replacement.build()))
    wanted = plan(observe(phase="Restarting", failure=FAILURE, **status))
    assert wanted.status is not None and wanted.status.fields[name] == getattr(OWN, name)
    assert all(old not in json.dumps(dict(c.build())) for c in wanted.creates if c.kind == "Pod")


def find_copy(wanted: Plan) -> object:
    return wanted.status.fields.get("source") if wanted.status else None


def test_all_attempts_use_the_copy_of_the_first_one_whose_name_nobody_can_guess() -> None:
    assert find_copy(decide()) is None
    first = make_observed(spec=make_spec(source={"configMap": {"name": "code"}}))
    other_key = replace(first, settings=replace(SETTINGS, token_key=b"other"))
    name, other = (str(find_copy(plan(each))) for each in (first, other_key))
    assert name != other and name.startswith("digits-0f1e2d-source-")
    later = replace(observe(phase="Restarting", failure=FAILURE, source=name), spec=first.spec)
    for each in (later, replace(later, settings=other_key.settings)):
        wanted = plan(each)
        assert name in find_created(wanted) and other not in find_created(wanted)
        assert find_copy(wanted) is None, "it stays"


def test_the_next_attempt_removes_an_input_that_it_does_not_use() -> None:
    old = plan(observe(phase="Restarting", failure=FAILURE, input="digits-input-old"))
    assert Remove("ConfigMap", "digits-input-old") in old.forgotten, "and with it its Secret"
    own = plan(observe(phase="Restarting", failure=FAILURE, input=OWN.input))
    assert [remove.name for remove in own.forgotten] == [OLD]


@pytest.mark.parametrize(
    ("kind", "field", "reason"), [("configmap", "input", "InputGone"), ("secret", "secret", "SecretGone")]
)
def test_an_attempt_ends_when_what_another_operator_made_is_gone(kind: str, field: str, reason: str) -> None:
    """Also before its head has been up: this operator cannot make the same."""
    head = make_head(is_running=False, phase="Pending")
    waits = make_worker(1, is_running=False, phase="Pending", problem=missing(kind, "of-another-operator"))
    starting = {"phase": "Pending", "head": {}, "progress": {}, "waiting": {"since": "2026-01-01T11:59:00Z"}}
    wanted = plan(observe(head, make_worker(0), waits, **starting, **{field: "of-another-operator"}))
    assert wanted.status is not None
    assert wanted.status.fields["failure"]["reason"] == reason


@pytest.mark.parametrize(("kind", "field"), [("configmap", "driver"), ("configmap", "input"), ("secret", "secret")])
def test_what_a_waiting_pod_needs_is_created_again(kind: str, field: str) -> None:
    """Nobody watches these objects: the kubelet's Event tells that one is gone."""
    own = {"driver": OWN.driver, "input": OWN.input, "secret": OWN.secret}
    waits = make_worker(1, round_=1, is_running=False, problem=missing(kind, own[field]))
    for round_ in (0, 1):
        wanted = plan(observe(make_head(), make_worker(0), replace(waits, round=round_), round=round_, **own))
        assert own[field] in find_created(wanted)
        assert not [create for create in wanted.creates if create.kind == "Pod"]
        assert wanted.status is not None and wanted.status.fields == {}


def test_an_attempt_that_lost_another_operators_secret_spends_no_budget() -> None:
    waits = make_worker(1, round_=1, is_running=False, problem=missing("secret", "digits-auth-old"))
    status = {"round": 1, "phase": "Restarting", "workers": {"desired": 2}, "secret": "digits-auth-old"}
    observed = observe(make_head(), make_worker(0), waits, **status)
    wanted = plan(replace(observed, spec=make_spec(backoffLimit=0, noProgressLimit=0)))
    assert wanted.status is not None and "phase" not in wanted.status.fields, "no budget is spent"
    failure = wanted.status.fields["failure"]
    assert (failure["class"], failure["reason"]) == ("Infrastructure", "SecretGone")
    again = {**RUNNING_STATUS, "phase": "Restarting", "failure": {**failure, "time": "2026-01-01T11:00:00Z"}}
    assert "Secret" in [create.kind for create in decide(status=again).creates]


def find_removed_drivers(wanted: Plan) -> list[str]:
    removed = (*wanted.removes, *wanted.forgotten)
    return [remove.name for remove in removed if remove.name.startswith("railhead-driver-")]


FAILURE = {"class": "Infrastructure", "attempt": 1, "time": "2026-01-01T11:00:00Z"}
ENDED = {"type": "Complete", "status": "True", "reason": "Succeeded", "lastTransitionTime": "2026-01-01T11:00:00Z"}
FINISHED = {"phase": "Succeeded", "completionTime": "2026-01-01T11:00:00Z", "conditions": [ENDED]}


def test_the_last_job_with_an_old_driver_removes_it_at_its_next_attempt_or_end() -> None:
    next_attempt = observe(phase="Restarting", failure=FAILURE)
    assert find_removed_drivers(plan(next_attempt)) == [OLD]
    for field in ("keepPodsSeconds", "ttlSecondsAfterFinished"):
        finished = replace(observe(**FINISHED), spec=make_spec(**{field: 60}))
        assert find_removed_drivers(plan(finished)) == [OLD]
    assert find_removed_drivers(plan(observe(make_head(), make_worker(0), LOST))) == [], "the attempt needs it"


def test_a_driver_stays_if_another_job_runs_it_or_it_is_this_operators() -> None:
    shared = replace(observe(phase="Restarting", failure=FAILURE), is_driver_shared=True)
    assert find_removed_drivers(plan(shared)) == []
    own = observe(phase="Restarting", failure=FAILURE, driver=SETTINGS.bundle_name)
    assert find_removed_drivers(plan(own)) == []
    assert find_removed_drivers(plan(observe(phase="Restarting", failure=FAILURE, driver=""))) == []
    one_of_several = replace(SETTINGS, job_selector="team=a")
    unknown = replace(observe(phase="Restarting", failure=FAILURE), settings=one_of_several)
    assert find_removed_drivers(plan(unknown)) == [], "a job of another operator may run it"


def test_a_pass_that_creates_nothing_does_not_build_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most passes: it would be most of their cost."""
    monkeypatch.delattr("railhead.planning.job.build_input")
    status = {"driver": OWN.driver, "input": OWN.input, "secret": OWN.secret}
    plan(observe(make_head(), make_worker(0), make_worker(1), **status))
    with pytest.raises(NameError):
        plan(observe(make_head(), make_worker(0), LOST, **status))
