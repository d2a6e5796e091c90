"""Raw pods become views: which pod it is, its state, and what keeps it from running."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from railhead.contract.times import format_time
from railhead.controller.observe import NO_OWNER, Owner, PodRecord, observe_pod, owner_uid, record_pod
from railhead.planning.facts.pod_failure import classify_pod
from railhead.planning.pod_view import ENDED_WITHIN, PodView, Problem
from tests.unit.builders import NOW, UID
from tests.unit.controller.raws import JOB_OWNER, Object, make_container, make_pod


def observe_status(**status: Any) -> PodView:
    return observe_pod(make_pod(status=status))


def observe_end(**terminated: Any) -> PodView:
    return observe_status(phase="Failed", containerStatuses=[make_container(terminated=terminated)])


def test_labels_identify_the_pod() -> None:
    labels = {names.LABEL_ROLE: names.WORKER, names.LABEL_ATTEMPT: "2", names.LABEL_SLOT: "3", names.LABEL_ROUND: "4"}
    view = observe_pod(make_pod("w", labels=labels))
    assert (view.name, view.uid, view.node) == ("w", "uid-w", "node-1")
    assert (view.role, view.attempt, view.slot, view.round) == (names.WORKER, 2, 3, 4)


@pytest.mark.parametrize(
    ("reason", "ready", "containers", "runs", "is_silent"),
    [
        ("DeletionByTaintManager", "False", "False", True, True),
        ("DeletionByTaintManager", "True", "True", True, False),  # a taint set by hand; the kubelet works
        ("DeletionByTaintManager", "False", "False", False, False),
        ("EvictionByEvictionAPI", "False", "True", True, True),  # the machine was off before the driver had ended
        ("EvictionByEvictionAPI", "False", "False", True, False),  # a sidecar has ended; the driver may commit
        ("EvictionByEvictionAPI", "True", "True", True, False),
    ],
)
def test_a_pod_is_silent_when_its_node_does_not_respond(
    reason: str, ready: str, containers: str, runs: bool, is_silent: bool
) -> None:
    conditions = [
        {"type": "Ready", "status": ready},
        {"type": "ContainersReady", "status": containers},
        {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": ""},
    ]
    container = make_container(**({"running": {"startedAt": "x"}} if runs else {"terminated": {"exitCode": 1}}))
    raw = make_pod(status={"phase": "Running", "conditions": conditions, "containerStatuses": [container]})
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:10:15Z", "deletionGracePeriodSeconds": 615}
    view = observe_pod(raw)
    assert (view.is_silent, view.grace_seconds) == (is_silent, 615)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert view.gone_by == start + timedelta(seconds=75 if is_silent else 615) + ENDED_WITHIN


@pytest.mark.parametrize("containers", ["True", "False"])
@pytest.mark.parametrize("deleted_by", ["", "EvictionByEvictionAPI", "DeletionByTaintManager"])
@pytest.mark.parametrize(
    ("reason", "is_silent"), [("ReadinessGatesNotReady", False), ("ContainersNotReady", False), ("", True)]
)
def test_a_kubelet_that_explains_why_a_pod_is_not_ready_is_not_silent(
    reason: str, is_silent: bool, deleted_by: str, containers: str
) -> None:
    """A load balancer's readiness gate, a sidecar that is not ready, or a taint that an administrator has set."""
    conditions = [{"type": "Ready", "status": "False", "reason": reason}]
    conditions += [{"type": "ContainersReady", "status": containers}]
    if deleted_by:
        conditions += [{"type": "DisruptionTarget", "status": "True", "reason": deleted_by, "message": ""}]
    running = make_container(running={"startedAt": "x"})
    view = observe_pod(make_pod(status={"phase": "Running", "conditions": conditions, "containerStatuses": [running]}))
    is_ours = containers == "True" or deleted_by == "DeletionByTaintManager"
    assert view.is_silent == (is_silent and is_ours)


