"""`railhead why`: the first finding explains the state, whatever the job is in."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.client.explain.causes import read_causes
from railhead.client.explain.why import explain_job
from railhead.contract.failure import FailureClass
from railhead.contract.times import format_time
from railhead.json_object import Object
from tests.unit.client.jobs import (
    NOW,
    STARTED,
    make_condition,
    make_failed,
    make_job,
    make_pod,
    make_running,
    make_snapshot,
    make_waiting,
    make_waiting_container,
)

CAUSES = read_causes()
OTHER_CONDITIONS = [
    ("HangSuspected", "NoSteps", "True"),
    ("StorageUnavailable", "StorageUnreachable", "True"),
    ("MetricRuleFired", "MetricRule", "True"),
    ("CPULimited", "CPULimitAdded", "True"),
    ("CheckpointFallback", "CheckpointMissing", "True"),
    ("DeleteDenied", "DeleteDenied", "True"),
    ("QueueUnreachable", "ChangeDenied", "True"),
    ("QueueUnreachable", "QueueLost", "True"),
    ("ForeignPods", "ForeignPods", "True"),
    ("Resumable", "RunNameDiffers", "False"),
    ("EndNotice", "EndNotAnnounced", "False"),
    ("RayTested", "RayNewerThanTested", "False"),
]
SAVED: list[Object] = yaml.load((Path(__file__).parents[2] / "gitops" / "states.yaml").read_text(), yaml.CSafeLoader)
# What explains each state that a real operator has left.
EXPECTED = {
    "refused by the operator": ["InvalidSpec"],
    "not seen by any operator": ["NotObserved"],
    "starting": ["Starting"],
    "running": ["Training"],
    "running, with a change that was not seen": ["NotObserved"],
    "restarting after a loss": ["Restarting"],
    "suspending": ["Suspending"],
    "suspended": ["Suspended"],
    "succeeded": ["Succeeded"],
    "failed": ["TrainFunctionRaised"],
    "being deleted": ["BeingDeleted"],
    "running, though the run cannot resume": ["RunNameDiffers"],
    "running from an older checkpoint": ["CheckpointMissing"],
    "running with a Ray that cannot announce the end": ["EndNotAnnounced"],
    "running with a Ray that is newer than tested": ["RayNewerThanTested"],
    "running while the storage is full": ["CheckpointNotWritten"],
    "running, though it may hang": ["NoSteps"],
    "running while a metric rule fires": ["MetricRule"],
    "running beside a foreign pod": ["ForeignPods"],
    "running with a CPU limit from a LimitRange": ["CPULimitAdded"],
    "succeeded, with a pod that a policy protects": ["Succeeded", "DeleteDenied", "ForeignPods"],
}
REPORTED = {"progress": {"updateTime": "2026-11-25T11:59:00Z"}, "checkpoint": {"uri": "s3://b/c", "index": 1}}


def make_held(**status: Any) -> Object:
    job = make_job(**status)
    job["metadata"]["annotations"] = {"railhead.dev/code-pending": "digits-code-1"}
    return job


def first(job: Object, *pods: Object) -> str:
    return explain_job(make_snapshot(job, pods))[0].reason


def reasons(job: Object, *pods: Object) -> list[str]:
    return [finding.reason for finding in explain_job(make_snapshot(job, pods))]


@pytest.mark.parametrize("state", SAVED, ids=lambda state: str(state["name"]))
def test_a_state_of_a_real_run_is_explained(state: Object) -> None:
    job = make_job(**state["status"])
    job["metadata"] |= {key: state[key] for key in ("generation", "deletionTimestamp") if key in state}
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    found = explain_job(replace(make_snapshot(job), now=now))
    assert [each.reason for each in found] == EXPECTED[state["name"]]
    assert {state["name"] for state in SAVED} == EXPECTED.keys()


@pytest.mark.parametrize("reason", [*CAUSES["pods"], *CAUSES["states"]])
def test_the_reason_of_the_transition_comes_first_with_its_message_and_time(reason: str) -> None:
    [finding, *_] = explain_job(make_snapshot(make_waiting(reason, "the cluster's words")))
    assert (finding.reason, finding.message) == (reason, "the cluster's words")
    assert finding.since == "2026-11-25T11:48:00Z"
    variants = {
        "Restarting": "TrainingStartsAgain",
        "Succeeded": "SucceededWithoutCheckpoint",
        "SucceededNotFinite": "NotFiniteWithoutCheckpoint",
    }
    row = variants.get(reason, reason)
    assert finding.cause == (CAUSES["pods"] | CAUSES["states"] | CAUSES["variants"])[row].sentence


def test_an_attempt_is_called_lost_only_if_it_is() -> None:
    lost = make_waiting("Restarting", phase="Restarting", failure={"class": "Infrastructure", "attempt": 1})
    assert explain_job(make_snapshot(lost))[0].cause == CAUSES["states"]["Restarting"].sentence
    lost["status"]["attempt"] = 2
    assert explain_job(make_snapshot(lost))[0].cause == CAUSES["variants"]["TrainingStartsAgain"].sentence


def test_a_restart_in_place_is_explained_while_it_lasts() -> None:
    restart = {"number": 1, "class": "Application", "reason": "TrainFunctionRaised", "message": "KeyError: 'lr'"}
    progress = {"attempt": 1, "state": "RESTARTING", "restart": restart}
    job = make_waiting("Restarting", phase="Restarting", progress=progress)
    state, cause = explain_job(make_snapshot(job))
    assert state.cause == CAUSES["variants"]["TrainingStartsAgain"].sentence
    assert (cause.reason, cause.message) == (
        "TrainFunctionRaised",
        "KeyError: 'lr' (restart 1 of attempt 1, Application)",
    )
    assert "retry" not in cause.remedy
    job["status"]["attempt"] = 2
    assert reasons(job) == ["Restarting"], "the restart was in an earlier attempt"
    assert reasons(make_running(**{**REPORTED, "progress": {**progress, "updateTime": "2026-11-25T11:59:00Z"}})) == [
        "Training"
    ]


@pytest.mark.parametrize(
    ("checkpoint", "words"), [({"uri": "/c", "index": 1}, "newest checkpoint is in"), (None, "reported no checkpoint")]
)
def test_success_names_a_checkpoint_only_if_there_is_one(checkpoint: Object | None, words: str) -> None:
    job = make_job(phase="Succeeded", conditions=[make_condition("Complete", "Succeeded")], checkpoint=checkpoint)
    [finding] = explain_job(make_snapshot(job))
    assert (finding.reason, words in finding.remedy) == ("Succeeded", True)


@pytest.mark.parametrize(
    ("message", "row", "change"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", "TooLittleLeft", "resourcesPerWorker.cpu=AMOUNT"),
        ("0/3 nodes are available: 3 Insufficient memory.", "TooLittleLeft", "resourcesPerWorker.memory=AMOUNT"),
        ("3 Insufficient nvidia.com/gpu.", "DevicesMissing", ""),
        ('persistentvolumeclaim "runs" not found. not found', "ClaimNotUsable", ""),
        ("pod has unbound immediate PersistentVolumeClaims", "ClaimNotUsable", ""),
        ("0/3 nodes are available: 3 node(s) had untolerated taint(s)", "Unschedulable", ""),
    ],
)
def test_what_the_scheduler_lacks_decides_the_remedy(message: str, row: str, change: str) -> None:
    finding = explain_job(make_snapshot(make_waiting("Unschedulable", message)))[0]
    rows = CAUSES["pods"] | CAUSES["variants"]
    assert (finding.reason, finding.cause) == ("Unschedulable", rows[row].sentence)
    assert change in finding.remedy
    assert ("resourcesPerWorker" in finding.remedy) == bool(change)


@pytest.mark.parametrize("reason", CAUSES["failures"])
def test_a_failed_job_is_explained_by_its_failure(reason: str) -> None:
    [finding] = explain_job(make_snapshot(make_failed("Application", reason)))
    assert finding.cause == CAUSES["failures"][reason].sentence
    assert finding.message == "it says why (attempt 2, Application, node gpu-7)"


@pytest.mark.parametrize("class_", FailureClass)
def test_a_failure_of_another_reason_is_explained_by_its_class(class_: FailureClass) -> None:
    [finding] = explain_job(make_snapshot(make_failed(class_.value, "SomethingNew")))
    meaning = class_.policy.meaning
    sentence = f"{meaning[0].upper()}{meaning[1:]}."  # of a class that has no row of its own
    if class_.value in CAUSES["classes"]:
        sentence = CAUSES["classes"][class_.value].sentence
    assert finding.cause == sentence


@pytest.mark.parametrize(("type_", "reason", "status"), OTHER_CONDITIONS)
def test_a_condition_of_a_running_job_is_a_finding(type_: str, reason: str, status: str) -> None:
    opposite = "False" if status == "True" else "True"
    assert reasons(make_running(others=[make_condition(type_, reason, status=status)], **REPORTED)) == [reason]
    assert reasons(make_running(others=[make_condition(type_, reason, status=opposite)], **REPORTED)) == ["Training"]


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (make_job(), "NotObserved"),
        (make_held(), "CodePending"),
        (make_held(conditions=[make_condition("Suspended", "Suspended")], phase="Suspended"), "CodePending"),
        (make_job(conditions=[make_condition("QuotaReserved", "Pending")], observedGeneration=0), "NotObserved"),
        (make_job(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), "ManagedElsewhere"),
        (make_job(phase="Suspended", conditions=[make_condition("Suspended", "Suspended")]), "Suspended"),
        (make_job(phase="Succeeded", conditions=[make_condition("Complete", "Succeeded")]), "Succeeded"),
        (make_job(conditions=[make_condition("Stalled", "InvalidSpec", "spec.x: unknown")]), "InvalidSpec"),
        (make_job(phase="Pending", observedGeneration=1), "Pending"),
        (make_running(**REPORTED), "Training"),
        (make_running(checkpoint=REPORTED["checkpoint"], progress={"updateTime": "2026-11-25T10:00:00Z"}), "Training"),
    ],
)
def test_each_state_has_its_finding(job: Object, reason: str) -> None:
    assert first(job) == reason


def test_a_rule_without_its_metric_and_one_that_ended_the_attempt_have_their_own_findings() -> None:
    missing = make_condition("MetricRuleFired", "MetricMissing", "no report has loss", status="False")
    assert reasons(make_running(others=[missing], **REPORTED)) == ["MetricMissing"]


def test_a_metric_that_is_no_number_is_named_also_after_success() -> None:
    nan = make_condition("MetricRuleFired", "MetricNotFinite", "loss is NaN, first at step 7", status="False")
    assert reasons(make_running(others=[nan], **REPORTED)) == ["MetricNotFinite"]
    succeeded = make_job(phase="Succeeded", conditions=[make_condition("Complete", "Succeeded"), nan])
    assert reasons(succeeded) == ["SucceededNotFinite", "MetricNotFinite"]
    [finding] = explain_job(make_snapshot(make_failed("MetricRule", "MetricRule")))
    assert finding.cause == CAUSES["failures"]["MetricRule"].sentence


@pytest.mark.parametrize(("observed", "since"), [(-1, STARTED), (1, "")])
def test_only_a_job_that_no_operator_has_seen_is_unseen_since_its_creation(observed: int, since: str) -> None:
    job = make_job(phase="Running" if observed > 0 else "", observedGeneration=observed)
    job["metadata"]["generation"] = 2
    [finding] = explain_job(make_snapshot(job))
    assert (finding.reason, finding.since) == ("NotObserved", since)


def test_a_job_that_is_being_deleted_says_so_before_anything_else() -> None:
    job = make_waiting("Unschedulable")
    job["metadata"]["deletionTimestamp"] = "2026-11-25T11:59:00Z"
    assert reasons(job) == ["BeingDeleted", "Unschedulable"]


def test_a_pod_that_waits_is_a_finding_with_the_number_of_its_like() -> None:
    pods = [make_pod(f"w{n}", slot=n, **make_waiting_container("ImagePullBackOff", "no such image")) for n in range(3)]
    [_, finding] = explain_job(make_snapshot(make_waiting("Pending"), pods))
    assert (finding.reason, finding.message) == ("ImagePullBackOff", "pod w0 and 2 more: no such image")


@pytest.mark.parametrize("attempt", [0, 2])
def test_pods_of_other_attempts_explain_nothing(attempt: int) -> None:
    pod = make_pod("w0", slot=0, attempt=attempt, **make_waiting_container("ImagePullBackOff"))
    assert reasons(make_waiting("Pending"), pod) == ["Pending"]


def test_a_restart_is_explained_by_the_failure_of_the_attempt_before() -> None:
    failure = {"class": "OutOfMemory", "reason": "OOMKilled", "attempt": 1}
    job = make_waiting("Restarting", phase="Restarting", failure=failure)
    assert reasons(job) == ["Restarting", "OOMKilled"]
    job["status"]["attempt"] = 3
    assert reasons(job) == ["Restarting"], "the failure is that of an earlier attempt"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"stuckPods": [{"name": "p", "node": "n", "since": "2026-11-25T11:00:00Z"}]}, "PodsStuck"),
        ({"avoidedNodes": [{"name": "n", "reason": "GPUFailed"}]}, "NodesAvoided"),
        ({"restarts": {"application": 3}}, "LastTry"),
    ],
)
def test_what_else_the_status_says_is_a_finding(status: Object, reason: str) -> None:
    assert reasons(make_running(**REPORTED, **status)) == [reason]


@pytest.mark.parametrize(
    ("since", "updated", "checkpoint", "expected"),
    [
        ("2026-11-25T10:30:00Z", "2026-11-25T11:44:59Z", True, ["ReportsStale"]),
        ("2026-11-25T10:30:00Z", "2026-11-25T11:45:00Z", True, ["Training"]),
        ("2026-11-25T11:50:00Z", "2026-11-25T10:00:00Z", True, ["Training"]),
        ("2026-11-25T10:59:59Z", "2026-11-25T11:59:00Z", False, ["NoCheckpoint"]),
        ("2026-11-25T11:00:00Z", "2026-11-25T11:59:00Z", False, ["Training"]),
    ],
)
def test_long_silence_and_a_missing_checkpoint_are_findings(
    since: str, updated: str, checkpoint: bool, expected: list[str]
) -> None:
    job = make_running(progress={"updateTime": updated})
    job["status"]["conditions"][0]["lastTransitionTime"] = since
    if checkpoint:
        job["status"]["checkpoint"] = REPORTED["checkpoint"]
    expected = ["Training"] if expected == ["Training"] else expected
    assert reasons(job) == expected


@pytest.mark.parametrize(("attempt", "expected"), [(2, ["SlowRank"]), (1, ["Training"])])
def test_slow_ranks_of_the_current_attempt_are_one_finding(attempt: int, expected: list[str]) -> None:
    slow = [
        {"rank": 3, "pod": "w3", "node": "n1", "score": "0.68", "since": "2026-11-25T11:20:00Z"},
        {"rank": 5, "pod": "w5", "score": "0.7", "since": "2026-11-25T11:10:00Z"},
    ]
    progress = {"updateTime": "2026-11-25T11:59:00Z", "attempt": attempt, "slowRanks": slow}
    job = make_running(**{**REPORTED, "progress": progress})
    job["status"]["attempt"] = 2
    [finding] = explain_job(make_snapshot(job))
    assert [finding.reason] == expected
    if attempt == 2:
        assert finding.message == "rank 3 (w3 on n1) at 0.68, rank 5 (w5 on (none)) at 0.7"
        assert finding.since == "2026-11-25T11:10:00Z"


@pytest.mark.parametrize(("attempt", "expected"), [(2, "RunFinishes"), (1, "Training")])
def test_a_run_that_waits_for_a_validation_says_so(attempt: int, expected: str) -> None:
    waits = "The training function has returned on all ranks. Since 11:58, Ray Train waits for the validation of a."
    progress = {"updateTime": "2026-11-25T11:59:00Z", "attempt": attempt, "finishing": waits}
    job = make_running(**{**REPORTED, "progress": progress})
    job["status"]["attempt"] = 2
    [finding] = explain_job(make_snapshot(job))
    assert finding.reason == expected
    if attempt == 2:
        assert finding.message == waits and "timeout_s" in finding.remedy


@pytest.mark.parametrize("value", [None, 7, "text", [], [7], {"containerStatuses": 7}, {"conditions": ["x"]}])
def test_a_pod_of_any_shape_does_no_harm(value: Any) -> None:
    pod = {"metadata": {"labels": value}, "status": value, "spec": value}
    assert first(make_waiting("Pending"), pod) == "Pending"


def test_a_finished_job_is_changed_by_a_retry_and_another_one_while_it_is_suspended() -> None:
    finished = explain_job(make_snapshot(make_failed("OutOfMemory", "OOMKilled")))[0]
    assert finished.remedy == "Run `railhead retry digits --set scaling.resourcesPerWorker.memory=SIZE`."
    pods = [make_pod("digits-1-w0-0", slot=0, **make_waiting_container("InvalidImageName"))]
    waiting = explain_job(make_snapshot(make_waiting("PodsPending"), pods))
    remedy = next(each.remedy for each in waiting if each.reason == "InvalidImageName")
    assert remedy == "Run `railhead suspend digits --wait`, then `railhead resume digits --set image=IMAGE`."


@pytest.mark.parametrize(("minutes", "is_told"), [(1, True), (3, True), (4, False)])
def test_a_denied_change_of_the_status_is_explained_first_while_it_is_repeated(minutes: int, is_told: bool) -> None:
    at = format_time(NOW - timedelta(minutes=minutes))
    event = {"type": "Warning", "reason": "StatusDenied", "message": "the webhook's words", "lastTimestamp": at}
    reported = {**REPORTED, "progress": {"updateTime": "2026-11-25T11:50:00Z"}}
    job = make_running(**reported)
    job["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-25T11:40:00Z"
    finding = explain_job(make_snapshot(job, events=(event,)))[0]
    if is_told:
        assert (finding.reason, finding.message, finding.since) == ("StatusDenied", "the webhook's words", at)
    else:
        assert finding.reason == "Training"


def test_a_status_that_was_written_after_its_denial_is_not_denied_any_more() -> None:
    event = {"type": "Warning", "reason": "StatusDenied", "message": "no", "lastTimestamp": "2026-11-25T11:58:30Z"}
    [finding] = explain_job(make_snapshot(make_running(**REPORTED), events=(event,)))
    assert finding.reason == "Training"


def test_the_refusal_that_ended_an_earlier_attempt_is_not_said_of_this_one() -> None:
    failure = {"class": "Startup", "reason": "QuotaExceeded", "attempt": 1, "message": "exceeded quota"}
    job = make_waiting("Restarting", phase="Restarting", failure=failure)
    job["status"]["attempt"] = 2
    [_, past] = explain_job(make_snapshot(job))
    assert (past.reason, past.cause) == ("QuotaExceeded", CAUSES["classes"]["Startup"].sentence)


@pytest.mark.parametrize("class_", ["Preemption", "Fenced"])
def test_nothing_continues_by_itself_after_the_end(class_: str) -> None:
    [finding] = explain_job(make_snapshot(make_failed(class_, "SomethingNew")))
    assert finding.remedy == "Run `railhead retry digits`, which starts from scratch, since the job has no checkpoint."


def test_a_job_whose_queue_stopped_is_not_to_be_resumed() -> None:
    conditions = [
        make_condition(each, "Suspended", "ClusterQueue team is inactive") for each in ("Suspended", "Reconciling")
    ]
    [finding] = explain_job(make_snapshot(make_job(phase="Queued", conditions=conditions)))
    assert "railhead resume" not in finding.remedy


@pytest.mark.parametrize(
    ("scaling", "is_last"),
    [
        ({"numWorkers": 256, "useGPU": True}, True),
        ({"numWorkers": 512, "useGPU": True}, False),
        ({"numWorkers": 256, "useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": 2}}, False),
        ({"numWorkers": "many"}, False),
    ],
)
def test_the_budget_of_a_large_job_refills_earlier(scaling: Object, is_last: bool) -> None:
    """After five hours of training."""
    job = make_running(
        spec={"scaling": scaling},
        restarts={"application": 3},
        budget={"runningSeconds": 5 * 3600, "checkpoint": 4},
        checkpoint={"uri": "s3://b/c", "index": 5},
    )
    assert ("LastTry" in reasons(job)) == is_last


def test_a_budget_that_training_has_filled_again_has_no_last_try() -> None:
    status = {"restarts": {"application": 3}, "budget": {"runningSeconds": 21_600, "checkpoint": 0}}
    assert reasons(make_running(**REPORTED, **status)) == ["Training"]
    assert reasons(make_running(**REPORTED, **{**status, "budget": {"runningSeconds": 60, "checkpoint": 0}})) == [
        "LastTry"
    ]


@pytest.mark.parametrize(("reason", "row"), [("", "PodReplaced"), ("ErrImagePull", "ImagePullBackOff")])
def test_what_the_kubelet_said_about_a_pod_that_has_been_replaced_is_over(reason: str, row: str) -> None:
    head = make_pod("digits-1-head", phase="Pending")
    if reason:
        head["status"]["containerStatuses"] = [{"name": "ray", "state": {"waiting": {"reason": reason}}}]
    job = make_waiting("ImagePullBackOff", "Pod digits-1-head cannot start: container ray: Back-off pulling image")
    finding = explain_job(make_snapshot(job, [head]))[0]
    table = "variants" if row == "PodReplaced" else "pods"
    assert finding.cause == CAUSES[table][row].sentence


def test_pods_that_have_found_nodes_are_not_called_unschedulable_any_more() -> None:
    pods = [make_pod(f"digits-1-{slot}", slot=slot, phase="Running") for slot in (-1, 0)]
    for pod in pods:
        pod["spec"] = {"nodeName": "node-3"}
    job = make_waiting("Unschedulable", "3 Insufficient nvidia.com/gpu.", workers={"desired": 1})
    finding = explain_job(make_snapshot(job, pods))[0]
    assert finding.cause == CAUSES["variants"]["NodesFound"].sentence
