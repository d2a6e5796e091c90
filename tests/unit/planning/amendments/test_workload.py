"""The job's Workload in each state of the job: one change per pass, and the quota is released last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api.parsed_spec import InvalidSpec
from railhead.planning.amendments.workload import keep_workload
from railhead.planning.plan import Create, Decision, Plan, WorkloadPatch
from railhead.planning.planner import plan
from railhead.planning.queue_view import Assignment, PodSetUpdate, QueueView, WorkloadView
from railhead.resources.placement import REQUIRED
from railhead.resources.queues.kueue import DIGEST
from tests.unit.builders import RUNNING_STATUS, ended, make_head, make_job, make_observed, make_spec, make_worker
from tests.unit.kueue import ADMISSION, QUEUE, RESERVED, condition, make_admitted, make_workload, queued_spec, served
from tests.unit.planning.state import decide

PODS = (make_head(), make_worker(0), make_worker(1))
RUNNING = {**RUNNING_STATUS, "admission": ADMISSION}
EVICTED = condition("Evicted", reason="Preempted", message="a higher priority")
NO_QUOTA = condition("QuotaReserved", "False", "WaitingForQuota", "2 more GPUs needed")
SUSPENDED = {**RUNNING, "phase": "Suspended", "head": {}}
QUEUED = {**SUSPENDED, "phase": "Queued"}
DONE = {
    **RUNNING,
    "phase": "Succeeded",
    "completionTime": "2026-01-01T11:59:59Z",
    "conditions": [{"type": "Complete", "status": "True", "reason": "Succeeded", "lastTransitionTime": None}],
}


def conditions(patch: WorkloadPatch | None) -> dict[str, tuple[str, str]]:
    assert patch is not None and patch.subresource == "status"
    return {each["type"]: (each["status"], each["reason"]) for each in patch.fields["status"]["conditions"]}


def test_a_new_job_is_queued_and_asks_for_quota_without_any_pod() -> None:
    wanted = decide(spec=queued_spec(), queue=served())
    assert wanted.status is not None and wanted.status.fields["phase"] == "Queued"
    assert [(create.kind, create.name) for create in wanted.creates] == [("Workload", "digits-0f1e2d")]
    shown = {each["type"]: each["reason"] for each in wanted.status.fields["conditions"] if each["status"] == "True"}
    assert shown == {"Reconciling": "Queued", "Suspended": "Queued"}
    assert "waiting" not in wanted.status.fields, "the start deadline does not run"
    assert wanted.status.fields["goodput"]["time"] == "2026-01-01T12:00:00Z", "the time counts as queued from here"


@pytest.mark.parametrize("state", ["off", "missing"])
def test_without_kueue_a_job_with_a_queue_waits_and_says_so(state: Any) -> None:
    wanted = decide(spec=queued_spec(), queue=QueueView(state))
    assert wanted.status is not None and wanted.status.fields["phase"] == "Queued" and not wanted.creates
    assert any(each.get("reason") == "QueueMissing" for each in wanted.status.fields["conditions"])


def test_before_the_api_server_has_answered_a_queued_job_is_left_as_it_is() -> None:
    wanted = decide(status=QUEUED, spec=queued_spec(), queue=QueueView("unknown"))
    assert wanted.status is None and not wanted.creates


def test_kueues_reason_is_shown_and_other_numbers_are_no_news() -> None:
    first = decide(spec=queued_spec(), queue=served(make_workload(NO_QUOTA)))
    assert first.status is not None
    known = {**QUEUED, "conditions": first.status.fields["conditions"]}
    fewer = condition("QuotaReserved", "False", "WaitingForQuota", "1 more GPUs needed")
    assert decide(status=known, spec=queued_spec(), queue=served(make_workload(fewer))).status is None
    other = condition("QuotaReserved", "False", "ExceedsMaxQuota", "2 more GPUs needed")
    news = decide(status=known, spec=queued_spec(), queue=served(make_workload(other)))
    assert news.status is not None and [event.reason for event in news.events] == ["Queued"]


def test_an_admitted_job_begins_with_what_the_queue_gave_it() -> None:
    wanted = decide(status=QUEUED, spec=queued_spec(), queue=served(make_admitted()))
    assert wanted.status is not None and wanted.status.fields["attempt"] == 2
    assert wanted.status.fields["admission"]["podSets"][1]["nodeSelector"] == {"pool": "spot"}
    pods = [create.build() for create in wanted.creates if create.kind == "Pod" and hasattr(create, "build")]
    assert len(pods) == 3 and all(pod["spec"]["nodeSelector"] == {"pool": "spot"} for pod in pods)
    assert wanted.events[-1].reason == "Admitted"
    assert not wanted.removes, "the quota is in use from here"


def test_a_pass_that_creates_pods_keeps_their_workload() -> None:
    """Even if the job asks for something else by now."""
    begun = decide(status=QUEUED, spec=queued_spec(), queue=served(make_admitted()))
    pods = tuple(create for create in begun.creates if create.kind == "Pod")
    job = make_job(status=QUEUED, spec=queued_spec(), queue=served(make_admitted(digest="other")))
    for creates, removed in ((pods, []), ((), ["Workload"])):
        kept = keep_workload(job, Decision(creates=creates))
        assert [remove.kind for remove in kept.removes] == removed


def test_a_replaced_pod_has_what_was_recorded_with_the_attempt() -> None:
    """The flavor may have changed since, or be gone."""
    wanted = decide(make_head(), make_worker(0), status=RUNNING, spec=queued_spec(), queue=served(make_admitted()))
    assert wanted.status is not None and wanted.status.fields["round"] == 1
    status = {**RUNNING, "round": 1}
    wanted = decide(
        make_head(),
        make_worker(0),
        status={**status, "workers": {"desired": 2, "ready": 1}},
        spec=queued_spec(),
        queue=served(make_admitted(), flavors={}),
    )
    pods = [create.build() for create in wanted.creates if create.kind == "Pod" and hasattr(create, "build")]
    assert [pod["spec"]["nodeSelector"] for pod in pods] == [{"pool": "spot"}]


@pytest.mark.parametrize(
    "workload",
    [make_admitted(EVICTED), make_admitted(is_active=False), None, make_admitted(is_deleting=True)],
    ids=["evicted", "held", "gone", "deleted"],
)
def test_an_eviction_takes_the_last_checkpoint_and_gives_nothing_back_while_pods_run(workload: Any) -> None:
    wanted = decide(*PODS, status=RUNNING, spec=queued_spec(), queue=served(workload))
    assert wanted.status is not None and wanted.status.fields["phase"] == "Suspending"
    assert [delete.name for delete in wanted.deletes] == [make_head().name]
    assert wanted.workload is None and not wanted.creates


def test_a_pod_that_a_queued_job_still_has_keeps_the_quota() -> None:
    wanted = decide(make_worker(0), status=QUEUED, spec=queued_spec(), queue=served(make_admitted(EVICTED)))
    assert wanted.deletes and wanted.workload is None and not wanted.removes


def finish_eviction(*more: Any, **changes: Any) -> Plan:
    status = {**RUNNING, "phase": "Suspending"}
    return decide(status=status, spec=queued_spec(), queue=served(make_admitted(*more, **changes)))


@pytest.mark.parametrize(
    ("reason", "requeued"), [("Preempted", "True"), ("NodeFailures", "True"), ("PodsReadyTimeout", "False")]
)
def test_without_pods_the_quota_is_released_as_kueues_integrations_do(reason: str, requeued: str) -> None:
    wanted = finish_eviction(condition("Evicted", reason=reason), condition("PodsReady"))
    assert wanted.status is not None and wanted.status.fields["phase"] == "Queued"
    found = conditions(wanted.workload)
    assert found["QuotaReserved"] == ("False", "Pending") and found["Admitted"][0] == "False"
    assert found["Requeued"] == (requeued, reason) and found["PodsReady"] == ("False", "WaitForStart")
    assert wanted.workload is not None and wanted.workload.fields["status"]["admission"] is None
    assert wanted.workload.version == "7", "only of the version that was seen"


def test_what_is_said_of_released_quota_is_complete() -> None:
    wanted = finish_eviction(EVICTED, condition("PodsReady"))
    at = {"observedGeneration": 0, "lastTransitionTime": "2026-01-01T12:00:00Z"}
    no, why = {"status": "False", **at}, {"reason": "Preempted", "message": "a higher priority"}
    reserved = {"type": "QuotaReserved", **no, "reason": "Pending", "message": "a higher priority"}
    message = "The workload has no reservation"
    admitted = {"type": "Admitted", **no, "reason": "NoReservation", "message": message}
    before = {"type": "Evicted", "status": "True", **at, "lastTransitionTime": "2026-01-01T11:00:00Z", **why}
    message = "Not all pods are ready or succeeded"
    ready = {"type": "PodsReady", **no, "reason": "WaitForStart", "message": message}
    requeued = {"type": "Requeued", "status": "True", **at, **why}
    status = {
        "conditions": [reserved, admitted, before, ready, requeued],
        "admission": None,
        "reclaimablePods": None,
        "accumulatedPastExecutionTimeSeconds": 3600,
    }
    assert wanted.workload == WorkloadPatch("digits-0f1e2d", "7", {"status": status}, subresource="status")


def test_a_reservation_that_waits_for_admission_checks_is_kept() -> None:
    waits = make_workload(condition("QuotaReserved"))
    assert decide(status=QUEUED, spec=queued_spec(), queue=served(waits)).workload is None


def test_a_job_that_cannot_have_what_was_admitted_gives_its_quota_back_and_asks_for_no_other() -> None:
    """With a new Workload it would be admitted, and could not start, again and again."""
    update = PodSetUpdate("prov", "workers", node_selector={"pool": "other"})
    wanted = decide(status=QUEUED, spec=queued_spec(), queue=served(make_admitted(updates=(update,))))
    assert conditions(wanted.workload)["Finished"] == ("True", "FailedToStart") and not wanted.creates
    assert wanted.status is not None and "prov" in str(wanted.status.fields["conditions"])
    ended = make_admitted(condition("Finished", reason="FailedToStart"), updates=(update,))
    again = decide(status=QUEUED, spec=queued_spec(), queue=served(ended))
    assert again.workload is None and not again.removes and not again.creates
    changed = decide(status=QUEUED, spec=queued_spec(scaling={"numWorkers": 3}), queue=served(ended))
    assert [remove.kind for remove in changed.removes] == ["Workload"]


AVOIDED = {"name": "n1", "since": "2026-01-01T11:59:00Z", "expirationTime": "2026-01-01T13:00:00Z", "times": 1}
AVOIDING = {**RUNNING, "avoidedNodes": [{**AVOIDED, "reason": "NodeRefusedPod", "message": "no devices"}]}


def on_nodes(**nodes: int) -> WorkloadView:
    """Admitted, with these numbers of worker pods by node."""
    workers = Assignment("workers", ("spot",), 2, has_topology=True, nodes=nodes)
    return make_admitted(assignments=(Assignment("head", ("spot",), 1), workers))


def test_a_job_that_avoids_a_node_which_kueue_assigned_gives_the_quota_back_and_asks_for_other_nodes() -> None:
    """Its pods could run nowhere: Kueue adds the node to their node selector."""
    spec = queued_spec()
    for pods in (PODS[:2], PODS[1:], (*PODS[:2], make_worker(1, phase="Failed", is_running=False))):
        evicted = decide(*pods, status=AVOIDING, spec=spec, queue=served(on_nodes(n1=1, n2=1)))
        assert conditions(evicted.workload)["Evicted"] == ("True", "NodeFailures")
        assert evicted.status is not None and evicted.status.fields["phase"] == "Suspending"
        for workload in (on_nodes(n2=2), make_admitted()):
            kept = decide(*pods, status=AVOIDING, spec=spec, queue=served(workload))
            assert kept.workload is None or "Evicted" not in conditions(kept.workload)


def test_a_job_that_has_all_its_pods_trains_on_where_it_is() -> None:
    trains = decide(*PODS, status=AVOIDING, spec=queued_spec(), queue=served(on_nodes(n1=1, n2=1)))
    assert "Evicted" not in conditions(trains.workload), "only that its pods are ready"
    elastic = queued_spec(scaling={"minWorkers": 1, "maxWorkers": 2})
    trains = decide(*PODS[:2], status=AVOIDING, spec=elastic, queue=served(on_nodes(n1=1, n2=1)))
    assert trains.workload is None or "Evicted" not in conditions(trains.workload)


def test_kueue_is_told_of_avoided_nodes_and_has_the_say_once_it_knows_them() -> None:
    """It may have no others: then the job waits, or avoids them no more."""
    status = {**QUEUED, "avoidedNodes": AVOIDING["avoidedNodes"]}
    asks = decide(status=status, spec=queued_spec(), queue=served())
    [create] = asks.creates
    assert isinstance(create, Create)
    [head, workers] = create.build()["spec"]["podSets"]
    for pod_set in (head, workers):
        [term] = pod_set["template"]["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]} in term["matchFields"]
    known = replace(on_nodes(n1=1, n2=1), digest=create.build()["metadata"]["annotations"][DIGEST])
    kept = decide(*PODS[:2], status=AVOIDING, spec=queued_spec(), queue=served(known))
    assert kept.workload is None or "Evicted" not in conditions(kept.workload)
    again = decide(status=status, spec=queued_spec(), queue=served(on_nodes(n1=1, n2=1)))
    assert [remove.kind for remove in again.removes] == ["Workload"], "made before the job avoided the node"


def test_a_suspended_job_asks_for_no_quota_once_its_pods_are_gone() -> None:
    """Not before: until then an administrator can hold the job."""
    spec = queued_spec(suspend=True)
    wanted = decide(*PODS, status=RUNNING, spec=spec, queue=served(make_admitted()))
    assert not wanted.removes and wanted.deletes
    late = decide(make_worker(0), status=SUSPENDED, spec=spec, queue=served(make_admitted()))
    assert not late.removes and late.deletes
    suspended = decide(status=SUSPENDED, spec=spec, queue=served(make_admitted()))
    assert [remove.kind for remove in suspended.removes] == ["Workload"]
    resumed = decide(status=SUSPENDED, spec=queued_spec(), queue=served())
    assert resumed.status is not None and resumed.status.fields["phase"] == "Queued"
    assert [create.kind for create in resumed.creates] == ["Workload"]


def test_a_resumed_job_never_lifts_an_administrators_hold() -> None:
    held = make_workload(NO_QUOTA, is_active=False)
    for spec in (queued_spec(suspend=True), queued_spec(), queued_spec(scaling={"numWorkers": 5})):
        wanted = decide(status=SUSPENDED, spec=spec, queue=served(held))
        assert wanted.workload is None and not wanted.removes and not wanted.creates


@pytest.mark.parametrize("spec", [queued_spec(scaling={"numWorkers": 3}), make_spec()], ids=["other size", "no queue"])
def test_a_job_that_asks_for_something_else_replaces_its_workload(spec: Any) -> None:
    wanted = decide(status=QUEUED, spec=spec, queue=served(make_workload(NO_QUOTA)))
    assert ("Workload", "digits-0f1e2d") in [(remove.kind, remove.name) for remove in wanted.removes]


def test_a_queued_job_replaces_a_workload_that_is_over() -> None:
    over = make_admitted(condition("Finished", reason="Succeeded"))
    wanted = decide(status=QUEUED, spec=queued_spec(), queue=served(over))
    assert [remove.kind for remove in wanted.removes] == ["Workload"]


def test_a_job_that_waits_for_another_jobs_checkpoint_asks_for_no_quota() -> None:
    spec = queued_spec(resumeFrom={"trainJob": "nobody"})
    wanted = decide(spec=spec, queue=served())
    assert not wanted.creates and wanted.status is not None and wanted.status.fields["phase"] == "Pending"
    again = decide(status={"phase": "Pending"}, spec=spec, queue=served(make_workload(NO_QUOTA, spec=spec)))
    assert [remove.kind for remove in again.removes] == ["Workload"]


def test_finished_comes_with_the_last_pod_and_the_finalizer_goes_after_it() -> None:
    workload = make_admitted()
    late = decide(make_worker(0), status=DONE, spec=queued_spec(), queue=served(workload))
    assert late.workload is None and late.deletes
    done = ended(make_head(), "Succeeded")
    wanted = decide(done, status=DONE, spec=queued_spec(), queue=served(workload))
    assert conditions(wanted.workload)["Finished"] == ("True", "Succeeded")
    finished = make_admitted(condition("Finished", reason="Succeeded"))
    last = decide(done, status=DONE, spec=queued_spec(), queue=served(finished))
    assert last.workload == WorkloadPatch("digits-0f1e2d", "7", {"metadata": {"finalizers": []}})
    over = decide(done, status=DONE, spec=queued_spec(), queue=served(replace(finished, finalizers=())))
    assert over.workload is None


def test_a_job_with_an_invalid_spec_gives_its_quota_back_too() -> None:
    observed = make_observed(status=DONE, spec=InvalidSpec("spec.image", "is missing"), queue=served(make_admitted()))
    assert conditions(plan(observed).workload)["Finished"] == ("True", "Succeeded")


def test_a_deleted_job_that_a_finalizer_keeps_ends_its_workload() -> None:
    wanted = decide(status=SUSPENDED, spec=queued_spec(), is_deleting=True, queue=served(make_workload(NO_QUOTA)))
    assert conditions(wanted.workload)["Finished"] == ("True", "Failed")


def test_a_workload_that_was_deleted_goes_with_the_last_pod() -> None:
    gone = make_admitted(is_deleting=True)
    wanted = decide(status=QUEUED, spec=queued_spec(), queue=served(gone))
    assert wanted.workload is not None and wanted.workload.fields == {"metadata": {"finalizers": []}}
    assert not [create for create in wanted.creates if create.kind == "Workload"]


def test_without_flavors_a_workload_ends_as_always_and_none_begins() -> None:
    """Kueue's definitions are deleted one by one, and that of Workloads stays until each of them is let go."""
    queue = served(make_admitted(is_deleting=True), state="partial", flavors={})
    stopped = decide(*PODS, status=RUNNING, spec=queued_spec(), queue=queue)
    assert stopped.status is not None and stopped.status.fields["phase"] == "Suspending"
    for phase in ("Suspending", "Queued"):
        released = decide(status={**RUNNING, "phase": phase}, spec=queued_spec(), queue=queue).workload
        assert released is not None and released.fields == {"metadata": {"finalizers": []}}
    waiting = decide(status=QUEUED, spec=queued_spec(), queue=served(state="partial", flavors={}))
    assert not waiting.creates, "its priority is not known"
    other = decide(status=QUEUED, spec=queued_spec(), queue=served(make_admitted(digest="other"), state="partial"))
    assert not other.removes, "nor is whether it asks for something else now"