@pytest.mark.parametrize("value", ["", "-1", "x", "1.5"])
def test_labels_without_numbers_match_no_slot_and_no_attempt(value: str) -> None:
    labels = {names.LABEL_ATTEMPT: value, names.LABEL_SLOT: value, names.LABEL_ROUND: value}
    view = observe_pod(make_pod(labels=labels))
    assert (view.role, view.attempt, view.slot, view.round) == ("", 0, -1, 0)


def test_a_new_pod_is_pending_and_has_no_node() -> None:
    view = observe_pod({"metadata": {"name": "p", "uid": "u"}})
    assert view == PodView("p", "u", role="", attempt=0)
    assert view.phase == "Pending"


@pytest.mark.parametrize(
    ("phase", "containers", "is_running"),
    [
        ("Running", [make_container(running={"startedAt": "2026-01-01T12:00:00Z"})], True),
        ("Running", [make_container(name="sidecar", running={"startedAt": "x"})], False),
        ("Running", [make_container(terminated={"exitCode": 1})], False),
        ("Pending", [make_container(running={"startedAt": "x"})], False),
        ("Running", [], False),
    ],
)
def test_a_pod_runs_if_its_ray_container_runs(phase: str, containers: list[Object], is_running: bool) -> None:
    assert observe_status(phase=phase, containerStatuses=containers).is_running == is_running


def test_the_drivers_outcome_is_read_from_the_termination_message() -> None:
    text = Outcome(outcome="Application", reason="TrainingFailed", message="a rank raised").to_json()
    code = FailureClass("Application").exit_code
    view = observe_end(exitCode=code, message=text, reason="Error", finishedAt="2026-01-01T12:00:00Z")
    assert view.outcome == Outcome.from_json(text)
    assert view.exit_code == code
    assert view.reason == ""
    assert view.finished_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert view.is_over


def test_only_the_ray_containers_termination_counts() -> None:
    sidecar = make_container(name="sidecar", terminated={"exitCode": 3, "reason": "OOMKilled", "message": "m"})
    view = observe_status(phase="Running", containerStatuses=[sidecar, make_container(running={"startedAt": "x"})])
    assert (view.exit_code, view.reason, view.message) == (None, "", "")


def observe_init_end(name: str, **terminated: Any) -> PodView:
    inits = [make_container(name="first", terminated={"exitCode": 0}), make_container(name=name, terminated=terminated)]
    ray = make_container(waiting={"reason": "PodInitializing"})
    return observe_status(phase="Failed", initContainerStatuses=inits, containerStatuses=[ray])


def test_a_failed_fetch_ends_the_pod_with_the_fetchers_message() -> None:
    text = Outcome(outcome="Configuration", reason="CommitNotFound", message="no such commit").to_json()
    code = FailureClass("Configuration").exit_code
    view = observe_init_end(names.FETCH_CONTAINER, exitCode=code, message=text, finishedAt="2026-01-01T12:00:00Z")
    assert (view.outcome, view.exit_code, view.container) == (Outcome.from_json(text), code, names.FETCH_CONTAINER)
    assert view.finished_at == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_failed_init_container_of_the_user_is_reported_without_interpreting_its_code() -> None:
    view = observe_init_end("prepare", exitCode=65, message="no disk", finishedAt="2026-01-01T12:00:00Z")
    assert (view.exit_code, view.container) == (None, "prepare")
    assert view.message == "init container prepare ended with code 65: no disk"
    assert view.is_over and view.finished_at is not None


def test_a_killed_init_container_of_a_running_pod_does_not_end_it() -> None:
    inits = [make_container(name="side", terminated={"exitCode": 1})]
    ray = make_container(running={"startedAt": "x"})
    view = observe_status(phase="Running", initContainerStatuses=inits, containerStatuses=[ray])
    assert (view.exit_code, view.message, view.container) == (None, "", names.CONTAINER)


def test_exit_code_zero_is_kept() -> None:
    assert observe_end(exitCode=0, reason="Completed").exit_code == 0


