"""Pods of earlier attempts: they are deleted, and nothing else happens while one may still run."""

from __future__ import annotations

from dataclasses import replace

from railhead.planning.decisions.pods import decide_stale_pods
from railhead.planning.observed import Denial
from railhead.planning.plan import Decision, Delete
from tests.unit.builders import NOW, RUNNING_STATUS, ended, make_head, make_job, make_worker

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
