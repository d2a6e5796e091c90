"""The order of the decisions: for each adjacent pair, a job in which both decide, and the first one wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from railhead.planning.decisions.continued_run import decide_restored, decide_run
from railhead.planning.decisions.finished import decide_clean_up, decide_deletion, decide_finished, decide_success
from railhead.planning.decisions.loss import (
    decide_active_deadline,
    decide_loss,
    decide_partial_gang,
    decide_partial_start,
    decide_startup_deadline,
)
from railhead.planning.decisions.next_attempt import (
    decide_first_attempt,
    decide_next_attempt,
    decide_restarts_in_place,
    decide_resume_source,
)
from railhead.planning.decisions.show_progress import show_progress
from railhead.planning.decisions.suspend import decide_queue, decide_resume, decide_suspend
from railhead.planning.decisions.workers import (
    decide_outdated_pods,
    decide_replacement,
    decide_resize,
    decide_stale_pods,
    decide_uncreated_pods,
    decide_unstarted_pods,
)
from railhead.planning.job import Job
from railhead.planning.observed import Rejection
from railhead.planning.planner import DECISIONS
from railhead.planning.pod_view import PodView, Problem
from tests.unit.builders import NOW, RUNNING_STATUS, ended, make_head, make_job, make_spec, make_worker

HEAD, WORKERS = make_head(), (make_worker(0), make_worker(1))
OLD_HEAD = replace(HEAD, created_at=NOW - timedelta(hours=1))
DONE = ended(HEAD, "Succeeded")
ELASTIC = {"minWorkers": 2, "maxWorkers": 4, "desiredWorkers": 4}
LONG_AGO = "2026-01-01T11:00:00Z"
FINISHED = {
    **RUNNING_STATUS,
    "phase": "Succeeded",
    "completionTime": LONG_AGO,
    "conditions": [{"type": "Complete", "status": "True", "reason": "Succeeded", "lastTransitionTime": LONG_AGO}],
}
PENDING = {
    "observedGeneration": 1,
    "phase": "Pending",
    "attempt": 1,
    "workers": {"desired": 2, "ready": 0, "joined": 0},
    "waiting": {"since": LONG_AGO, "again": False},
}
LOST = {**RUNNING_STATUS, "failure": {"class": "Infrastructure", "attempt": 1, "time": LONG_AGO}}
OTHERS_RUN = {"name": "digits-aaaabbbb", "uid": "aaaabbbb-0000-0000-0000-000000000000"}
RESTARTED = {**RUNNING_STATUS["progress"], "restart": {"number": 1, "charged": 1, "class": "Application"}}
OUTDATED = replace(
    make_worker(0, phase="Pending", is_running=False, node="", created_at=NOW - timedelta(hours=1)),
    problem=Problem("Unschedulable", "no node fits"),
    avoids=("node-9",),
)
NO_NODE = replace(OUTDATED, avoids=(), events_read_at=NOW)
UNSTARTED = replace(
    make_worker(1, phase="Pending", is_running=False, node="node-8", created_at=NOW - timedelta(hours=1)),
    problem=Problem("ImagePullBackOff", "no space left on device"),
)
STARTED = make_worker(2, started_at=NOW - timedelta(hours=1))
QUOTA = Rejection(
    Problem("QuotaExceeded", "no room"), attempt=1, tries=1, at=NOW - timedelta(hours=1), since=NOW - timedelta(hours=1)
)


def job(*pods: PodView, status: dict[str, Any] | None = None, rejection: Rejection | None = None, **spec: Any) -> Job:
    return replace(make_job(*pods, status=status, spec=make_spec(**spec)), rejection=rejection)


def deleted(each: Job) -> Job:
    return replace(each, is_deleting=True)


OVERDUE = {**RUNNING_STATUS, "phase": "Suspended"}


def restored(each: Job) -> Job:
    return replace(each, is_from_backup=True)


@dataclass(frozen=True)
class Case:
    """A job in which this decision and the next one both decide."""

    decision: Any
    job: Job


CASES = (
    Case(decide_deletion, job(DONE, status=FINISHED, ttlSecondsAfterFinished=60, keepPodsSeconds=60)),
    Case(decide_clean_up, job(DONE, status=FINISHED, keepPodsSeconds=60)),
    Case(decide_finished, job(*WORKERS, status={**FINISHED, "run": OTHERS_RUN})),
    Case(decide_restored, job(*WORKERS, status={**RUNNING_STATUS, "run": OTHERS_RUN, "progress": RESTARTED})),
    Case(
        decide_restarts_in_place,
        deleted(job(HEAD, *WORKERS, status={**RUNNING_STATUS, "progress": RESTARTED})),
    ),
    Case(decide_suspend, job(suspend=True, resumeFrom={"trainJob": "nobody"})),
    Case(decide_resume_source, restored(job(resumeFrom={"trainJob": "nobody"}))),
    Case(decide_run, restored(job(status={"phase": "Suspended"}, scheduling={"queueName": "team-a"}))),
    Case(decide_queue, job(status=OVERDUE, activeDeadlineSeconds=60, scheduling={"queueName": "team-a"})),
    Case(decide_active_deadline, job(status=OVERDUE, activeDeadlineSeconds=60)),
    Case(decide_resume, job(status={"phase": "Suspended"})),
    Case(decide_first_attempt, job(make_head(1), make_head(3), status={**RUNNING_STATUS, "attempt": 2})),
    Case(
        decide_stale_pods,
        job(
            make_head(1),
            status={
                **RUNNING_STATUS,
                "attempt": 2,
                "failure": {"class": "Infrastructure", "attempt": 2, "time": LONG_AGO},
            },
        ),
    ),
    Case(decide_next_attempt, job(DONE, *WORKERS, status=LOST)),
    Case(decide_success, job(DONE, *WORKERS, status=RUNNING_STATUS)),
    Case(
        decide_loss,
        job(ended(HEAD, "OutOfMemory"), make_worker(0, is_running=False), status=PENDING, startDeadlineSeconds=60),
    ),
    Case(decide_startup_deadline, job(OLD_HEAD, status=PENDING, startDeadlineSeconds=60, rejection=QUOTA)),
    Case(
        decide_partial_gang,
        job(
            OLD_HEAD,
            status={**PENDING, "workers": {"desired": 3}},
            scaling=ELASTIC,
            rejection=QUOTA,
        ),
    ),
    Case(
        decide_resize,
        job(HEAD, *WORKERS, status={**RUNNING_STATUS, "workers": {"desired": 3, "ready": 3}}, scaling=ELASTIC),
    ),
    Case(
        decide_replacement,
        job(
            HEAD,
            ended(WORKERS[0], "Infrastructure"),
            UNSTARTED,
            STARTED,
            status={**PENDING, "workers": {"desired": 3}},
            scaling={"numWorkers": 3},
        ),
    ),
    Case(
        decide_unstarted_pods,
        job(
            HEAD,
            OUTDATED,
            UNSTARTED,
            STARTED,
            status={**PENDING, "workers": {"desired": 3}},
            scaling={"numWorkers": 3},
        ),
    ),
    Case(
        decide_outdated_pods,
        job(HEAD, OUTDATED, status=PENDING),
    ),
    Case(
        decide_uncreated_pods,
        job(
            HEAD,
            WORKERS[0],
            replace(NO_NODE, slot=1, name=WORKERS[1].name),
            status={**PENDING, "workers": {"desired": 3}},
            scaling={"numWorkers": 3},
        ),
    ),
    Case(
        decide_partial_start,
        job(OLD_HEAD, *WORKERS[:1], replace(NO_NODE, slot=1, name=WORKERS[1].name), status=PENDING),
    ),
    Case(show_progress, job(HEAD, *WORKERS, status=RUNNING_STATUS)),
)


def test_each_decision_has_a_case_in_order() -> None:
    assert tuple(case.decision for case in CASES) == DECISIONS


@pytest.mark.parametrize(("case", "later"), list(pairwise(CASES)), ids=lambda case: case.decision.__name__)
def test_the_first_of_two_applicable_decisions_wins(case: Case, later: Case) -> None:
    first, second = case.decision(case.job), later.decision(case.job)
    assert first is not None and second is not None and first != second
    winner = next(decide for decide in DECISIONS if decide(case.job) is not None)
    assert winner is case.decision
