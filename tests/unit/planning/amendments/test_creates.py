"""Children that the API server rejects: reported at once, retried with backoff, not counted, cleared once created."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from railhead.api import names
from railhead.contract.times import format_time
from railhead.controller.executor import choose_reason
from railhead.planning.amendments.creates import hold_back_creates
from railhead.planning.facts.reasons import REJECTIONS
from railhead.planning.observed import Rejection
from railhead.planning.plan import POD, Create, Decision, delete_all
from railhead.planning.pod_view import Problem
from railhead.planning.wanted_status import Requirement, make_guard
from tests.model.api_server import Object
from tests.model.operator import PODS
from tests.unit.builders import NOW, is_empty, make_head, make_job, make_worker
from tests.unit.planning.simulation import Simulation

QUOTA = "exceeded quota: gpus"


def reject_slot(slot: int, message: str = QUOTA) -> Callable[[Object], str]:
    """Rejects the pods of this worker slot."""
    return lambda body: message if body["metadata"]["labels"].get(names.LABEL_SLOT) == str(slot) else ""


def is_rejection(message: str, cause: str = QUOTA) -> bool:
    """Whether it has the pod's name, the API server's message, and what becomes of the other pods."""
    rest = "; the pods that exist wait for it until 2026-01-01T[0-9:]+Z, and are then released"
    return bool(re.fullmatch(rf'Pod (\S+) was rejected: pods "\1" is forbidden: {re.escape(cause)}{rest}', message))


def find_condition(sim: Simulation, type_: str = "Reconciling") -> tuple[str, str]:
    [found] = [(c["reason"], c["message"]) for c in sim.status["conditions"] if c["type"] == type_]
    return found


def test_a_rejection_sets_a_condition_at_once_and_records_one_event() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.reconcile()
    assert len(sim.pods) == 2, "the others are created"
    sim.reconcile()
    reason, message = find_condition(sim)
    assert reason == "QuotaExceeded" and is_rejection(message)
    assert find_condition(sim, "Running")[0] == "QuotaExceeded" and not sim.check_condition("Running")
    assert sim.events.count("QuotaExceeded") == 1 and sim.status["phase"] == "Pending"
    assert sim.last.wake_at is not None
    assert is_empty(sim.reconcile())


def test_it_is_retried_with_backoff_without_events_or_counts() -> None:
    sim = Simulation(rejects=lambda body: QUOTA)
    sim.reconcile()
    sim.reconcile()
    waits = []
    for _ in range(6):
        assert sim.last.wake_at is not None
        waits.append((sim.last.wake_at - sim.now).total_seconds())
        sim.now = sim.last.wake_at
        sim.reconcile()
        sim.reconcile()
    assert waits == [5, 10, 20, 30, 30, 30] and not sim.pods
    assert sim.count_status_writes() == 2, "the same rejection is written once"
    assert sim.events.count("QuotaExceeded") == 1
    assert sim.status["attempt"] == 1 and sim.status["round"] == 0 and "restarts" not in sim.status


def test_another_rejection_records_another_event() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    sim.rejects = reject_slot(1, "denied the request: no label team")
    sim.later(5)
    sim.settle()
    reason, message = find_condition(sim)
    assert reason == "AdmissionDenied" and is_rejection(message, "denied the request: no label team")
    assert sim.events[-2:] == ["QuotaExceeded", "AdmissionDenied"]


def test_the_condition_is_cleared_once_all_pods_are_created() -> None:
    sim = Simulation(rejects=reject_slot(1))
    sim.settle()
    sim.rejects = lambda body: ""
    sim.later(5)
    sim.settle()
    assert len(sim.pods) == 3
    assert find_condition(sim) == ("Pending", "All pods of attempt 1 are created and starting")
    sim.run_until_training()
    assert sim.status["phase"] == "Running" and not sim.check_condition("Reconciling")


def test_a_rejected_replacement_is_reported_and_created_once_admitted() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.rejects = reject_slot(1)
    sim.lose(next(name for name, pod in sim.pods.items() if pod.slot == 1))
    sim.settle()
    reason, message = find_condition(sim)
    assert reason == "QuotaExceeded" and is_rejection(message)
    assert sim.status["round"] == 1 and sim.losses["infrastructure"] == 1
    sim.rejects = lambda body: ""
    sim.later(5)
    sim.settle()
    assert find_condition(sim)[0] == "Restarting"
    assert sim.status["round"] == 1 and sim.losses["infrastructure"] == 1
    sim.run_until_training()
    assert sim.status["phase"] == "Running"


def test_an_elastic_job_keeps_training_and_reports_why_it_does_not_grow() -> None:
    scaling = {"minWorkers": 1, "maxWorkers": 3, "desiredWorkers": 2}
    sim = Simulation(scaling=scaling)
    sim.run_until_training()
    sim.rejects = reject_slot(2)
    sim.apply(scaling={**scaling, "desiredWorkers": 3})
    sim.settle()
    assert sim.status["phase"] == "Running" and sim.check_condition("Running")
    reason, message = find_condition(sim)
    assert reason == "WaitingForWorkers" and QUOTA in message
    sim.rejects = lambda body: ""
    sim.later(5)
    sim.settle()
    assert len(sim.pods) == 4


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1', "QuotaExceeded"),
        (403, 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: ray', "ResourceUnspecified"),
        (403, 'error looking up service account ns/sa: serviceaccount "sa" not found', "ServiceAccountNotFound"),
        (403, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", "AdmissionDenied"),
        (500, 'Internal error occurred: failed calling webhook "x": no route', "AdmissionWebhookFailed"),
        (422, "spec.containers[0].image: Invalid value", "PodInvalid"),
        (400, 'strict decoding error: unknown field "spec.containers[0].resorces"', "PodInvalid"),
        (400, "the body is no JSON", "CreateRefused"),
        (403, "", "CreateRefused"),
    ],
)
def test_the_reason_is_found_in_the_servers_message(status: int, message: str, reason: str) -> None:
    assert choose_reason("Pod", status, message) == reason and reason in REJECTIONS


def test_only_a_rejected_pod_is_blamed_on_the_template() -> None:
    assert choose_reason("Service", 422, "spec.ports: Invalid value") == "CreateRefused"


class GPUQuota:
    """A ResourceQuota for GPUs, as the API server judges one pod after the other."""

    def __init__(self, sim: Simulation, gpus: int) -> None:
        self.gpus, self._sim = gpus, sim
        self.taken = 0  # by other jobs
        sim.rejects = self.judge

    def judge(self, body: Object) -> str:
        wanted = count_gpus(body)
        used = self.taken + sum(map(count_gpus, self._sim.bodies.values()))
        if used + wanted <= self.gpus or not wanted:
            return ""
        name = "requests.nvidia.com/gpu"
        return f"exceeded quota: gpus, requested: {name}={wanted}, used: {name}={used}, limited: {name}={self.gpus}"


def count_gpus(body: Object) -> int:
    requests = [each["resources"].get("limits", {}) for each in body["spec"]["containers"]]
    return sum(int(each.get("nvidia.com/gpu", 0)) for each in requests)


def run_for(sim: Simulation, seconds: float) -> None:
    """All passes for which the operator wakes itself."""
    until = sim.now + timedelta(seconds=seconds)
    sim.settle()
    while sim.last.wake_at is not None and sim.last.wake_at <= until:
        sim.now = max(sim.last.wake_at, sim.now + timedelta(seconds=1))
        sim.settle()
    sim.now = until
    sim.settle()


def test_a_job_that_does_not_fit_into_its_quota_even_alone_makes_pods_only_once() -> None:
    """Before, each attempt made as many as fitted, and released them."""
    sim = Simulation(scaling={"numWorkers": 8, "useGPU": True})
    quota = GPUQuota(sim, 5)
    sim.settle()
    created = sim.count_created(PODS)
    assert created == 6 and not sim.pods and find_condition(sim)[0] == "Restarting"
    run_for(sim, 3600)
    reason, message = find_condition(sim)
    assert sim.count_created(PODS) == created and not sim.pods
    assert reason == "ExceedsQuota" and "the job needs 160 % of quota gpus" in message
    assert sim.status["attempt"] == 2 and sim.count_status_writes() < 10
    quota.gpus = 8
    run_for(sim, 60)
    assert len(sim.pods) == 9 and sim.status["attempt"] == 2


def test_the_condition_says_what_is_held_and_when_the_next_try_is() -> None:
    sim = Simulation(scaling={"numWorkers": 4, "useGPU": True})
    quota = GPUQuota(sim, 4)
    quota.taken = 2
    sim.settle()
    assert find_condition(sim)[1].endswith(
        "; the pods that exist wait for it until 2026-01-01T12:00:30Z, and are then released"
    )
    run_for(sim, 30)
    reason, message = find_condition(sim)
    assert reason == "Restarting" and not sim.pods and sim.last.wake_at is not None
    assert "the 3 pods that exist were released after 30 s" in message
    assert message.endswith(f"attempt 2 follows at {format_time(sim.last.wake_at)} or later")
    run_for(sim, 60)
    reason, message = find_condition(sim)
    assert reason == "QuotaExceeded" and not sim.pods, "a dry run tells that there is no room"
    assert message.endswith("; the pods of attempt 1 were released, and the next try follows within 30 s")
    quota.taken = 0
    run_for(sim, 30)
    assert len(sim.pods) == 5 and sim.status["attempt"] == 2


def test_a_job_whose_first_pod_is_refused_says_that_it_holds_none() -> None:
    sim = Simulation(rejects=lambda body: QUOTA)
    sim.settle()
    assert find_condition(sim)[1].endswith("; the job holds no pods meanwhile, and the next try follows within 30 s")


def test_what_is_deleted_while_creates_are_held_back_is_compared_with_the_cluster() -> None:
    """An operator with an outdated view would delete pods that are in use."""
    rejection = Rejection(Problem("QuotaExceeded", "no room"), attempt=1, tries=1, at=NOW, since=NOW)
    create = Create(POD, "digits-w1", dict)
    old = make_worker(0)
    job = replace(make_job(make_head(), old, status={"phase": "Pending", "attempt": 1}), rejection=rejection)
    guarded = make_guard(job).requiring(Requirement.FRESH_PODS)
    decision = Decision(wanted=guarded, creates=(create,), deletes=delete_all([old]))
    held = hold_back_creates(job, decision)
    assert not held.creates and held.deletes == decision.deletes
    assert held.wanted is not None and Requirement.FRESH_PODS in held.wanted.requires
    again = hold_back_creates(replace(job, status=held.wanted.status), decision)
    assert again.wanted is not None and again.wanted.is_guard and Requirement.FRESH_PODS in again.wanted.requires


def test_a_new_operator_remembers_that_a_job_does_not_fit() -> None:
    sim = Simulation(scaling={"numWorkers": 8, "useGPU": True})
    GPUQuota(sim, 5)
    sim.settle()
    created = sim.count_created(PODS)
    sim.restart()
    run_for(sim, 600)
    assert sim.count_created(PODS) == created and find_condition(sim)[0] == "ExceedsQuota"


def test_only_a_quota_can_refuse_the_probe() -> None:
    """A webhook or a LimitRange may refuse a single pod as large as the job."""
    sim = Simulation(scaling={"numWorkers": 8, "useGPU": True})
    quota = GPUQuota(sim, 5)
    sim.settle()
    quota.gpus = 8
    judge = quota.judge
    sim.rejects = lambda body: "maximum nvidia.com/gpu usage per Pod is 2" if count_gpus(body) > 2 else judge(body)
    run_for(sim, 60)
    assert len(sim.pods) == 9