def test_a_pod_killed_for_its_memory_has_that_reason() -> None:
    view = observe_end(exitCode=137, reason="OOMKilled")
    assert (view.exit_code, view.reason) == (137, "OOMKilled")


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for another"}
PREEMPTED = Problem("PreemptionByScheduler", "for another")


@pytest.mark.parametrize(
    ("status", "reason", "disruption"),
    [
        ({"conditions": [DISRUPTED]}, "", PREEMPTED),
        ({"conditions": [DISRUPTED], "reason": "Terminated"}, "Terminated", PREEMPTED),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, "", Problem("", "")),
        ({"conditions": [{**DISRUPTED, "status": "False"}], "reason": "Evicted"}, "Evicted", None),
        ({"reason": "NodeLost"}, "NodeLost", None),
        ({}, "", None),
    ],
)
def test_a_disruption_by_the_cluster_takes_precedence_over_the_failure(
    status: Object, reason: str, disruption: Problem | None
) -> None:
    ended = [make_container(terminated={"exitCode": 143, "reason": "Error"})]
    view = observe_status(phase="Failed", containerStatuses=ended, **status)
    assert (view.reason, view.disruption) == (reason, disruption)


def test_an_evicted_pod_is_reported_with_its_own_message() -> None:
    view = observe_status(phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
    assert (view.reason, view.message) == ("Evicted", "The node was low on resource: memory.")


def test_a_pod_with_a_deletion_timestamp_is_deleting_and_not_live() -> None:
    view = observe_pod(make_pod(deletionTimestamp="2026-01-01T12:00:00Z", status={"phase": "Running"}))
    assert view.is_deleting
    assert not view.is_live
    assert view.deletion_timestamp == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("end", "of_pod", "reason"),
    [
        ({"exitCode": 255, "reason": "Unknown"}, "", "ContainerStatusUnknown"),
        ({"exitCode": 137, "reason": "ContainerStatusUnknown"}, "", "ContainerStatusUnknown"),
        ({"exitCode": 137, "reason": "ContainerStatusUnknown"}, "NodeShutdown", "NodeShutdown"),
        ({"exitCode": 137, "reason": "Error"}, "", ""),  # anything may have killed it
        ({"exitCode": 255, "reason": "Error"}, "", ""),
    ],
)
def test_a_container_whose_end_nobody_saw_has_one_reason(end: Object, of_pod: str, reason: str) -> None:
    """Of another runtime's words; and the time of the kubelet's report if there is no other."""
    at = "2026-01-01T12:00:00Z"
    ready = [{"type": "ContainersReady", "status": "False", "lastTransitionTime": at}]
    status = {"phase": "Failed", "reason": of_pod, "conditions": ready}
    view = observe_pod(make_pod(status={**status, "containerStatuses": [make_container(terminated=end)]}))
    assert view.reason == reason
    assert view.finished_at == (NOW if end["reason"] != "Error" else None)
    init = observe_pod(make_pod(status={**status, "initContainerStatuses": [make_container(name="x", terminated=end)]}))
    assert init.reason == reason


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"exitCode": 255, "seconds": 60}, "ContainerStatusUnknown"),
        ({"exitCode": 255, "seconds": 86_400}, "ContainerStatusUnknown"),
        ({"exitCode": 255, "seconds": 59}, ""),  # a program that exits so at each start
        ({"exitCode": 255, "seconds": 3600, "message": "exit(-1)"}, ""),
        ({"exitCode": 1, "seconds": 3600}, ""),
        ({"exitCode": 137, "seconds": 3600}, ""),
    ],
)
def test_code_255_of_a_container_that_ran_for_long_is_an_end_that_nobody_saw(end: Object, reason: str) -> None:
    ended = {"reason": "Error", **end}
    finished = NOW + timedelta(seconds=ended.pop("seconds"))
    ended.update(startedAt=format_time(NOW), finishedAt=format_time(finished))
    view = observe_pod(make_pod(status={"phase": "Failed", "containerStatuses": [make_container(terminated=ended)]}))
    assert (view.reason, view.finished_at) == (reason, finished)


