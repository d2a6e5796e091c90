"""How the end of a pod becomes a failure: which pods that the kubelet has ended count against the job, which rule of
spec.failurePolicy decides what follows, and which pod and node the driver suspects.

Only a pod that was evicted counts, never one of a node that shuts down. Texts and fields are those of Kubernetes.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from railhead.contract.outcome import Outcome
from railhead.contract.report import ReportedOutcome
from railhead.controller.observe import observe_pod
from railhead.planning.facts.pod_failure import LossReason, classify_pod, is_disruption
from railhead.planning.pod_view import PodView
from tests.unit.controller.raws import make_container, make_pod
from tests.unit.planning.simulation import NODE, Simulation

# pkg/kubelet/nodeshutdown/nodeshutdown_manager.go: nodeShutdownReason, nodeShutdownMessage
SHUTDOWN = ("Terminated", "Pod was terminated in response to imminent node shutdown.")
# pkg/kubelet/preemption/preemption.go: evictPodsToFreeRequests
PREEMPTED = ("Preempting", "Preempted in order to admit critical pod")
PREEMPTED_CONDITION = "Pod was preempted by Kubelet to accommodate a critical pod."
# pkg/kubelet/eviction/helpers.go: nodeLowMessageFmt, containerMessageFmt; eviction_manager.go: Reason, evictPod
LOW = (
    "Evicted",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container ray was using "
    "3145728Ki, request is 2Gi, has larger consumption of memory. ",
)
# eviction_manager.go: localStorageEviction, emptyDirMessageFmt; without a condition
EMPTY_DIR = ("Evicted", 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". ')
NO_BUDGET: dict[str, Any] = {"backoffLimit": 0, "noProgressLimit": 0, "disruptionLimit": 0}


def end_pod(target: str, status: tuple[str, str], *, text: str = "", **ended: Any) -> PodView:
    """A worker that ran, after the kubelet has ended it. `target`: the reason of DisruptionTarget, "" = none."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": target, "message": text or status[1]}
    terminated = {"exitCode": 137, "reason": "Error", "startedAt": "x", "finishedAt": "2026-01-01T11:59:59Z", **ended}
    return observe_pod(
        make_pod(
            status={
                "phase": "Failed",
                "reason": status[0],
                "message": status[1],
                "conditions": [condition] if target else [],
                "containerStatuses": [make_container(terminated=terminated)],
            }
        )
    )


@pytest.mark.parametrize(
    ("pod", "reason", "disrupts", "is_own_fault"),
    [
        (end_pod(LossReason.TERMINATION_BY_KUBELET, SHUTDOWN), "Terminated", True, False),
        (end_pod("", SHUTDOWN), "Terminated", True, False),
        (end_pod("", ("Shutdown", "Node is shutting, evicting pods")), "Shutdown", True, False),  # up to 1.21
        (end_pod(LossReason.TERMINATION_BY_KUBELET, ("NodeShutdown", "Pod was rejected")), "NodeShutdown", True, False),
        (end_pod(LossReason.TERMINATION_BY_KUBELET, PREEMPTED, text=PREEMPTED_CONDITION), "Preempting", True, False),
        (end_pod("", PREEMPTED), "Preempting", True, False),
        (end_pod(LossReason.TERMINATION_BY_KUBELET, ("", "")), "Terminated", True, False),
        (end_pod(LossReason.TERMINATION_BY_KUBELET, ("AddedLater", "why")), "Terminated", True, False),
        (end_pod(LossReason.TERMINATION_BY_KUBELET, LOW), LossReason.TERMINATION_BY_KUBELET, True, True),
        (
            end_pod(LossReason.TERMINATION_BY_KUBELET, LOW, reason="OOMKilled"),
            LossReason.TERMINATION_BY_KUBELET,
            True,
            True,
        ),
        (
            end_pod(LossReason.TERMINATION_BY_KUBELET, SHUTDOWN, reason="ContainerStatusUnknown"),
            "Terminated",
            True,
            False,
        ),
        (end_pod("", SHUTDOWN, reason="ContainerStatusUnknown"), "Terminated", True, False),
        (end_pod("", EMPTY_DIR), "Evicted", False, True),
        (end_pod("PreemptionByScheduler", LOW), "PreemptionByScheduler", True, False),
        (end_pod("DeletionByTaintManager", SHUTDOWN), "DeletionByTaintManager", True, False),
        (end_pod("EvictionByEvictionAPI", ("", "")), "EvictionByEvictionAPI", True, False),
    ],
)
def test_only_an_eviction_by_the_kubelet_is_the_jobs_own_fault(
    pod: PodView, reason: str, disrupts: bool, is_own_fault: bool
) -> None:
    failure = classify_pod(pod)
    assert failure.reason == reason
    assert is_disruption(failure.class_, failure.reason) == disrupts
    assert (failure.reason in (LossReason.TERMINATION_BY_KUBELET, "Evicted")) == is_own_fault