def test_pods_ready_follows_the_pods() -> None:
    wanted = decide(*PODS, status=RUNNING, spec=queued_spec(), queue=served(make_admitted()))
    assert conditions(wanted.workload)["PodsReady"] == ("True", "Started")
    ready = served(make_admitted(condition("PodsReady", reason="Started")))
    assert decide(*PODS, status=RUNNING, spec=queued_spec(), queue=ready).workload is None
    wanted = decide(*PODS[:2], status=RUNNING, spec=queued_spec(), queue=ready)
    assert conditions(wanted.workload)["PodsReady"] == ("False", "WaitForRecovery")
    lost = served(make_admitted(condition("PodsReady", "False", "WaitForRecovery")))
    wanted = decide(*PODS, status=RUNNING, spec=queued_spec(), queue=lost)
    assert conditions(wanted.workload)["PodsReady"] == ("True", "Recovered")


ELASTIC = queued_spec(scaling={"minWorkers": 1, "maxWorkers": 4, "desiredWorkers": 2})
SHRUNK = {
    **RUNNING,
    "workers": {"desired": 2, "ready": 2, "joined": 2},
    "admission": {**ADMISSION, "podSets": [{"name": "workers", "count": 2}]},
}


def reclaim(*pods: Any, status: Any = SHRUNK, spec: Any = ELASTIC, **changes: Any) -> int | None:
    """For how many workers the operator of a job that has given up two of four says that they need no quota."""
    known = {"asked_workers": 4, "count": 4, **changes}
    queue = served(make_admitted(condition("PodsReady", reason="Started"), **known))
    wanted = decide(*pods, status=status, spec=spec, queue=queue).workload
    if wanted is None:
        return None
    [each] = wanted.fields["status"]["reclaimablePods"]
    given_back = {"reclaimablePods": [{"name": "workers", "count": each["count"]}]}
    assert wanted == WorkloadPatch("digits-0f1e2d", "7", {"status": given_back}, subresource="status")
    return int(each["count"])


