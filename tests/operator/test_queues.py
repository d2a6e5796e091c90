"""Jobs that Kueue admits, on a real API server: the stand-in plays Kueue, or Kueue's own program runs.

tests/kueue/README.md says what is played, and how the same tests run with Kueue's own program.
"""

from __future__ import annotations

from collections import Counter

import pytest

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from railhead.local.control_plane import ControlPlane
from tests.api.server import ApiServer
from tests.kueue.client import DEFINITIONS, Installation
from tests.kueue.definitions import API, GROUP
from tests.kueue.stand_in import deny_pods_ready
from tests.kueue.workload import FINALIZER, Object, is_true
from tests.operator.audit import AuditLog
from tests.operator.queue_stage import QUOTA, Stage
from tests.operator.served_kueue import find_rights
from tests.waiting import wait_until

LOWER = {"withinClusterQueue": "LowerPriority"}
BROKEN = Outcome("Configuration", reason="ImportFailed", message="no module named steps")


def test_a_job_has_no_pods_before_quota_is_free(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.occupy()
    stage.submit("job")
    assert "nvidia.com/gpu" in stage.wait_reason("job", "WaitingForQuota")
    stage.kueue.delete("other")
    stage.wait_pods("job", 3)
    assert stage.is_admitted("job")


@pytest.mark.parametrize(
    ("queue", "gpus", "reason", "words"),
    [
        ("none", 1, "Misconfigured", "LocalQueue none doesn't exist"),
        ("team", QUOTA + 1, "ExceedsMaxQuota", "nvidia.com/gpu"),
    ],
)
def test_a_job_that_is_never_admitted_says_why(stage: Stage, queue: str, gpus: int, reason: str, words: str) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job", gpus=gpus, queue=queue)
    assert words in stage.wait_reason("job", reason)


def test_a_job_runs_once_its_local_queue_exists(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job", queue="late")
    stage.wait_reason("job", "Misconfigured")
    stage.kueue.make_local_queue("late")
    stage.wait_pods("job", 3)


def test_the_label_names_a_queue_and_pods_do_not_carry_it(stage: Stage) -> None:
    """Kueue would manage such pods a second time."""
    stage.kueue.make_queue(gpus=QUOTA)
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    stage.cluster.apply("job", labels=labels)
    pods = stage.wait_pods("job", 3)
    assert sorted(pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] for pod in pods.values()) == [
        "head",
        "workers",
        "workers",
    ]
    assert not [pod for pod in pods.values() if "kueue.x-k8s.io/queue-name" in pod["metadata"]["labels"]]


def test_two_names_of_a_queue_are_a_conflict_that_asks_for_no_quota(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    stage.cluster.apply("job", labels=labels, scheduling={"queueName": "other"})
    assert "team" in stage.wait_reason("job", "QueueNameConflict")
    assert stage.kueue.find("job") is None
    stage.cluster.label("job", {"kueue.x-k8s.io/queue-name": "other"})
    stage.wait_reason("job", "Misconfigured")


def test_pods_get_the_labels_and_the_tolerations_of_the_flavor_and_keep_them(stage: Stage) -> None:
    taint = {"key": "pool", "value": "spot", "effect": "NoSchedule"}
    toleration = {"key": "pool", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
    flavor: Object = {"nodeLabels": {"pool": "spot"}, "nodeTaints": [taint], "tolerations": [toleration]}
    stage.kueue.make_queue(gpus=QUOTA, flavor=flavor)
    stage.submit("job", gpus=1)
    stage.start("job", 2)

    def is_placed(pod: Object) -> bool:
        return pod["spec"]["nodeSelector"].get("pool") == "spot" and toleration in pod["spec"]["tolerations"]

    assert all(is_placed(pod) for pod in stage.cluster.pods("job").values())
    path = f"{API}/resourceflavors/{stage.kueue.namespace}"
    assert stage.cluster.server.request("DELETE", path).status == 200
    [worker] = [pod for name, pod in stage.cluster.pods("job").items() if not name.endswith("-head")]
    stage.cluster.remove_pod(worker)
    replacement = stage.until(
        "a replacement", lambda: next((p for n, p in stage.cluster.pods("job").items() if n.endswith("-w0-1")), None)
    )
    assert is_placed(replacement)


def test_a_preempted_job_saves_a_checkpoint_then_releases_its_quota_and_resumes(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA, preemption=LOWER)
    stage.submit("job")
    stage.start("job", 3)
    stage.preempt("job")
    stage.wait_phase("job", "Suspending")
    stage.wait_stop("job")
    stage.kueue.settle()
    assert stage.holds_quota("job"), "its pods still run"
    stage.stop_pods("job")
    stage.until("the quota goes to the other", lambda: is_true(stage.kueue.list()["urgent"], "Admitted"))
    assert stage.wait_phase("job", "Queued")["checkpoint"]["index"] == 4
    assert stage.reason("job", "Requeued") == "True: Preempted"
    assert stage.reason("job", "Admitted") == "False: NoReservation"
    stage.kueue.delete("urgent")
    stage.start("job", 3, attempt=2)
    assert "restarts" not in stage.cluster.status("job"), "nothing was lost"
    assert not stage.cluster.job("job")["spec"].get("suspend"), "the spec is the user's"


def test_a_class_of_higher_priority_preempts_a_job(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA, preemption=LOWER)
    stage.kueue.make_priority_class("high", 100)
    stage.submit("low", gpus=QUOTA)
    stage.start("low", QUOTA + 1)
    labels = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "high"}
    scaling = {"numWorkers": QUOTA, "useGPU": True, "workersPerPod": 1}
    stage.cluster.apply("high", labels=labels, scaling=scaling)
    stage.stop_pods("low")
    stage.wait_pods("high", QUOTA + 1)
    stage.wait_phase("low", "Queued")


def test_an_administrators_hold_stops_the_job_and_no_resume_lifts_it(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    name = stage.workload("job")["metadata"]["name"]
    stage.kueue.patch(name, active=False)
    stage.stop_pods("job")
    stage.wait_reason("job", "Deactivated")
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))
    stage.cluster.change("job", suspend=True)
    stage.wait_phase("job", "Suspended")
    stage.cluster.change("job", suspend=False)
    stage.wait_reason("job", "Deactivated")
    stage.kueue.settle()
    assert stage.workload("job")["spec"]["active"] is False
    stage.kueue.patch(name, active=True)
    stage.start("job", 3, attempt=2)


def test_a_hold_that_is_set_while_the_user_suspends_the_job_counts(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    stage.cluster.change("job", suspend=True)
    stage.wait_stop("job")
    name = stage.workload("job")["metadata"]["name"]
    stage.kueue.patch(name, active=False)
    stage.stop_pods("job")
    stage.wait_phase("job", "Suspended")
    stage.cluster.change("job", suspend=False)
    stage.wait_reason("job", "Deactivated")
    stage.kueue.patch(name, active=True)
    stage.start("job", 3, attempt=2)


def test_a_suspended_job_gives_its_quota_back_and_queues_when_resumed(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job", gpus=QUOTA)
    stage.start("job", QUOTA + 1)
    stage.submit("next", gpus=QUOTA)
    stage.cluster.change("job", suspend=True)
    stage.wait_stop("job")
    stage.kueue.settle()
    assert stage.holds_quota("job")
    stage.stop_pods("job")
    stage.start("next", QUOTA + 1)
    assert stage.wait_phase("job", "Suspended")
    stage.cluster.change("job", suspend=False)
    stage.wait_reason("job", "WaitingForQuota")
    stage.succeed("next")
    stage.start("job", QUOTA + 1, attempt=2)


def test_a_job_created_suspended_asks_for_quota_once_it_is_resumed(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job", suspend=True)
    stage.wait_phase("job", "Suspended")
    stage.kueue.settle()
    assert not stage.holds_quota("job")
    stage.cluster.change("job", suspend=False)
    stage.wait_pods("job", 3)


@pytest.mark.parametrize("ending", ["Succeeded", "Failed"])
def test_a_finished_job_gives_its_quota_back(stage: Stage, ending: str) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    if ending == "Succeeded":
        stage.end_head("job")
    else:
        stage.cluster.end_pod(stage.cluster.head("job"), code=FailureClass("Configuration").exit_code, outcome=BROKEN)
    stage.wait_phase("job", ending)
    stage.until("the workers are deleted", lambda: stage.count_deleting("job") == 2)
    stage.kueue.settle()
    assert stage.holds_quota("job"), "its worker pods still hold their GPUs"
    for name, pod in stage.cluster.pods("job").items():
        if not name.endswith("-head"):
            stage.cluster.remove_pod(pod)
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))
    assert stage.reason("job", "Finished") == f"True: {ending}"


@pytest.mark.parametrize("is_away", [False, True], ids=["", "while the operator is away"])
def test_a_deleted_job_gives_its_quota_back_when_its_pods_are_gone(stage: Stage, is_away: bool) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    if is_away:
        stage.cluster.operator.stop()
    stage.cluster.delete("job")
    stage.until("all pods are asked to end", lambda: stage.count_deleting("job") == 3)
    if is_away:
        stage.cluster.operator.start()
    stage.until("the Workload is deleted", lambda: "deletionTimestamp" in stage.workload("job")["metadata"])
    stage.kueue.settle()
    assert stage.holds_quota("job"), "its pods still hold their GPUs"
    stage.remove_pods("job")
    stage.until("the Workload is gone", lambda: stage.kueue.find("job") is None)


def test_a_job_whose_pods_also_went_while_the_operator_was_away_leaves_no_workload(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    stage.cluster.operator.stop()
    stage.cluster.delete("job")
    stage.until("all pods are asked to end", lambda: stage.count_deleting("job") == 3)
    stage.remove_pods("job")
    stage.cluster.operator.start()
    stage.until("the Workload is gone", lambda: stage.kueue.find("job") is None)


def test_a_queued_job_that_is_deleted_leaves_no_workload(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.occupy()
    stage.submit("job")
    stage.wait_reason("job", "WaitingForQuota")
    stage.cluster.delete("job")
    stage.until("the Workload is gone", lambda: stage.kueue.find("job") is None)


def test_an_elastic_job_begins_with_the_workers_that_are_admitted(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.occupy(gpus=1)
    stage.submit("job", numbers={"minWorkers": 2, "maxWorkers": QUOTA + 2})
    stage.wait_pods("job", QUOTA)
    counts = [each["count"] for each in stage.workload("job")["status"]["admission"]["podSetAssignments"]]
    assert counts == [1, QUOTA - 1]


def test_an_elastic_job_gives_back_the_quota_of_workers_that_it_has_given_up(stage: Stage) -> None:
    """And does not take it back when it is asked to grow again: another job may have it."""
    stage.kueue.make_queue(gpus=QUOTA)
    numbers = {"minWorkers": 1, "maxWorkers": QUOTA, "desiredWorkers": QUOTA}
    stage.submit("job", numbers=numbers)
    stage.start("job", QUOTA + 1)
    stage.submit("next", gpus=2)
    stage.wait_reason("next", "WaitingForQuota")
    scaling = {"useGPU": True, "workersPerPod": 1, **numbers}
    stage.cluster.change("job", scaling={**scaling, "desiredWorkers": 1})
    leaving = QUOTA - 1
    stage.until("the others are deleted", lambda: stage.count_deleting("job") == leaving)
    stage.kueue.settle()
    assert not stage.is_admitted("next"), "their pods still hold their GPUs"
    for pod in stage.cluster.pods("job").values():
        if "deletionTimestamp" in pod["metadata"]:
            stage.cluster.remove_pod(pod)
    stage.wait_pods("next", 3)
    asked = stage.cluster.change("job", scaling={**scaling, "desiredWorkers": QUOTA})["metadata"]["generation"]
    stage.until("the operator has seen it", lambda: stage.cluster.status("job")["observedGeneration"] == asked)
    assert len(stage.cluster.pods("job")) == 2


def test_a_deleted_workload_stops_the_job_which_then_asks_again(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    before = stage.workload("job")["metadata"]
    stage.kueue.delete(before["name"])
    stage.wait_stop("job")
    assert stage.holds_quota("job")
    stage.stop_pods("job")
    stage.start("job", 3, attempt=2)
    assert stage.workload("job")["metadata"]["uid"] != before["uid"]


def test_a_job_moves_to_another_queue_while_it_is_suspended(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.kueue.make_local_queue("other")
    stage.submit("job", suspend=True)
    stage.wait_phase("job", "Suspended")
    stage.cluster.change("job", suspend=False, scheduling={"queueName": "other"})
    stage.wait_pods("job", 3)
    assert stage.workload("job")["spec"]["queueName"] == "other"


def test_pods_wait_for_admission_checks_and_end_when_one_asks_for_a_retry(stage: Stage) -> None:
    stage.kueue.make_check("prov")
    stage.kueue.make_queue(gpus=QUOTA, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    stage.submit("job")
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    stage.kueue.set_check(stage.workload("job"), "Ready")
    stage.start("job", 3)
    stage.kueue.set_check(stage.workload("job"), "Retry", "the nodes go")
    stage.stop_pods("job")
    stage.until("the checks begin anew", lambda: stage.reason("job", "Admitted") == "False: UnsatisfiedAdmissionChecks")
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    stage.kueue.set_check(stage.workload("job"), "Ready")
    stage.start("job", 3, attempt=2)


def test_pods_have_what_an_admission_check_adds(stage: Stage) -> None:
    """As the one of ProvisioningRequests does."""
    stage.kueue.make_check("prov")
    stage.kueue.make_queue(gpus=QUOTA, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    stage.submit("job")
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    added = {"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "prov-1"}}
    updates = [{"name": name, **added, "nodeSelector": {"pool": "new"}} for name in ("head", "workers")]
    stage.kueue.set_check(stage.workload("job"), "Ready", "", *updates)
    for pod in stage.wait_pods("job", 3).values():
        assert added["annotations"].items() <= pod["metadata"]["annotations"].items()
        assert pod["spec"]["nodeSelector"]["pool"] == "new"


def test_a_check_that_contradicts_the_pods_costs_no_quota_and_is_named(stage: Stage) -> None:
    stage.kueue.make_check("prov")
    stage.kueue.make_queue(gpus=QUOTA, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    stage.submit("job", gpus=QUOTA)
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    update = {"name": "workers", "labels": {"railhead.dev/role": "other"}}
    stage.kueue.set_check(stage.workload("job"), "Ready", "", update)
    assert "Admission check prov" in stage.wait_reason("job", "FailedToStart")
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))
    stage.kueue.delete(stage.workload("job")["metadata"]["name"])
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    stage.kueue.set_check(stage.workload("job"), "Ready")
    stage.wait_pods("job", QUOTA + 1)


def test_a_job_that_was_admitted_for_its_maximum_time_saves_a_checkpoint_and_waits(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "10"}  # within which the operator sees that the pods run
    stage.cluster.apply("job", labels=labels, scheduling={"queueName": "team"})
    stage.start("job", 3)
    stage.stop_pods("job")
    assert "maximum execution time" in stage.wait_reason("job", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert stage.cluster.status("job")["checkpoint"]["index"] == 4
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))


def test_a_rejected_check_holds_the_job_as_an_administrator_does(stage: Stage) -> None:
    stage.kueue.make_check("prov")
    stage.kueue.make_queue(gpus=QUOTA, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    stage.submit("job")
    stage.wait_reason("job", "UnsatisfiedAdmissionChecks")
    stage.kueue.set_check(stage.workload("job"), "Rejected", "no budget")
    assert "no budget" in stage.wait_reason("job", "DeactivatedDueToAdmissionCheck")
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))


def test_a_stopped_cluster_queue_drains_its_jobs_and_starts_them_again(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    stage.kueue.change_queue(stopPolicy="HoldAndDrain")
    stage.stop_pods("job")
    stage.wait_reason("job", "Suspended")
    stage.kueue.change_queue(stopPolicy="None")
    stage.start("job", 3, attempt=2)


def test_a_job_whose_pods_are_late_gives_its_quota_to_others(stage: Stage) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    with stage.kueue.expect_pods(seconds=6, backoff_seconds=2):
        stage.submit("job")
        for pod in stage.wait_pods("job", 3).values():
            stage.cluster.bind_pod(pod)
        stage.until("it is late", lambda: stage.reason("job", "Evicted") == "True: PodsReadyTimeout")
        stage.wait_stop("job")
        stage.remove_pods("job")
        stage.until("the quota is free", lambda: not stage.holds_quota("job"))
        stage.start("job", 3, attempt=2)
        stage.until("Kueue knows that its pods run", lambda: is_true(stage.workload("job"), "PodsReady"))


def test_a_job_in_a_queue_costs_few_more_writes_and_uses_exactly_the_charts_rights(
    stage: Stage, audited_plane: tuple[ControlPlane, AuditLog]
) -> None:
    """It is preempted once, and suspended, so that each right has its use."""
    audit, namespace = audited_plane[1], stage.cluster.namespace

    def count_asked() -> Counter[tuple[str, str]]:
        asked = [each for each in audit.requests() if each.group == GROUP and each.namespace in ("", namespace)]
        assert not [each for each in asked if each.is_forbidden]
        return Counter((each.verb, each.resource) for each in asked)

    stage.kueue.make_queue(gpus=QUOTA, preemption=LOWER)
    stage.submit("job")
    stage.start("job", 3)
    stage.until("Kueue knows that its pods run", lambda: is_true(stage.workload("job"), "PodsReady"))
    asked = count_asked()
    assert (asked["create", "workloads"], asked["patch", "workloads/status"], asked["patch", "workloads"]) == (1, 1, 0)
    stage.preempt("job")
    stage.stop_pods("job")
    stage.until("the quota goes to the other", lambda: is_true(stage.kueue.list()["urgent"], "Admitted"))
    assert count_asked()["patch", "workloads/status"] == 2, "one change releases the quota"
    stage.kueue.delete("urgent")
    stage.start("job", 3, attempt=2)
    stage.cluster.change("job", suspend=True)
    stage.stop_pods("job")
    stage.until("the Workload is gone", lambda: stage.kueue.find("job") is None)
    asked = count_asked()
    assert (asked["delete", "workloads"], asked["patch", "workloads"]) == (1, 1)
    assert find_rights() - set(asked) <= {("get", "workloads")}, "which follows a lost answer to a create"


def play_to_success(stage: Stage, job: str) -> None:
    """Until the operator has nothing more to do for the job."""
    stage.start(job, 3)
    stage.end_head(job)
    stage.wait_phase(job, "Succeeded")
    stage.until("the workers are deleted", lambda: stage.count_deleting(job) == 2)
    for name, pod in stage.cluster.pods(job).items():
        if not name.endswith("-head"):
            stage.cluster.remove_pod(pod)
    stage.until("the last event", lambda: "Succeeded" in {event["reason"] for event in stage.cluster.events(job)})
    stage.until("its quota is free", lambda: stage.kueue.find(job) is None or not has_finalizer(stage.workload(job)))


def has_finalizer(workload: Object) -> bool:
    return FINALIZER in workload["metadata"].get("finalizers", ())


def test_a_queue_and_a_gang_cost_a_job_few_requests(stage: Stage, audited_plane: tuple[ControlPlane, AuditLog]) -> None:
    """docs/internals/benchmarks.md has the numbers. The first job makes what all jobs of the namespace share."""
    stage.kueue.make_queue(gpus=QUOTA)
    counted: dict[str, Counter[str]] = {}
    before = Counter[str]()
    for name, queue, gang in (("first", "", "None"), ("plain", "", "None"), ("gang", "", "PodGroup")):
        stage.submit(name, queue=queue, scheduling={"gangScheduler": gang})
        play_to_success(stage, name)
        after = count_requests(audited_plane[1], stage.cluster.namespace)
        counted[name], before = after - before, after
    stage.submit("queued")
    play_to_success(stage, "queued")
    counted["queued"] = count_requests(audited_plane[1], stage.cluster.namespace) - before
    shared = Counter({"get configmaps": 1, "get services": 1})  # looked up again if the last job began long ago
    more = {name: counted[name] - counted["plain"] - shared for name in ("gang", "queued")}
    assert more["gang"] <= Counter({"create podgroups": 2}), "one for each version until one is served"
    assert more["queued"].total() <= 14, more


def count_requests(audit: AuditLog, namespace: str) -> Counter[str]:
    """The operator's requests in the namespace but for watches."""
    asked = [each for each in audit.requests(namespace) if each.verb != "watch"]
    return Counter(f"{each.verb} {each.resource}" for each in asked)


def test_a_job_without_a_queue_asks_for_none(stage: Stage) -> None:
    stage.submit("job", queue="")
    stage.wait_pods("job", 3)
    assert stage.kueue.find("job") is None


@pytest.mark.slow
def test_an_operator_that_dies_before_each_step_changes_nothing(stage: Stage) -> None:
    """Kueue, the user and the kubelets act while it is away."""
    stage.kueue.make_queue(gpus=QUOTA, preemption=LOWER)
    operator = stage.cluster.operator
    operator.stop()
    stage.submit("job")
    operator.start()
    stage.until("its Workload", lambda: stage.kueue.find("job"))
    operator.stop()
    stage.kueue.settle()
    assert stage.is_admitted("job")
    operator.start()
    stage.start("job", 3)
    operator.stop()
    stage.preempt("job")
    operator.start()
    stage.wait_stop("job")
    operator.stop()
    stage.end_stopped_head("job")
    operator.start()
    stage.until("the workers are deleted", lambda: stage.count_deleting("job") == 3)
    operator.stop()
    stage.remove_pods("job")
    operator.start()
    assert stage.wait_phase("job", "Queued")["checkpoint"]["index"] == 4
    stage.until("the quota goes to the other", lambda: is_true(stage.kueue.list()["urgent"], "Admitted"))
    operator.stop()
    stage.kueue.delete("urgent")
    stage.until("the job is admitted again", lambda: stage.is_admitted("job"))
    operator.start()
    stage.start("job", 3, attempt=2)
    operator.stop()
    stage.end_head("job")
    operator.start()
    stage.wait_phase("job", "Succeeded")
    stage.until("the workers are deleted", lambda: stage.count_deleting("job") == 2)
    operator.stop()
    stage.remove_pods("job")
    operator.start()
    stage.until("the quota is free", lambda: not stage.holds_quota("job"))
    assert stage.reason("job", "Finished") == "True: Succeeded"
    assert stage.cluster.status("job")["attempt"] == 2


def test_a_denied_change_of_the_workload_is_in_the_status_and_made_once_it_is_allowed(
    stage: Stage, server: ApiServer
) -> None:
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.wait_pods("job", 3)

    def find() -> str:
        found = {each["type"]: each for each in stage.cluster.status("job").get("conditions", ())}
        return str(found.get("QueueUnreachable", {}).get("message", ""))

    with deny_pods_ready(server, stage.cluster.namespace):
        stage.start("job", 3)
        assert "not today" in stage.until("the condition", find)
    stage.until("Kueue knows that its pods run", lambda: is_true(stage.workload("job"), "PodsReady"))
    stage.until("the condition goes", lambda: not find())


@pytest.mark.slow
def test_a_job_ends_with_a_last_checkpoint_when_kueues_definitions_are_deleted(
    stage: Stage, server: ApiServer, installation: Installation
) -> None:
    """All Workloads are deleted with them, as by an administrator who deletes each."""
    stage.kueue.make_queue(gpus=QUOTA)
    stage.submit("job")
    stage.start("job", 3)
    name = "workloads.kueue.x-k8s.io"
    assert server.request("DELETE", f"{DEFINITIONS}/{name}").status == 200
    wait_until("the head is asked to end", lambda: stage.cluster.head("job")["metadata"].get("deletionTimestamp"))
    stage.end_stopped_head("job")
    wait_until("the operator has read it", lambda: stage.count_deleting("job") == 3)
    stage.remove_pods("job")
    wait_until("it waits", lambda: stage.cluster.status("job").get("phase") == "Queued")
    assert stage.cluster.status("job")["checkpoint"]["index"] == 4
    installation.remove()  # also the Workloads of the other tests' jobs, whose pods nothing ends

    def find_reasons() -> set[str]:
        return {each["reason"] for each in stage.cluster.status("job").get("conditions", ())}

    wait_until("it waits for Kueue", lambda: "QueueMissing" in find_reasons(), seconds=90)
    installation.install()
    stage.kueue.make_queue(gpus=QUOTA)
    stage.start("job", 3, attempt=2)


@pytest.mark.slow
def test_a_job_waits_while_kueue_is_missing_and_runs_once_it_is_there(stage: Stage, installation: Installation) -> None:
    """The operator asks every 30 s for an API that is missing."""
    installation.remove()
    stage.submit("job", gpus=1)

    def find_reasons() -> set[str]:
        return {each["reason"] for each in stage.cluster.status("job").get("conditions", ())}

    wait_until("it says that Kueue is missing", lambda: "QueueMissing" in find_reasons(), seconds=90)
    assert not stage.cluster.pods("job")
    installation.install()
    stage.kueue.make_queue(gpus=QUOTA)
    stage.until("its pods", lambda: len(stage.cluster.pods("job")) == 2, seconds=90)
