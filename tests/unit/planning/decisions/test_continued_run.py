"""Whose run it is: jobs that a backup tool has made again, and several jobs with one `run.name`."""

from __future__ import annotations

import asyncio
import copy
import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from railhead.api import names
from railhead.api.status import parse_status
from railhead.contract.job_input import FILE, JobInput
from railhead.contract.report import RestartInPlace
from railhead.controller.executor import LostCompare
from railhead.json_object import Object
from railhead.planning.decisions.continued_run import LOOK_SECONDS, decide_restored, decide_run
from railhead.planning.observed import RunHolder
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from railhead.planning.wanted_status import Requirement
from tests.model.api_server import JOBS
from tests.unit.builders import NOW, SPEC, UID, make_head, make_job
from tests.unit.kueue import ADMISSION
from tests.unit.planning.simulation import JOB, KEY, Simulation

OTHER = (JOBS, KEY.namespace, "other")
ELSEWHERE = (JOBS, "staging", KEY.name)
VELERO = {"velero.io/restore-name": "nightly"}


def uid_of(sim: Simulation) -> str:
    return str(sim.api.objects[JOB]["metadata"]["uid"])


def train(sim: Simulation, *, checkpoint: int = 7) -> str:
    """Until the current attempt has saved this checkpoint; returns the name of its run."""
    sim.run_until_training()
    run = names.run_name(KEY.name, uid_of(sim), None)
    sim.report("RUNNING", checkpoint=checkpoint, run_uri=f"/runs/{run}")
    sim.settle()
    assert sim.status["run"] == {"name": run, "uid": uid_of(sim)}
    return run


def make_again(sim: Simulation, *, labels: Object | None = None, **spec: Any) -> Object:
    """Deletes the job with all that it owns, and creates it with another uid; returns the status that it had."""
    status: Object = copy.deepcopy(sim.status)
    sim.api.remove(JOB)
    for name in list(sim.pods):
        sim.lose(name)
    sim.later(86_400)
    sim.api.create(JOB, {"metadata": {"name": KEY.name, "labels": labels or {}}, "spec": {**SPEC, **spec}})
    return status


def read_input(sim: Simulation) -> JobInput:
    """Returns what the pods of the current attempt get."""
    data = sim.api.objects["configmaps", KEY.namespace, sim.status["input"]]["data"]
    return JobInput.from_json(data[FILE])