def shut_down(sim: Simulation, name: str, **ended: Any) -> None:
    """The kubelet of the pod's node ends it for the shutdown of the node."""
    raw = end_pod(LossReason.TERMINATION_BY_KUBELET, SHUTDOWN)
    assert raw.disruption is not None
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": raw.disruption.reason,
        "message": raw.disruption.message,
    }
    sim.end_pod(name, "Preemption", raw="", code=ended.get("code", 137))
    status = {"reason": SHUTDOWN[0], "message": SHUTDOWN[1], "conditions": [condition]}
    sim.api.patch(("pods", "default", name), {"status": status}, subresource="status")


@pytest.mark.parametrize(
    ("every", "code", "times"),
    [
        pytest.param(3, 137, 100, id="some commits-killed"),
        pytest.param(1000, 68, 100, id="no commit-ended by SIGTERM"),
        pytest.param(3, 68, 300, id="some commits-ended by SIGTERM", marks=pytest.mark.slow),
        pytest.param(1000, 137, 300, id="no commit-killed", marks=pytest.mark.slow),
    ],
)
def test_hundreds_of_node_shutdowns_never_fail_a_job_and_each_pod_is_replaced_at_once(
    every: int, code: int, times: int
) -> None:
    sim = Simulation(scaling={"numWorkers": 8}, backoffLimit=0, noProgressLimit=0)
    sim.run_until_training()
    for number in range(times):
        sim.later(600)
        worker = next(pod for pod in sim.pods.values() if pod.slot == number % 8 and pod.is_live)
        others = {pod.uid for pod in sim.pods.values()} - {worker.uid}
        attempt, created = sim.status["attempt"], sim.count_created("pods")
        shut_down(sim, worker.name, code=code)
        sim.settle()
        if sim.status["attempt"] == attempt and sim.status["phase"] == "Restarting" and "failure" not in sim.status:
            assert sim.count_created("pods") == created + 1, number
            assert others <= {pod.uid for pod in sim.pods.values()}
        sim.later(301)  # an attempt lost after 20 rounds without a checkpoint backs off
        sim.run_until_training()
        if number % every == 0:
            sim.report(checkpoint=number)
        assert sim.status["phase"] == "Running", sim.status
    assert sim.status["restarts"] == {"application": 0, "withoutProgress": 0, "disruptions": times}
    assert "budget" not in sim.status


def test_a_shutdown_while_the_group_still_starts_delays_nothing() -> None:
    sim = Simulation(scaling={"numWorkers": 8})
    sim.run_until_training()
    for number in range(4):
        worker = next(pod for pod in sim.pods.values() if pod.slot == 3 and pod.is_live)
        created = sim.count_created("pods")
        shut_down(sim, worker.name, code=68)
        sim.settle()
        assert sim.count_created("pods") == created + 1, number


def test_an_evicted_head_whose_machine_goes_away_holds_the_group_for_two_minutes() -> None:
    """`kubectl drain` or a termination handler evicts the head; the machine is off 30 s later, and Kubernetes marks its
    pods 50 s after that."""
    sim = Simulation()
    sim.run_until_training()
    head = sim.head.name
    sim.evict(head, gone_in=620)
    sim.later(30)
    sim.settle()
    cut = sim.now
    sim.later(50)
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    sim.api.patch(("pods", "default", head), {"status": {"conditions": conditions}}, subresource="status")
    while sim.status["attempt"] == 1:
        sim.reconcile()
        if sim.status["attempt"] == 1:
            assert sim.last.wake_at is not None
            sim.now = max(sim.last.wake_at, sim.now + timedelta(seconds=1))
    assert (sim.now - cut).total_seconds() <= 150
    assert not sim.losses["application"]