@pytest.mark.parametrize(
    ("containers", "has_begun"),
    [
        ({"containerStatuses": [make_container(waiting={"reason": "ContainerCreating"})]}, False),
        ({"containerStatuses": [make_container(running={"startedAt": "x"})]}, True),
        ({"containerStatuses": [make_container(terminated={"exitCode": 1})]}, True),
        ({"containerStatuses": [make_container(name="log-agent", running={"startedAt": "x"})]}, False),
        ({"initContainerStatuses": [make_container(name="copy", running={"startedAt": "x"})]}, True),
        ({"initContainerStatuses": [make_container(name="copy", terminated={"exitCode": 0})]}, False),
        ({"initContainerStatuses": [make_container(name="proxy", running={"startedAt": "x"})]}, False),
    ],
)
def test_a_pod_has_begun_when_something_of_its_own_runs(containers: Object, has_begun: bool) -> None:
    raw = make_pod(status={"phase": "Pending", **containers})
    raw["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "copy"}]
    assert observe_pod(raw).has_begun == has_begun


@pytest.mark.parametrize("text", [None, "", "yesterday", 7])
def test_a_termination_without_a_time_has_none(text: Any) -> None:
    assert observe_end(exitCode=1, finishedAt=text).finished_at is None


def test_an_unschedulable_pod_has_the_schedulers_message() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}
    assert observe_status(conditions=[scheduled]).scheduled_at == NOW
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    assert observe_status(conditions=[unscheduled]).problem == Problem("Unschedulable", "0/3 nodes")
    gating = {**unscheduled, "reason": "SchedulingGated", "message": "Scheduling is blocked"}
    # Its last gate is gone, and the scheduler has not looked at it since.
    assert observe_status(conditions=[gating]).problem is None
    named = {"spec": {"schedulingGates": [{"name": "example.com/hold"}, 3]}, "status": {"conditions": [gating]}}
    found = observe_pod(named).problem
    assert found is not None and found.reason == "SchedulingGated" and "example.com/hold" in found.message
    assert observe_status(conditions=[{**unscheduled, "status": "True"}]).problem is None


@pytest.mark.parametrize(
    ("labels", "where"),
    [({"kueue.x-k8s.io/queue-name": "default"}, "LocalQueue default"), ({}, "no LocalQueue"), (7, "no LocalQueue")],
)
def test_a_pod_that_kueues_integration_for_pods_holds_says_so(labels: object, where: str) -> None:
    """pkg/controller/jobs/pod/pod_webhook.go adds the label and the gates, also the one of the job's own topology."""
    gates = [{"name": "kueue.x-k8s.io/topology"}, {"name": "kueue.x-k8s.io/admission"}]
    gating = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod = {"metadata": {"labels": labels}, "spec": {"schedulingGates": gates}, "status": {"conditions": [gating]}}
    found = observe_pod(pod).problem
    assert found is not None and found.reason == "HeldByKueue" and where in found.message


@pytest.mark.parametrize(
    ("metadata", "finalizer"),
    [
        ({"finalizers": ["example.com/a", "b"], "deletionTimestamp": "2026-01-01T12:00:00Z"}, "example.com/a"),
        ({"finalizers": ["example.com/a"]}, ""),
        ({"finalizers": [7], "deletionTimestamp": "2026-01-01T12:00:00Z"}, "7"),
        ({"finalizers": "x", "deletionTimestamp": "2026-01-01T12:00:00Z"}, ""),
        ({"deletionTimestamp": "2026-01-01T12:00:00Z"}, ""),
    ],
)
def test_a_pod_that_is_deleted_has_the_finalizer_that_keeps_it(metadata: Any, finalizer: str) -> None:
    assert observe_pod({"metadata": metadata}).finalizer == finalizer