def read_known(sim: Simulation) -> list[tuple[str, int]]:
    """Returns run and index of the checkpoints that the head gets."""
    body = next(body for name, body in sim.bodies.items() if name.endswith("-head"))
    [container] = body["spec"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    return [(known["run"], known["index"]) for known in json.loads(env["RAILHEAD_KNOWN_CHECKPOINTS"])]


STRICT: dict[str, Any] = {"disruptionLimit": 0, "backoffLimit": 0, "noProgressLimit": 0, "activeDeadlineSeconds": 3600}


@pytest.mark.parametrize("phase", ["Running", "Starting", "Restarting", "Suspending", "Suspended", "Queued"])
def test_a_job_that_is_made_again_with_its_status_continues_in_its_run(phase: str) -> None:
    sim = Simulation(**STRICT)
    run, former = train(sim), uid_of(sim)
    status = {**make_again(sim, **STRICT), "phase": phase}
    sim.edit_status(**status)
    sim.settle()
    assert sim.status["phase"] == "Pending" and sim.status["attempt"] == 2, sim.status["conditions"]
    assert sim.status["run"] == {"name": run, "uid": uid_of(sim), "formerUids": [former]}
    assert (read_input(sim).run_name, read_input(sim).former_uids) == (run, [former])
    assert not read_input(sim).is_sharing_run
    assert read_known(sim) == [("runs", 7)]
    sim.start_pods()
    sim.report("RUNNING", checkpoint=8)
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert sim.status["checkpoint"]["index"] == 8
    restarts = [parse_status(each).restarts for each in (sim.status, status)]
    assert restarts[0] == restarts[1], "nothing is counted that a restore has cost"


def test_the_time_between_backup_and_restore_is_suspended_time() -> None:
    sim = Simulation(**STRICT)
    train(sim)
    sim.later(100)
    sim.report("RUNNING", checkpoint=8)
    sim.settle()
    sim.edit_status(**make_again(sim, **STRICT))
    sim.settle()
    sim.start_pods()
    sim.report("RUNNING", checkpoint=9)
    sim.settle()
    assert 86_400 - 200 < sim.status["suspendedSeconds"] <= 86_400
    lost = sim.status["goodput"]["lostSeconds"]
    assert lost["suspended"] == sim.status["suspendedSeconds"]
    sim.later(3000)
    sim.settle()
    assert sim.status["phase"] == "Running", "the deadline does not count it"
    sim.later(700)
    sim.settle()
    assert sim.status["phase"] == "Failed"


def restart_in_place(sim: Simulation, number: int) -> None:
    """The driver reports so many restarts of its attempt, each of which spec.backoffLimit counts."""
    sim.report("RUNNING", restart=RestartInPlace(number, number, "Application", "TrainFunctionRaised", "no"))


@pytest.mark.parametrize("unseen", [0, 1])
def test_a_restart_in_place_before_the_backup_counts_once(unseen: int) -> None:
    """Also one that the driver had reported, and that the operator had not counted yet."""
    sim = Simulation(backoffLimit=5)
    train(sim)
    restart_in_place(sim, 2)
    sim.settle()
    restart_in_place(sim, 2 + unseen)
    sim.edit_status(**make_again(sim, backoffLimit=5))
    sim.settle()
    assert sim.status["attempt"] == 2
    assert sim.status["restarts"]["application"] == 2 + unseen
    assert sim.status["goodput"]["interruptions"] == {"Application": 2 + unseen}


@pytest.mark.parametrize("is_held", [False, True])
def test_the_time_between_backup_and_restore_refills_no_budget(is_held: bool) -> None:
    """The job does not train in it. `is_held`: another job has the run when the status arrives."""
    budget: dict[str, Any] = {"backoffLimit": 1, "backoffResetSeconds": 20 * 3600}
    sim = Simulation(**budget)
    train(sim)
    restart_in_place(sim, 1)
    sim.settle()
    sim.later(1000)
    sim.report("RUNNING", checkpoint=8)
    sim.settle()
    status = make_again(sim, **budget)
    if is_held:
        make_other(sim, ELSEWHERE, phase="Running", attempt=3)
        status["run"]["uid"] = sim.api.objects[ELSEWHERE]["metadata"]["uid"]
    sim.edit_status(**status)
    sim.settle()
    if is_held:
        sim.later(3600)
        sim.api.remove(ELSEWHERE)
        sim.settle()
    sim.run_until_training()
    assert 1000 <= sim.status["budget"]["runningSeconds"] < 1100
    restart_in_place(sim, 1)
    sim.settle()
    assert sim.status["restarts"]["application"] == 2


def test_the_time_in_which_a_restored_job_waits_for_its_run_is_suspended_time() -> None:
    sim = Simulation(**STRICT)
    train(sim)
    status = make_again(sim, **STRICT)
    make_other(sim, ELSEWHERE, phase="Running", attempt=3)
    status["run"]["uid"] = sim.api.objects[ELSEWHERE]["metadata"]["uid"]
    sim.edit_status(**status)
    sim.settle()
    assert (sim.status["phase"], sim.status["workers"]["ready"]) == ("Suspended", 0)
    sim.later(3600)
    sim.api.remove(ELSEWHERE)
    sim.settle()
    sim.start_pods()
    sim.report("RUNNING", checkpoint=9)
    sim.settle()
    assert sim.status["phase"] == "Running"
    assert 90_000 - 100 < sim.status["suspendedSeconds"] <= 90_000
    assert sim.status["goodput"]["lostSeconds"]["suspended"] == sim.status["suspendedSeconds"]


@pytest.mark.parametrize("attempt", [1, 2, 5])
def test_a_status_that_arrives_after_the_first_attempt_has_begun_replaces_it(attempt: int) -> None:
    sim = Simulation()
    run = train(sim)
    status = {**make_again(sim), "attempt": attempt}
    sim.run_until_training()
    first = sim.head.name
    assert read_input(sim).run_name != run
    sim.edit_status(**status)
    sim.report("RUNNING", checkpoint=0, run_uri="/runs/another")
    sim.settle()
    assert first not in sim.pods
    assert sim.status["attempt"] > max(attempt, 1)
    assert read_input(sim).run_name == run
    assert sim.status["checkpoint"]["index"] == 7


def test_attempts_of_a_restored_job_keep_their_records() -> None:
    """Also those that began before the status was there: no attempt is left out, and only the last one is open."""
    sim = Simulation()
    train(sim)
    sim.lose(sim.head.name)
    sim.settle()
    sim.later(60)
    sim.run_until_training()
    status = make_again(sim)
    for _ in range(4):
        sim.run_until_training()
        sim.lose(sim.head.name)
        sim.settle()
        sim.later(600)
    sim.run_until_training()
    assert (status["attempt"], sim.status["attempt"]) == (2, 5)
    sim.edit_status(**status)
    sim.settle()
    found = sim.status["attempts"]
    assert [each["number"] for each in found] == [1, 2, 3, 4, 5, 6, 7]
    assert found[0] == status["attempts"][0]
    assert [each["class"] for each in found[1:]] == ["Suspended"] * 5 + [""]
    assert all(one["completionTime"] <= other["startTime"] for one, other in pairwise(found))


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("begins_before", [False, True])
def test_a_restored_job_keeps_the_rounds_of_the_attempt_that_the_backup_shows(
    is_lost: bool, begins_before: bool
) -> None:
    """`is_lost`: its head was lost before the backup; `begins_before`: an attempt begins before the status is there."""
    sim = Simulation()
    train(sim)
    for number in range(2):
        sim.lose(f"{sim.head.name.removesuffix('head')}w0-{number}")
        sim.run_until_training()
    if is_lost:
        sim.lose(sim.head.name)
        sim.reconcile()
    status = make_again(sim)
    assert status["round"] == 2
    if begins_before:
        sim.run_until_training()
    sim.edit_status(**status)
    sim.reconcile()
    assert sim.status["phase"] == "Suspended"
    assert sim.status["attempts"][0]["rounds"] == 2
    assert sim.status["attempts"][-1]["rounds"] == sim.status["round"]
    sim.settle()
    assert [each["rounds"] for each in sim.status["attempts"]] == [2, 0, 0] if begins_before else [2, 0]
    assert sim.status["round"] == 0


@pytest.mark.parametrize("begins_before", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
def test_the_attempt_that_a_backup_shows_counts_as_without_the_restore(is_lost: bool, begins_before: bool) -> None:
    """A checkpoint ends the row of attempts without progress, and a failure before it counts. `begins_before`: an
    attempt begins before the status is there."""
    sim = Simulation()
    sim.run_until_training()
    sim.end_pod(sim.head.name, "", raw="", code=137)
    sim.settle()
    sim.later(301)
    train(sim)
    assert sim.status["restarts"]["withoutProgress"] == 1
    if is_lost:
        sim.end_head("Application")
        sim.reconcile()
    status = make_again(sim)
    if begins_before:
        sim.run_until_training()
        sim.lose(sim.head.name)
        sim.settle()
        sim.later(301)
        sim.run_until_training()
    sim.edit_status(**status)
    sim.settle()
    restarts = sim.status["restarts"]
    assert (restarts["withoutProgress"], restarts["application"]) == (0, int(is_lost)), sim.status["attempt"]


def test_a_write_of_a_pass_that_began_before_the_restore_fails() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.lose(sim.head.name)
    stale = plan(sim.observe())
    sim.edit_status(run={"name": "digits-former", "uid": "the-former-uid"})
    before = copy.deepcopy(sim.status)
    with pytest.raises(LostCompare):
        asyncio.run(sim.execute(stale))
    assert sim.status == before


@pytest.mark.parametrize("times", [2, 10])
def test_a_job_can_be_restored_again_and_again(times: int) -> None:
    sim = Simulation()
    run = train(sim)
    uids = []
    for _ in range(times):
        uids.append(uid_of(sim))
        sim.edit_status(**make_again(sim))
        sim.settle()
    assert read_input(sim).run_name == run
    assert read_input(sim).former_uids == uids[-8:]


def test_a_suspended_job_stays_suspended_until_it_is_resumed() -> None:
    sim = Simulation()
    run = train(sim)
    sim.edit_status(**make_again(sim, suspend=True))
    sim.settle()
    assert sim.status["phase"] == "Suspended" and not sim.pods
    sim.apply()
    sim.settle()
    assert read_input(sim).run_name == run


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_job_stays_finished(phase: str) -> None:
    sim = Simulation()
    train(sim)
    sim.end_head("Succeeded" if phase == "Succeeded" else "Configuration")
    sim.settle()
    assert sim.status["phase"] == phase
    status = make_again(sim)
    sim.edit_status(**status)
    sim.settle()
    assert sim.status["phase"] == phase and not sim.pods
    assert sim.status["completionTime"] == status["completionTime"]


def find_stalled(sim: Simulation) -> tuple[str, str]:
    """Returns reason and message."""
    [stalled] = [each for each in sim.status["conditions"] if each["type"] == "Stalled" and each["status"] == "True"]
    return stalled["reason"], stalled["message"]


def test_a_status_of_an_earlier_version_does_not_tell_the_run() -> None:
    sim = Simulation()
    train(sim)
    status = make_again(sim)
    del status["run"]
    sim.edit_status(**status)
    sim.settle()
    reason, message = find_stalled(sim)
    assert reason == "RestoredFromAnotherJob" and "spec.resumeFrom.checkpoint: /runs/c7" in message
    assert not sim.pods


def test_pods_that_began_before_such_a_status_arrived_are_deleted() -> None:
    sim = Simulation()
    train(sim)
    status = make_again(sim)
    sim.run_until_training()
    sim.edit_status(**{**status, "run": None})
    sim.settle()
    assert find_stalled(sim)[0] == "RestoredFromAnotherJob" and not sim.pods


def test_a_job_of_an_earlier_version_keeps_its_run_after_an_upgrade() -> None:
    sim = Simulation()
    run = train(sim)
    sim.api.patch(JOB, {"status": {"run": None}}, subresource="status")
    sim.lose(sim.head.name)
    sim.settle()
    sim.later(3600)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.status["run"] == {"name": run, "uid": uid_of(sim)}


def test_a_job_that_velero_has_made_again_waits_for_its_status() -> None:
    sim = Simulation()
    run = train(sim)
    status = make_again(sim, labels=VELERO)
    sim.settle()
    reason, message = find_stalled(sim)
    assert reason == "RestoredWithoutStatus" and "--status-include-resources" in message
    assert not sim.pods and sim.events.count("RestoredWithoutStatus") == 1
    sim.edit_status(**status)
    sim.settle()
    assert read_input(sim).run_name == run


def test_a_job_that_velero_has_made_again_begins_once_the_label_is_gone() -> None:
    sim = Simulation()
    train(sim)
    make_again(sim, labels=VELERO)
    sim.settle()
    sim.api.patch(JOB, {"metadata": {"labels": {"velero.io/restore-name": None}}})
    sim.settle()
    assert sim.status["attempt"] == 1 and sim.pods


def make_other(sim: Simulation, place: tuple[str, str, str] = OTHER, **status: Any) -> None:
    sim.api.create(place, {"metadata": {"name": place[2]}, "spec": {**SPEC, "run": NAMED}})
    if status:
        sim.api.patch(place, {"status": status}, subresource="status")


NAMED = {**SPEC["run"], "name": "shared"}


def test_a_copy_waits_until_the_job_that_it_was_restored_from_has_ended() -> None:
    """It was restored into another namespace."""
    sim = Simulation()
    run = train(sim)
    status = make_again(sim)
    make_other(sim, ELSEWHERE, phase="Running", attempt=3)
    status["run"]["uid"] = sim.api.objects[ELSEWHERE]["metadata"]["uid"]
    sim.edit_status(**status)
    sim.settle()
    reason, message = find_stalled(sim)
    assert reason == "RunInUse" and "restored from TrainJob staging/digits, phase Running" in message
    assert not sim.pods
    sim.api.patch(ELSEWHERE, {"status": {"phase": "Failed", "conditions": FAILED}}, subresource="status")
    sim.later(10)
    sim.settle()
    assert read_input(sim).run_name == run


FAILED = [
    {
        "type": "Failed",
        "status": "True",
        "reason": "TrainFunctionRaised",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
]


@pytest.mark.parametrize("phase", ["Running", "Starting", "Restarting", "Suspending", "Suspended", "Queued"])
def test_a_job_waits_for_the_one_that_has_its_run(phase: str) -> None:
    sim = Simulation(run=NAMED)
    make_other(sim, phase=phase, attempt=1)
    sim.settle()
    reason, message = find_stalled(sim)
    assert reason == "RunInUse" and f"run.name shared: TrainJob other (phase {phase}) has this run" in message
    assert not sim.pods
    sim.api.patch(OTHER, {"status": {"phase": "Failed", "conditions": FAILED}}, subresource="status")
    sim.later(10)
    sim.settle()
    assert sim.status["attempt"] == 1 and sim.pods
    assert read_input(sim).run_name == "shared" and read_input(sim).is_sharing_run


def test_a_restored_job_takes_its_run_from_no_job_that_trains_there() -> None:
    """Between backup and restore somebody has created another job with the same `run.name`."""
    sim = Simulation(run=NAMED)
    sim.run_until_training()
    status = make_again(sim, run=NAMED)
    make_other(sim, phase="Running", attempt=1)
    sim.edit_status(**status)
    sim.settle()
    reason, message = find_stalled(sim)
    assert reason == "RunInUse" and "TrainJob other (phase Running) has this run" in message
    assert not sim.pods and sim.status["attempt"] == 1
    sim.api.remove(OTHER)
    sim.later(10)
    sim.settle()
    assert sim.status["attempt"] == 2 and read_input(sim).run_name == "shared"


def test_a_restored_job_does_not_wait_for_one_that_waits_for_it() -> None:
    sim = Simulation(run=NAMED)
    sim.run_until_training()
    status = make_again(sim, run=NAMED)
    make_other(sim)
    former = {"name": "shared", "uid": "a-former-one"}
    make_other(sim, (JOBS, KEY.namespace, "restored-too"), phase="Running", attempt=4, run=former)
    sim.edit_status(**status)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.pods


def test_a_job_that_has_begun_keeps_its_run() -> None:
    sim = Simulation(run=NAMED)
    sim.run_until_training()
    make_other(sim)
    sim.lose(sim.head.name)
    sim.settle()
    sim.later(3600)
    sim.settle()
    assert sim.status["attempt"] == 2 and sim.pods


@pytest.mark.parametrize(("first", "begins"), [("digits", True), ("other", False)])
def test_of_two_that_have_not_begun_the_older_one_is_first(first: str, begins: bool) -> None:
    sim = Simulation(run=NAMED)
    if first == "other":
        sim.api.remove(JOB)
        make_other(sim)
        sim.later(1)
        sim.api.create(JOB, {"metadata": {"name": KEY.name}, "spec": {**SPEC, "run": NAMED}})
    else:
        sim.later(1)
        make_other(sim)
    sim.settle()
    assert bool(sim.pods) == begins


@pytest.mark.parametrize(
    "run",
    [
        {**NAMED, "name": "mine"},
        {key: value for key, value in NAMED.items() if key != "name"},
        {**NAMED, "storagePath": "/elsewhere"},
        {**NAMED, "storageVolume": {"persistentVolumeClaim": {"claimName": "another"}}},
    ],
)
def test_another_run_is_free(run: Object) -> None:
    sim = Simulation(run=run)
    make_other(sim, phase="Running", attempt=1)
    sim.settle()
    assert sim.pods


@pytest.mark.parametrize("place", [(JOBS, "team-b", "other"), (JOBS, "team-b", "digits")])
def test_no_other_namespace_holds_up_a_job(place: tuple[str, str, str]) -> None:
    sim = Simulation(run=NAMED)
    make_other(sim, place, phase="Running", attempt=1)
    sim.settle()
    assert sim.pods


FORMER = "9e8d7c6b-5555-6666-7777-888888888888"
OF_PODS: dict[str, Any] = {
    "driver": "a-driver",
    "input": "an-input",
    "source": "a-source",
    "secret": "a-secret",
    "head": {"pod": "digits-9e8d7c-3-head", "node": "node-1"},
    "workers": {"desired": 2, "ready": 2, "joined": 2},
    "resize": {"workerPods": 1, "afterCheckpoint": 4},
    "waiting": {"since": "2026-01-01T00:00:00Z", "again": True},
    "admission": ADMISSION,
    "workerLosses": {"rounds": 2},
    "stuckPods": [{"name": "digits-9e8d7c-2-w0-0", "node": "node-2"}],
    "avoidedNodes": [{"name": "node-3", "reason": "GPUFailed"}],
    "formerlyAvoidedNodes": [{"name": "node-4", "reason": "GPULost", "times": 0}],
}


@pytest.mark.parametrize(("pods", "attempt", "round_"), [((), 3, 2), ((make_head(4),), 5, 0)])
def test_a_restored_status_keeps_nothing_of_the_earlier_pods(
    pods: tuple[PodView, ...], attempt: int, round_: int
) -> None:
    """Its pods, and what they mounted and waited for, were of another TrainJob, and perhaps of another cluster."""
    run = {"name": "digits-9e8d7c", "uid": FORMER}
    known = {"phase": "Running", "attempt": 3, "round": 2, "run": run, "restarts": {"application": 1}, **OF_PODS}
    job = make_job(*pods, status=known)
    decision = decide_restored(job)
    assert decision is not None and decision.wanted is not None
    status, message = decision.wanted.status, f"from one with uid {FORMER}; it continues in its run, digits-9e8d7c"
    left = status.model_dump(by_alias=True, exclude_defaults=True)
    assert left["run"] == {"name": "digits-9e8d7c", "uid": UID, "formerUids": [FORMER]}
    assert (left["phase"], left["attempt"], left.get("round", 0)) == ("Suspended", attempt, round_)
    assert left["restarts"] == {"application": 1} and left["workers"] == {"desired": 2}
    assert not left.keys() & (OF_PODS.keys() - {"workers"}), left
    assert status.input == status.driver == status.source == status.secret == ""
    assert decision.wanted.requires == {Requirement.FRESH_PODS}
    [event] = decision.events
    assert (event.type, event.reason) == ("Normal", "Restored") and event.message.endswith(message)


@pytest.mark.parametrize("attempt", [0, 3])
def test_a_job_that_is_held_is_reconciled_again_and_says_why_once(attempt: int) -> None:
    holder = RunHolder(namespace="default", name="other", phase="Running")
    run = {"run": {"name": "digits-9e8d7c", "uid": FORMER}} if attempt else {}
    job = make_job(status={"attempt": attempt, "phase": "Running" if attempt else "", **run}, run_holder=holder)
    decision = decide_restored(job) if attempt else decide_run(job)
    assert decision is not None and decision.wanted is not None
    assert decision.wake_at == NOW + timedelta(seconds=LOOK_SECONDS)
    assert decision.wanted.status.phase == ("Suspended" if attempt else "Pending")
    assert [(event.type, event.reason) for event in decision.events] == [("Warning", "RunInUse")]
    again = replace(job, status=decision.wanted.status)
    held = decide_restored(again) if attempt else decide_run(again)
    assert held is not None and not held.events


def test_a_status_of_an_earlier_version_says_how_to_begin_again() -> None:
    """It names neither a run nor a checkpoint."""
    decision = decide_restored(make_job(status={"attempt": 1, "phase": "Running", "input": "digits-9e8d7c-input-ab"}))
    assert decision is not None and decision.wanted is not None
    condition = decision.wanted.status.find_condition("Stalled")
    assert condition is not None
    assert condition.message.endswith("delete this TrainJob and create it again with another name")
