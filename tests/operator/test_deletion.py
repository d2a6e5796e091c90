"""A job that is deleted in any phase leaves nothing, and nothing is made or written for it any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from tests.operator.audit import WRITES, AuditLog
from tests.operator.lives import RAISED
from tests.operator.stage import Stage
from tests.waiting import wait_until

JOB = "leaves"


def start(stage: Stage, *, is_bound: bool = False) -> None:
    for pod in stage.wait_pods(JOB, 3).values():
        if is_bound:  # then it takes its grace period to end
            stage.bind_pod(pod)
        stage.run_pod(pod)
    stage.wait_phase(JOB, "Starting")


def train(stage: Stage) -> None:
    start(stage)
    token = stage.token_of(stage.head(JOB))
    assert stage.report(JOB, token=token, reports=1, joined=2) == 202


def raise_in_training(stage: Stage) -> None:
    start(stage)
    stage.end_pod(stage.head(JOB), code=FailureClass("Application").exit_code, outcome=RAISED)


def begin_to_rest(stage: Stage) -> None:
    start(stage, is_bound=True)
    stage.change(JOB, suspend=True)


def rest(stage: Stage) -> None:
    start(stage)
    stage.change(JOB, suspend=True)


def succeed(stage: Stage) -> None:
    start(stage)
    stage.end_pod(stage.head(JOB), code=0, outcome=Outcome(SUCCEEDED, reports=1))


@pytest.mark.parametrize(
    ("phase", "reach", "limit"),
    [
        ("Pending", lambda stage: None, 1),
        ("Starting", start, 1),
        ("Running", train, 1),
        ("Restarting", raise_in_training, 1),
        ("Suspending", begin_to_rest, 1),
        ("Suspended", rest, 1),
        ("Succeeded", succeed, 1),
        ("Failed", raise_in_training, 0),
    ],
)
def test_nothing_is_left_of_it(
    stage: Stage, audit: AuditLog, phase: str, reach: Callable[[Stage], None], limit: int
) -> None:
    stage.apply(JOB, backoffLimit=limit)
    stage.wait_pods(JOB, 3)
    reach(stage)
    stage.wait_phase(JOB, phase)
    uid = stage.job(JOB)["metadata"]["uid"]
    assert stage.children_of(uid)
    stage.delete(JOB)
    # The garbage collector learns of a new kind of owner within half a minute.
    wait_until("all is gone", lambda: is_gone(stage, uid), seconds=90, pause=0.5)
    wrote = len(names_written(stage, audit))
    # One more job, which the operator takes up after whatever it still had to do about the first.
    stage.apply("next")
    stage.wait_pods("next", 3)
    assert not stage.children_of(uid)
    late = [name for name in names_written(stage, audit)[wrote:] if JOB in name]
    assert not late, "somebody still works for a job that is gone"


def is_gone(stage: Stage, uid: str) -> bool:
    """Ends pods as a kubelet does, which one that is bound waits for."""
    for pod in stage.pods(JOB).values():
        if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
            stage.remove_pod(pod)
    return not stage.children_of(uid)


def names_written(stage: Stage, audit: AuditLog) -> list[str]:
    return [r.name for r in audit.requests(stage.namespace) if r.verb in WRITES]