def test_a_pod_that_kueue_has_ended_says_so() -> None:
    """It was still pending, so no kubelet has anything to say; the pod is no evidence against a node."""
    condition = {"type": "TerminatedByKueue", "status": "True", "reason": "UnschedulableOnAssignedNode"}
    pod = observe_status(phase="Failed", conditions=[{**condition, "message": "due to node taint"}])
    assert (pod.reason, pod.message, pod.is_refused) == ("UnschedulableOnAssignedNode", "due to node taint", False)
    assert classify_pod(pod).class_ is FailureClass.INFRASTRUCTURE


@pytest.mark.parametrize("statuses", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"]
)
def test_a_container_that_cannot_start_is_named_with_its_reason(statuses: str, reason: str) -> None:
    waiting = make_container(name="c", waiting={"reason": reason, "message": "no such thing"})
    assert observe_status(**{statuses: [waiting]}).problem == Problem(reason, "container c: no such thing")
    no_message = make_container(name="c", waiting={"reason": reason})
    assert observe_status(**{statuses: [no_message]}).problem == Problem(reason, f"container c: {reason}")


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", None])
def test_a_container_that_is_still_starting_is_no_problem(reason: str | None) -> None:
    assert observe_status(containerStatuses=[make_container(waiting={"reason": reason})]).problem is None


@pytest.mark.parametrize(
    ("owners", "uid"),
    [
        ([JOB_OWNER], UID),
        ([{"kind": "Node", "uid": "n", "controller": False}, JOB_OWNER], UID),
        ([{**JOB_OWNER, "controller": False}], ""),
        ([{**JOB_OWNER, "kind": "ReplicaSet"}], ""),
        ([{**JOB_OWNER, "apiVersion": f"{names.GROUP}/v2"}], UID),
        ([{**JOB_OWNER, "apiVersion": "trainer.kubeflow.org/v1alpha1"}], ""),
        ([], ""),
        (None, ""),
    ],
)
def test_the_owner_is_the_trainjob_that_controls_the_pod(owners: Any, uid: str) -> None:
    assert owner_uid(make_pod(ownerReferences=owners)) == uid


def test_a_record_is_the_pods_owner_and_view() -> None:
    pod = make_pod(status={"phase": "Running", "containerStatuses": [make_container(running={"startedAt": "x"})]})
    assert record_pod(pod) == PodRecord(Owner("default", UID), observe_pod(pod))


def maybe(**parts: Any) -> Any:
    """An object with some of these fields, some of them null."""
    return st.fixed_dictionaries({}, optional={key: st.none() | part for key, part in parts.items()})


TEXT = st.text(max_size=5)
STATE = maybe(running=maybe(startedAt=TEXT), waiting=maybe(reason=TEXT), terminated=maybe(exitCode=st.integers()))
CONTAINERS = st.lists(maybe(name=st.just(names.CONTAINER), state=STATE), max_size=2)
POD = maybe(
    metadata=maybe(name=TEXT, labels=maybe(), ownerReferences=st.lists(maybe(kind=TEXT), max_size=2)),
    spec=maybe(nodeName=TEXT),
    status=maybe(phase=TEXT, conditions=st.lists(maybe(type=TEXT), max_size=2), containerStatuses=CONTAINERS),
)


@given(POD)
def test_a_pod_with_missing_fields_still_gives_a_view(pod: Object) -> None:
    assert record_pod(pod) == PodRecord(NO_OWNER, observe_pod(pod))


@pytest.mark.parametrize(
    ("ready", "containers", "is_silent"),
    [("False", "True", True), ("False", "False", False), ("True", "True", False)],
)
def test_a_pod_is_silent_before_anything_deletes_it(ready: str, containers: str, is_silent: bool) -> None:
    conditions = [{"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": containers}]
    running = make_container(running={"startedAt": "x"})
    view = observe_pod(make_pod(status={"phase": "Running", "conditions": conditions, "containerStatuses": [running]}))
    assert (view.is_silent, view.gone_by) == (is_silent, None)