def test_workers_that_an_elastic_job_has_given_up_need_no_quota_once_their_pods_are_gone() -> None:
    assert reclaim(*PODS) == 2
    leaving = replace(make_worker(2), is_deleting=True)
    assert reclaim(*PODS, leaving) is None
    assert reclaim(*PODS, reclaimed_workers=2) is None, "said already"
    assert reclaim(*PODS, reclaimed_workers=3) is None, "the queue takes nothing back"
    assert reclaim(*PODS, count=2) is None, "no more was admitted"
    assert reclaim(*PODS, asked_workers=5) == 3, "the queue counts from what was asked for"
    assert reclaim(*PODS[:2]) == 2, "not the quota of a lost worker, which is replaced"
    assert reclaim(make_worker(0), status={**SHRUNK, "attempt": 2}) == 2, "also while an earlier attempt ends"
    assert reclaim(*PODS, spec=queued_spec()) is None, "only an elastic job gives up workers"


def test_no_quota_is_given_back_in_the_pass_that_shrinks_the_job() -> None:
    three = {**ADMISSION, "podSets": [{"name": "workers", "count": 3}]}
    progress = {**RUNNING["progress"], "state": "RESTARTING"}
    status = {**RUNNING, "workers": {"desired": 3, "ready": 3}, "admission": three, "progress": progress}
    queue = served(make_admitted(condition("PodsReady"), asked_workers=4, count=4))
    wanted = decide(*PODS, make_worker(2), status=status, spec=ELASTIC, queue=queue)
    assert wanted.status is not None and wanted.status.fields["admission"]["podSets"][0]["count"] == 2
    assert wanted.workload is None


