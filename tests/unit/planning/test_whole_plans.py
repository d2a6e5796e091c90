"""The complete plans of the core decisions, with nothing missing and nothing extra."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from railhead.api.conditions import ORDER
from railhead.api.goodput import GoodputStatus
from railhead.api.names import HEADS_SERVICE, head_name, worker_name
from railhead.planning.plan import Delete, Event, Plan
from railhead.planning.pod_view import PodView
from railhead.planning.wanted_status import StatusWrite
from tests.unit.builders import (
    NOW,
    RUNNING_STATUS,
    UID,
    ended,
    make_absent,
    make_attempt,
    make_head,
    make_job,
    make_spec,
    make_worker,
)
from tests.unit.planning.state import decide

HEAD, FIRST, SECOND = make_head(), make_worker(0), make_worker(1)
TIME = "2026-01-01T12:00:00Z"
BEGUN = GoodputStatus(time=TIME).model_dump(by_alias=True, exclude_none=True)
GUARDED = {"/metadata/uid": UID, "/status/attempt": 1, "/status/round": 0, "/status/phase": "Running"}
FRESH = {**GUARDED, "/metadata/resourceVersion": "0"}
OWN = make_job().own_mounts
PARENTS = [
    ("Service", HEADS_SERVICE),
    ("ConfigMap", OWN.driver),
    ("ConfigMap", OWN.input),
    ("Secret", OWN.secret),
]


def condition(type_: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": TIME,
    }


def all_of(*stated: dict[str, Any], since: str = RUNNING_STATUS["startTime"]) -> list[dict[str, Any]]:
    """Plus those that are always present."""
    conditions = {each["type"]: each for each in (*make_absent(since), *stated)}
    return sorted(conditions.values(), key=lambda each: ORDER.index(each["type"]))


RUN = {"name": "digits-0f1e2d3c", "uid": UID}


def decide_and_list(
    *pods: PodView, status: dict[str, Any] | None = None, **spec: Any
) -> tuple[Plan, list[tuple[str, str]]]:
    """The plan without its creates, and kind and name of these."""
    wanted = decide(*pods, status=status, spec=make_spec(**spec))
    return replace(wanted, creates=()), [(create.kind, create.name) for create in wanted.creates]


def delete(*pods: PodView) -> tuple[Delete, ...]:
    return tuple(Delete(pod.name, pod.uid) for pod in pods)


def failure(pod: PodView, kind: str, *, exit_code: int) -> dict[str, Any]:
    return {
        "class": kind,
        "reason": kind,
        "message": "because",
        "attempt": 1,
        "pod": pod.name,
        "node": "node-1",
        "container": "ray",
        "exitCode": exit_code,
        "suspectPod": "",
        "suspectNode": "",
        "action": "",
        "time": TIME,
    }


def begun(number: int) -> dict[str, Any]:
    """An attempt that begins now."""
    attempt = make_attempt(number=number, startTime=TIME)
    del attempt["runningTime"]
    return attempt


def end_of(kind: str) -> dict[str, Any]:
    """Fields of an attempt whose head has failed."""
    return {"class": kind, "reason": kind, "node": "node-1"}


def test_the_first_attempt() -> None:
    wanted, creates = decide_and_list()
    message = "Attempt 1: starting 1 head pod and 2 worker pods"
    assert wanted == Plan(
        status=StatusWrite(
            fields={
                "observedGeneration": 1,
                "phase": "Pending",
                "run": RUN,
                "attempt": 1,
                "driver": OWN.driver,
                "input": OWN.input,
                "secret": OWN.secret,
                "workers": {"desired": 2, "ready": 0, "joined": 0},
                "waiting": {"since": TIME, "again": False},
                "startTime": TIME,
                "attempts": [begun(1)],
                "goodput": BEGUN,
                "conditions": all_of(
                    condition("Reconciling", "True", "Pending", message),
                    condition("Running", "False", "Pending", message),
                    since=TIME,
                ),
            },
            tests={
                "/metadata/uid": UID,
                "/status/attempt": 0,
                "/status/round": 0,
                "/status/observedGeneration": -1,
                "/metadata/generation": 1,
            },
        ),
    )
    workers = [worker_name("digits", UID, attempt=1, slot=slot, round_=0) for slot in (0, 1)]
    assert creates == [*PARENTS, ("Pod", head_name("digits", UID, 1)), *(("Pod", name) for name in workers)]


def test_a_lost_head() -> None:
    head = ended(HEAD, "Infrastructure")
    message = "Attempt 1 was lost (Infrastructure: because); attempt 2 follows"
    assert decide_and_list(head, FIRST, SECOND, status=RUNNING_STATUS) == (
        Plan(
            status=StatusWrite(
                fields={
                    "phase": "Restarting",
                    "failure": failure(head, "Infrastructure", exit_code=66),
                    "attempts": [make_attempt(completionTime=TIME, **end_of("Infrastructure"))],
                    "conditions": all_of(
                        condition("Reconciling", "True", "Restarting", message),
                        condition("Running", "False", "Infrastructure", message),
                    ),
                },
                tests=FRESH,
                pods=frozenset({head.uid, FIRST.uid, SECOND.uid}),
            ),
            deletes=delete(FIRST, SECOND),
            events=(Event("Warning", "Restarting", message),),
            wake_at=NOW + timedelta(seconds=2),
        ),
        [],
    )


def test_a_loss_that_ends_the_job_leaves_its_pods_to_the_next_pass() -> None:
    head = ended(HEAD, "Configuration")
    message = "Configuration: because (retrying would not help)"
    wanted, creates = decide_and_list(head, FIRST, SECOND, status=RUNNING_STATUS)
    assert wanted == Plan(
        status=StatusWrite(
            fields={
                "phase": "Failed",
                "completionTime": TIME,
                "workers": {"desired": 2, "ready": 0, "joined": 0},
                "failure": failure(head, "Configuration", exit_code=65),
                "attempts": [make_attempt(completionTime=TIME, **end_of("Configuration"))],
                "conditions": all_of(
                    condition("Stalled", "True", "Configuration", message),
                    condition("Running", "False", "Failed", message),
                    condition("Failed", "True", "Configuration", message),
                ),
            },
            tests=FRESH,
            pods=frozenset({head.uid, FIRST.uid, SECOND.uid}),
        ),
        events=(Event("Warning", "Failed", message),),
    )
    assert wanted.status is not None and not creates
    after = {**RUNNING_STATUS, **wanted.status.fields}
    assert decide_and_list(head, FIRST, SECOND, status=after) == (
        Plan(deletes=delete(FIRST, SECOND), wake_at=NOW + timedelta(days=1)),
        [],
    )


def test_success_leaves_the_workers_to_the_next_pass() -> None:
    head = ended(HEAD, "Succeeded", message="")
    message = "Training finished in attempt 1"
    wanted, creates = decide_and_list(head, FIRST, SECOND, status=RUNNING_STATUS)
    assert wanted == Plan(
        status=StatusWrite(
            fields={
                "phase": "Succeeded",
                "completionTime": "2026-01-01T11:59:59Z",
                "workers": {"desired": 2, "ready": 0, "joined": 0},
                "attempts": [make_attempt(completionTime="2026-01-01T11:59:59Z", **{"class": "Succeeded"})],
                "progress": {
                    "attempt": 1,
                    "state": "FINISHED",
                    "reports": 0,
                    "joined": 2,
                    "workers": 0,
                    "percentComplete": 100,
                    "estimatedRemainingSeconds": 0,
                    "remaining": "0s",
                    "metrics": {},
                    "updateTime": TIME,
                },
                "conditions": all_of(
                    condition("Running", "False", "Succeeded", message),
                    condition("Complete", "True", "Succeeded", message),
                ),
            },
            tests=GUARDED,
        ),
        events=(Event("Normal", "Succeeded", message),),
    )
    assert wanted.status is not None and not creates
    after = {**RUNNING_STATUS, **wanted.status.fields}
    assert decide_and_list(head, FIRST, SECOND, status=after) == (
        Plan(deletes=delete(FIRST, SECOND), wake_at=NOW + timedelta(days=1)),
        [],
    )


def test_a_replacement_deletes_the_ended_worker_pods_and_creates_what_the_new_ones_need() -> None:
    lost = ended(SECOND, "Infrastructure")
    [name] = [worker_name("digits", UID, attempt=1, slot=1, round_=1)]
    message = f"1 of 2 worker pods were lost: {lost.name} (exit code 66: because); replacing them (round 1)"
    assert decide_and_list(HEAD, FIRST, lost, status=RUNNING_STATUS) == (
        Plan(
            status=StatusWrite(
                fields={
                    "phase": "Restarting",
                    "round": 1,
                    "workerLosses": {"rounds": 1, "ownFault": 0, "refused": 0, "checkpoint": -1},
                    "workers": {"desired": 2, "ready": 1, "joined": 1},
                    "waiting": {"since": TIME, "again": True},
                    "attempts": [make_attempt(rounds=1)],
                    "conditions": all_of(
                        condition("Reconciling", "True", "WorkerLost", message),
                        condition("Running", "False", "WorkerLost", message),
                    ),
                },
                tests=FRESH,
            ),
            deletes=delete(lost),
            events=(Event("Warning", "WorkerReplaced", message),),
        ),
        [*PARENTS, ("Pod", name)],
    )


def test_the_next_attempt() -> None:
    lost = ended(HEAD, "Application")
    known = {**failure(lost, "Application", exit_code=64), "time": "2026-01-01T11:59:00Z"}
    status = {**RUNNING_STATUS, "phase": "Restarting", "failure": known, "checkpoint": {"uri": "/c", "index": 7}}
    status["workerLosses"] = {"rounds": 1}
    status["attempts"] = [make_attempt(completionTime=known["time"], **end_of("Application"))]
    message = "Attempt 2: starting 1 head pod and 2 worker pods"
    wanted, creates = decide_and_list(lost, status=status)
    assert wanted == Plan(
        status=StatusWrite(
            fields={
                "run": RUN,
                "attempt": 2,
                "driver": OWN.driver,
                "input": OWN.input,
                "secret": OWN.secret,
                "workerLosses": None,
                "head": {"pod": "", "node": ""},
                "restarts": {"application": 1, "withoutProgress": 0, "disruptions": 0},
                "budget": {"runningSeconds": 0, "checkpoint": 7},
                "workers": {"desired": 2, "ready": 0, "joined": 0},
                "waiting": {"since": TIME, "again": True},
                "attempts": [*status["attempts"], begun(2)],
                "goodput": BEGUN,
                "conditions": all_of(
                    condition("Reconciling", "True", "Restarting", message),
                    condition("Running", "False", "Restarting", message),
                ),
            },
            tests={**FRESH, "/status/phase": "Restarting", "/metadata/generation": 1},
            pods=frozenset({lost.uid}),
        ),
        deletes=delete(lost),
        events=(Event("Normal", "AttemptStarted", "Starting attempt 2; the newest known checkpoint is 7"),),
    )
    assert [kind for kind, _ in creates] == [*(kind for kind, _ in PARENTS), "Pod", "Pod", "Pod"]


def test_a_suspension_deletes_only_the_head() -> None:
    message = "A driver that trains ends after one more checkpoint, within 60 s; then the pods are deleted"
    assert decide_and_list(HEAD, FIRST, SECOND, status=RUNNING_STATUS, suspend=True, suspendGraceSeconds=60) == (
        Plan(
            status=StatusWrite(
                fields={
                    "phase": "Suspending",
                    "conditions": all_of(
                        condition("Reconciling", "True", "Suspending", message),
                        condition("Running", "False", "Suspending", message),
                    ),
                },
                tests={**GUARDED, "/metadata/generation": 1},
            ),
            deletes=delete(HEAD),
        ),
        [],
    )


def test_surplus_workers_are_deleted_idle_ones_first() -> None:
    scaling = {"minWorkers": 1, "maxWorkers": 3, "desiredWorkers": 2}
    idle = make_worker(0, is_running=False, phase="Pending")
    assert decide_and_list(HEAD, idle, SECOND, make_worker(2), status=RUNNING_STATUS, scaling=scaling) == (
        Plan(status=StatusWrite(fields={}, tests={**GUARDED, "/status/workers/desired": 2}), deletes=delete(idle)),
        [],
    )


def test_a_job_that_matches_its_status_has_an_empty_plan() -> None:
    assert decide_and_list(HEAD, FIRST, SECOND, status=RUNNING_STATUS) == (Plan(), [])


def test_conditions_of_other_controllers_are_kept_after_ours() -> None:
    theirs = condition("example.com/Billed", "True", "Paid", "in full")
    status = {**RUNNING_STATUS, "conditions": [theirs, *RUNNING_STATUS["conditions"]]}
    wanted, _ = decide_and_list(ended(HEAD, "Succeeded"), FIRST, SECOND, status=status)
    assert wanted.status is not None
    assert [each["type"] for each in wanted.status.fields["conditions"]] == [
        "Running",
        "Suspended",
        "Complete",
        "Failed",
        theirs["type"],
    ]
    assert wanted.status.fields["conditions"][-1] == theirs