def make_rules(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"failurePolicy": {"rules": list(rules)}}


def find_message(sim: Simulation, type_: str) -> str:
    return str(next(c["message"] for c in sim.status["conditions"] if c["type"] == type_ and c["status"] == "True"))


def lose(sim: Simulation, kind: str, *, reason: str = "Lost", code: int | None = None) -> None:
    sim.run_until_training()
    sim.end_with(Outcome(kind, reason, "because", process_exit_code=code))
    sim.settle()


def wait_for_attempt(sim: Simulation) -> float:
    """Seconds from the loss until the next one starts."""
    lost, began = sim.status["failure"]["attempt"], sim.now
    while sim.status["attempt"] == lost:
        sim.later(1)
        sim.settle()
        assert (sim.now - began).total_seconds() < 400
    return (sim.now - began).total_seconds()


CODES = {"operator": "In", "values": [3, 42]}
MATCHES = [
    ({"onExitCodes": CODES}, {"code": 42}, True),
    ({"onExitCodes": CODES}, {"code": 1}, False),
    ({"onExitCodes": CODES}, {}, False),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {"code": 1}, True),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {"code": 3}, False),
    ({"onExitCodes": {**CODES, "operator": "NotIn"}}, {}, False),
    ({"onExitCodes": {"operator": "In", "values": [64]}}, {}, False),  # the head's own code
    ({"onReason": ["Other", "TrainFunctionRaised"]}, {"reason": "TrainFunctionRaised"}, True),
    ({"onReason": ["TrainFunctionRaised"]}, {"reason": "TrainingProcessDied"}, False),
    ({"onClass": ["Hang", "Application"]}, {}, True),
    ({"onClass": ["Hang"]}, {}, False),
]


@pytest.mark.parametrize(("rule", "options", "is_match"), MATCHES)
def test_a_rule_matches(rule: dict[str, Any], options: dict[str, Any], is_match: bool) -> None:
    sim = Simulation(**make_rules({"action": "Fail", **rule}))
    lose(sim, "Application", **options)
    assert sim.status["phase"] == ("Failed" if is_match else "Restarting")
    assert sim.status["failure"]["action"] == ("Fail" if is_match else "")
    assert sim.status["failure"].get("processExitCode") == options.get("code")


def test_a_job_that_a_rule_fails_names_the_rule_and_keeps_its_budget() -> None:
    sim = Simulation(**make_rules({"action": "Restart", "onClass": ["Hang"]}, {"action": "Fail", "onReason": ["Lost"]}))
    lose(sim, "Application")
    assert find_message(sim, "Failed").endswith("(failurePolicy.rules[1]: Fail)")
    assert "budget" not in sim.status


def test_the_first_rule_that_matches_decides() -> None:
    rules = ({"action": "Restart", "onReason": ["Lost"]}, {"action": "Fail", "onClass": ["Application"]})
    sim = Simulation(**make_rules(*rules))
    lose(sim, "Application")
    wait_for_attempt(sim)
    assert sim.status["restarts"]["application"] == 1, "as without a rule"
    lose(sim, "Application", reason="Another")
    assert sim.status["phase"] == "Failed"


@pytest.mark.parametrize(
    "kind", ["Application", "OutOfMemory", "Infrastructure", "Hang", "Preemption", "Configuration"]
)
def test_ignored_failures_spend_no_budget_and_back_off_longer_each_time(kind: str) -> None:
    sim = Simulation(**NO_BUDGET, **make_rules({"action": "RestartAndIgnore", "onClass": [kind]}))
    waits = []
    for _ in range(4):
        lose(sim, kind)
        waits.append(wait_for_attempt(sim))
    assert waits == sorted(waits) and waits[3] >= 4 * waits[0], waits
    assert "budget" not in sim.status
    assert not any(sim.status.get("restarts", {}).values())
    sim.run_until_training()
    sim.report(checkpoint=0)
    lose(sim, kind)
    assert wait_for_attempt(sim) <= waits[0], "a new checkpoint resets the backoff"
    lose(sim, kind)
    assert wait_for_attempt(sim) == waits[0], "which begins anew"