def test_no_quota_is_given_back_in_the_pass_that_begins_an_attempt() -> None:
    """The new attempt may keep another number."""
    failure = {"attempt": 1, "class": "Infrastructure", "reason": "HeadLost", "time": "2026-01-01T11:00:00Z"}
    begun = {**SHRUNK, "failure": failure}
    wanted = decide(status=begun, spec=ELASTIC, queue=served(make_admitted(asked_workers=4, count=4)))
    assert wanted.status is not None and wanted.status.fields["attempt"] == 2
    assert wanted.status.fields["admission"]["podSets"][1]["count"] == 2
    assert wanted.workload is None or "reclaimablePods" not in wanted.workload.fields["status"]


def test_what_was_given_back_is_asked_for_again_with_the_next_admission() -> None:
    released = finish_eviction(EVICTED, reclaimed_workers=1).workload
    assert released is not None and released.fields["status"]["reclaimablePods"] is None


def test_a_limit_of_the_time_is_asked_for_and_the_time_of_each_admission_counted() -> None:
    wanted = decide(spec=queued_spec(), queue=served(seconds_label="3600"))
    [create] = [each for each in wanted.creates if isinstance(each, Create) and each.kind == "Workload"]
    assert create.build()["spec"]["maximumExecutionTimeSeconds"] == 3600
    assert not decide(spec=queued_spec(), queue=served(seconds_label="1h")).creates
    released = finish_eviction(EVICTED, past_seconds=60).workload
    assert released is not None
    assert released.fields["status"]["accumulatedPastExecutionTimeSeconds"] == 60 + 3600, "admitted for an hour"
    for time in ("2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z"):
        just_now = condition("Admitted").model_copy(update={"last_transition_time": time})
        released = finish_eviction(past_seconds=60, conditions=(RESERVED, just_now, EVICTED)).workload
        assert released is not None
        assert released.fields["status"]["accumulatedPastExecutionTimeSeconds"] == 60, "Kueue's clock may be fast"
    for waits in ((), (condition("Admitted", "False"),)):
        released = finish_eviction(past_seconds=60, conditions=(RESERVED, *waits, EVICTED)).workload
        assert released is not None and "accumulatedPastExecutionTimeSeconds" not in released.fields["status"]
    passed = condition("Evicted", reason="DeactivatedDueToMaximumExecutionTimeExceeded")
    released = finish_eviction(passed, is_active=False).workload
    assert released is not None and "accumulatedPastExecutionTimeSeconds" not in released.fields["status"]


def test_two_names_of_a_queue_are_a_conflict_and_no_workload_is_made() -> None:
    wanted = decide(spec=queued_spec(), queue=served(queue_label="team-b"))
    assert not wanted.creates and wanted.status is not None
    shown = {each["type"]: each["reason"] for each in wanted.status.fields["conditions"] if each["status"] == "True"}
    assert shown["Stalled"] == "QueueNameConflict" and "Reconciling" not in shown
    assert QUEUE in str(wanted.status.fields["conditions"])


def test_the_time_in_the_queue_counts_as_queued() -> None:
    goodput = {"time": "2026-01-01T11:59:00Z"}
    wanted = decide(status={**QUEUED, "goodput": goodput}, spec=queued_spec(), queue=served(make_admitted()))
    assert wanted.status is not None
    assert wanted.status.fields["goodput"]["lostSeconds"]["queued"] == 60