def test_only_the_cpu_limit_of_our_own_container_is_kept() -> None:
    proxy = {"name": "proxy", "resources": {"limits": {"cpu": "1"}}}
    for limits, kept in (({"cpu": "2"}, "2"), ({"memory": "1Gi"}, ""), (None, "")):
        raw = make_pod()
        raw["spec"] = {"containers": [proxy, {"name": names.CONTAINER, "resources": {"limits": limits}}]}
        assert observe_pod(raw).cpu_limit == kept


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"name": "w", "labels": {names.LABEL_ATTEMPT: "²", names.LABEL_SLOT: "9" * 5000}}},
        {"metadata": {"deletionTimestamp": "9999-12-31T23:59:59Z", "deletionGracePeriodSeconds": 2**63 - 1}},
        {"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z", "deletionGracePeriodSeconds": -(2**63)}},
        {"metadata": [], "spec": [], "status": "Running"},
        {"status": {"containerStatuses": {}, "conditions": [None, "Ready"], "initContainerStatuses": [[]]}},
        {"status": {"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": ["CrashLoopBackOff"]}}}]}},
    ],
)
def test_an_odd_pod_gives_a_view_whose_times_can_be_computed(odd: Object) -> None:
    """An error would end the watch of all pods; whoever deletes a pod may write any grace period."""
    view = observe_pod(odd)
    assert (view.attempt, view.slot) == (0, -1)
    assert [view.gone_by, view.out_of_reach_at, view.stuck_at, view.may_still_end(NOW)] == [None, None, None, False]


@pytest.mark.parametrize("grace", [2**63 - 1, -1])
def test_a_silent_pod_with_any_grace_period_is_out_of_reach_some_day(grace: int) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    running = make_container(running={"startedAt": "x"})
    status = {"conditions": [condition, {"type": "Ready", "status": "False"}], "containerStatuses": [running]}
    deleted: Object = {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": grace}
    view = observe_pod(make_pod(status=status, **deleted))
    assert view.is_silent and view.out_of_reach_at is not None


@pytest.mark.parametrize(
    ("text", "node", "expected"),
    [
        ("a,b", None, ("a", "b")),
        ("a,b", "node-1", ()),  # of no interest any more
        ("", None, ()),
        (None, None, ()),
        (["a"], None, ("['a']",)),
        (",".join(map(str, range(20))), None, tuple(map(str, range(16)))),
        ("a" * 1000, None, ("a" * 253,)),
    ],
)
def test_what_an_unscheduled_pod_avoids_is_bounded(text: Any, node: str | None, expected: tuple[str, ...]) -> None:
    pod = make_pod(annotations={names.AVOIDED_NODES: text})
    pod["spec"] = {"nodeName": node}
    assert observe_pod(pod).avoids == expected


@pytest.mark.parametrize("state", [{"running": {"startedAt": "2026-01-01T00:00:01Z"}}, {"waiting": {"reason": "x"}}])
def test_the_first_end_of_a_container_that_a_policy_had_restarted_is_the_pods_end(state: Object) -> None:
    ended = {"exitCode": 64, "message": "raised", "finishedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "ray", "restartCount": 1, "state": state, "lastState": {"terminated": ended}}
    view = observe_status(phase="Running", containerStatuses=[container])
    assert (view.exit_code, view.message, view.is_running) == (64, "raised", False)


@pytest.mark.parametrize("word", [{}, [], 7, {"a": []}], ids=repr)
def test_names_and_reasons_that_are_no_texts_end_no_watch(word: object) -> None:
    ended = {"exitCode": 255, "reason": word, "message": word}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": word, "message": word}]
    of_container = {"name": word, "state": {"terminated": ended}}
    for phase in ("Pending", "Running", "Failed"):
        status = {
            **{"phase": phase, "reason": word, "message": word, "conditions": conditions},
            "containerStatuses": [make_container(terminated=ended)],
            "initContainerStatuses": [of_container],
        }
        pod = make_pod("digits-000064-1-head", status=status)
        pod["spec"] = {**pod.get("spec", {}), "initContainers": [{"name": word, "restartPolicy": "Always"}]}
        assert isinstance(observe_pod(pod).reason, str)
        del status["containerStatuses"]
        assert isinstance(observe_pod(pod).reason, str)