def test_a_failure_that_no_rule_ignores_still_counts() -> None:
    sim = Simulation(backoffLimit=0, **make_rules({"action": "RestartAndIgnore", "onReason": ["Flaky"]}))
    lose(sim, "Application", reason="Flaky")
    wait_for_attempt(sim)
    lose(sim, "Application", reason="Bug")
    assert sim.status["phase"] == "Failed"
    assert "backoffLimit 0 is reached" in find_message(sim, "Failed")


def test_a_configuration_error_may_be_retried_within_a_limit() -> None:
    sim = Simulation(noProgressLimit=1, **make_rules({"action": "Restart", "onClass": ["Configuration"]}))
    lose(sim, "Configuration")
    wait_for_attempt(sim)
    lose(sim, "Configuration")
    assert sim.status["phase"] == "Failed"
    assert "noProgressLimit 1" in find_message(sim, "Failed")


def test_a_rule_may_fail_a_job_that_starts_too_slowly() -> None:
    sim = Simulation(startDeadlineSeconds=60, **make_rules({"action": "Fail", "onClass": ["Startup"]}))
    sim.settle()
    sim.later(61)
    sim.settle()
    assert sim.status["phase"] == "Failed" and sim.status["failure"]["reason"] == "StartDeadlineExceeded"


def test_no_rule_restarts_a_job_after_its_own_deadline() -> None:
    rule = {"action": "RestartAndIgnore", "onReason": ["ActiveDeadlineExceeded"]}
    sim = Simulation(activeDeadlineSeconds=60, **make_rules(rule))
    sim.run_until_training()
    sim.later(61)
    sim.settle()
    assert sim.status["phase"] == "Failed"


def test_a_rule_added_later_does_not_change_an_earlier_decision() -> None:
    sim = Simulation(backoffLimit=1)
    lose(sim, "Application")
    sim.apply(**make_rules({"action": "RestartAndIgnore", "onClass": ["Application"]}))
    wait_for_attempt(sim)
    assert sim.status["restarts"]["application"] == 1


def test_the_last_report_has_the_exit_code_of_a_head_that_is_gone() -> None:
    sim = Simulation(**make_rules({"action": "Fail", "onExitCodes": CODES}))
    sim.run_until_training()
    sim.report(state="ERRORED", outcome=ReportedOutcome("Application", "ScriptFailed", "no", 42))
    sim.lose(sim.head.name)
    sim.settle()
    assert sim.status["phase"] == "Failed" and sim.status["failure"]["processExitCode"] == 42


def find_worker(sim: Simulation) -> str:
    return next(name for name in sim.pods if not name.endswith("-head"))


def test_the_suspect_comes_from_the_termination_message() -> None:
    sim = Simulation()
    sim.run_until_training()
    suspect = find_worker(sim)
    sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=suspect))
    sim.settle()
    failure = sim.status["failure"]
    assert (failure["class"], failure["reason"]) == ("Hardware", "GPUFailed")
    assert (failure["suspectPod"], failure["suspectNode"]) == (suspect, NODE)
    assert failure["pod"].endswith("-head"), "where the failure was observed"


def test_the_suspect_comes_from_the_last_report_if_the_head_is_gone() -> None:
    sim = Simulation()
    sim.run_until_training()
    suspect = find_worker(sim)
    sim.report(state="ERRORED", outcome=ReportedOutcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=suspect))
    sim.lose(sim.head.name)
    sim.settle()
    assert (sim.status["failure"]["suspectPod"], sim.status["failure"]["suspectNode"]) == (suspect, NODE)


@pytest.mark.parametrize("name", ["", "somebody-elses-pod"])
def test_a_pod_that_is_not_the_jobs_is_not_suspected(name: str) -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC", suspect_pod=name))
    sim.settle()
    assert (sim.status["failure"]["suspectPod"], sim.status["failure"]["suspectNode"]) == ("", "")


def test_broken_hardware_spends_no_backoff_limit_and_is_bounded_without_a_checkpoint() -> None:
    sim = Simulation(backoffLimit=0, noProgressLimit=1)
    for _ in range(2):
        sim.run_until_training()
        sim.end_with(Outcome("Hardware", "GPUFailed", "rank 1: ECC"))
        sim.settle()
        sim.later(30)
        sim.settle()
    assert "budget" not in sim.status
    assert sim.status["phase"] == "Failed" and sim.status["attempt"] == 2
