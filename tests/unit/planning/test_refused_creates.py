"""A pod that is refused forever costs the gang little: it is asked for first, and a gang that was released for a
refusal waits up to ten minutes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from railhead.api import names
from railhead.planning.facts.backoff import RELEASED_LIMIT_SECONDS
from railhead.planning.facts.settlement import settle
from railhead.planning.observed import Rejection
from railhead.planning.plan import POD
from railhead.planning.planner import plan
from railhead.planning.pod_view import Problem
from tests.model.actors.denying_policy import DENIALS, FAILED, UNEXPLAINED, Answer
from tests.model.api_server import Place
from tests.model.operator import PODS
from tests.unit.builders import NOW, make_attempt, make_job, make_observed, make_spec
from tests.unit.planning.simulation import Simulation

WORKERS = 12
STEP = 10


class Gang:
    """A job of twelve workers, and a judge of the pods that are created for it."""

    def __init__(self, **spec: Any) -> None:
        self.refused: set[int] = {7}
        self.most = WORKERS  # that a policy admits, whichever these are
        self.answer: Answer = DENIALS[0]
        self.sim = Simulation(**{"scaling": {"numWorkers": WORKERS}, **spec})
        self.sim.api.policy = self._judge
        self.held = 0
        self.begun: list[float] = []

    def _judge(self, method: str, place: Place, subresource: str) -> str:
        is_refused = any(f"-w{slot}-" in place[2] for slot in self.refused)
        is_refused |= sum(pod.role == names.WORKER for pod in self.sim.pods.values()) >= self.most
        if (method, place[0]) == ("POST", PODS) and is_refused:
            raise self.answer.to_error()
        return ""

    def run(self, seconds: int) -> None:
        """Pods run as soon as they exist."""
        for _ in range(seconds // STEP):
            before = self.sim.status["attempt"]
            try:
                self.sim.reconcile()
            except AssertionError:
                assert self.sim._results[-1] == "error", "an error that is not told yet"
            if self.sim.status["attempt"] > before:
                self.begun.append(self.sim.now.timestamp())
            self.sim.start_pods()
            self.held += STEP * sum(pod.is_live and pod.role == names.WORKER for pod in self.sim.pods.values())
            self.sim.later(STEP)


@pytest.mark.parametrize("answer", [DENIALS[0], DENIALS[15], DENIALS[30], FAILED, *UNEXPLAINED], ids=str)
def test_a_worker_that_is_refused_for_ever_holds_and_makes_few_others(answer: Answer) -> None:
    gang = Gang()
    gang.answer = answer
    gang.run(1800)
    assert gang.held <= 0.05 * WORKERS * 1800
    assert gang.sim.count_created(PODS) <= 2 * WORKERS and gang.sim.status["attempt"] <= 2
    gang.refused.clear()
    gang.run(60)
    assert sum(pod.is_up for pod in gang.sim.pods.values()) == WORKERS + 1, "it starts when the worker is admitted"


def test_a_gang_of_which_each_time_another_worker_is_refused_waits_up_to_ten_minutes() -> None:
    gang = Gang()
    gang.refused, gang.most = set(), WORKERS - 1
    gang.run(4000)
    assert gang.sim.status["attempt"] > 8
    pauses = [later - earlier for earlier, later in pairwise(gang.begun)]
    assert pauses == sorted(pauses) and pauses[-1] >= RELEASED_LIMIT_SECONDS


@pytest.mark.parametrize("reason", ["AdmissionDenied", "AdmissionWebhookFailed", "CreateRefused"])
def test_the_delay_after_a_release_grows_with_the_releases_alike(reason: str) -> None:
    delays = []
    for lost in range(10):
        attempts = [make_attempt(number=number, reason=reason, **{"class": "Startup"}) for number in range(1, lost + 1)]
        failure = {"class": "Startup", "reason": reason, "attempt": lost + 1, "time": "2026-01-01T12:00:00Z"}
        job = make_job(status={"attempt": lost + 1, "round": 0, "attempts": attempts, "failure": failure})
        assert job.status.failure is not None
        delays.append((settle(job, job.status.failure, committed=-1).next_attempt_at - NOW).total_seconds())
    assert delays == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]


BEGUN = {"attempt": 2, "round": 0, "phase": "Pending", "head": {}, "waiting": {"since": "2026-01-01T12:00:00Z"}}


def find_order(problem: Problem | None, *, status: dict[str, Any], **spec: Any) -> list[str]:
    """The pods that are created, in order."""
    rejection = Rejection(problem, 2, tries=1, at=NOW.replace(hour=1), since=NOW) if problem else None
    wanted = plan(make_observed(status=status, rejection=rejection, spec=make_spec(**spec)))
    return [create.name.split("-", 3)[-1] for create in wanted.creates if create.policy is POD]


REFUSED = Problem("AdmissionDenied", "Pod digits-0f1e2d-2-w2-0 was rejected: no")
ELASTIC = {"minWorkers": 1, "maxWorkers": 4, "desiredWorkers": 4}


def test_the_worker_that_was_refused_is_asked_for_first() -> None:
    rigid = {"scaling": {"numWorkers": 4}}
    plain, first = ["head", "w0-0", "w1-0", "w2-0", "w3-0"], ["w2-0", "head", "w0-0", "w1-0", "w3-0"]
    assert find_order(None, status=BEGUN, **rigid) == plain
    assert find_order(REFUSED, status=BEGUN, **rigid) == first
    assert find_order(replace(REFUSED, reason="QuotaExceeded"), status=BEGUN, **rigid) == plain
    assert (
        find_order(replace(REFUSED, message="Pod digits-0f1e2d-2-head was rejected: no"), status=BEGUN, **rigid)
        == plain
    )
    assert find_order(REFUSED, status=BEGUN, scaling=ELASTIC) == plain, "it may train without"


@pytest.mark.parametrize(("attempt", "first"), [(1, "w2-0"), (0, "head")])
def test_the_attempt_after_one_that_was_given_up_asks_for_its_worker_first(attempt: int, first: str) -> None:
    message = "Pod digits-0f1e2d-1-w2-0 was rejected: no; the 4 pods that exist were released after 30 s"
    failure = {"class": "Startup", "reason": REFUSED.reason, "attempt": attempt, "message": message}
    order = find_order(None, status={**BEGUN, "failure": failure}, scaling={"numWorkers": 4})
    assert order[0] == first and len(order) == 5
