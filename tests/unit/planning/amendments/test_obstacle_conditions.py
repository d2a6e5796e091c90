"""Foreign pods that carry the job's label, deletes that the API server denies, CPU limits that admission adds and pods
that do not terminate: the status shows them, and none holds up anything else.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.api import names
from railhead.api.parsed_spec import InvalidSpec
from railhead.contract.times import format_time
from railhead.planning.observed import Denial
from railhead.planning.plan import Plan
from railhead.planning.planner import plan
from railhead.planning.pod_view import PodView
from railhead.planning.queue_view import QueueState
from tests.model.api_server import Object
from tests.model.operator import PODS
from tests.slow_cases import slow_after
from tests.unit.builders import NOW, RUNNING_STATUS, make_attempt, make_head, make_observed, make_spec, make_worker
from tests.unit.kueue import ADMISSION, make_admitted, queued_spec, served
from tests.unit.planning.simulation import JOB, KEY, Simulation
from tests.unit.planning.state import decide

DENIAL = 'admission webhook "guard.example" denied the request: pods are protected'
RAY_LIMIT = {"spec": {"containers": [{"name": names.CONTAINER, "resources": {"limits": {"cpu": "8"}}}]}}
SIDECAR = {"name": "proxy", "image": "proxy:1", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
REASON = "PodStuckTerminating"
SINCE = NOW - timedelta(seconds=300)
LIMIT = 32


def condition(sim: Simulation, type_: str) -> str:
    """Its message, or an empty string."""
    return next((each["message"] for each in sim.status["conditions"] if each["type"] == type_), "")


def copy_pod(sim: Simulation, name: str, to: str, *, keeps_owner: bool) -> None:
    """`kubectl get pod -o yaml | sed | kubectl apply`, or `kubectl debug --copy-to --keep-labels` without the owner."""
    body = copy.deepcopy(sim.bodies[name])
    metadata = {"name": to, "namespace": KEY.namespace, "labels": body["metadata"]["labels"]}
    if keeps_owner:
        metadata["ownerReferences"] = body["metadata"]["ownerReferences"]
    sim.api.create((PODS, KEY.namespace, to), {"metadata": metadata, "spec": body["spec"]})


def deny(*wanted: str, kind: str = "Pod") -> Callable[[Object], str]:
    return lambda obj: DENIAL if obj["kind"] == kind and (obj["metadata"]["name"] in wanted or not wanted) else ""


@pytest.mark.parametrize("keeps_owner", [False, True])
def test_a_copied_pod_stops_neither_a_restart_nor_a_worker(keeps_owner: bool) -> None:
    sim = Simulation()
    sim.run_until_training()
    workers = {name: pod.uid for name, pod in sim.pods.items() if pod.role == names.WORKER}
    original = min(workers)
    copy_pod(sim, original, "copy", keeps_owner=keeps_owner)
    sim.start_pod("copy")
    sim.settle()
    assert {name: sim.pods[name].uid for name in workers} == workers
    assert "copy" in condition(sim, "ForeignPods") and sim.events.count("ForeignPods") == 1
    sim.end_head("Infrastructure")
    sim.lose(original)
    sim.settle()
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2 and "copy" in sim.pods
    sim.lose("copy")
    sim.settle()
    assert condition(sim, "ForeignPods") == ""


LABELS = st.fixed_dictionaries(
    {
        names.LABEL_ROLE: st.sampled_from([names.HEAD, names.WORKER, "other"]),
        names.LABEL_ATTEMPT: st.sampled_from(["0", "1", "2", "99"]),
        names.LABEL_SLOT: st.sampled_from(["0", "1", "7", "x"]),
        names.LABEL_ROUND: st.sampled_from(["0", "1", "99"]),
    }
)


@settings(max_examples=40)
@given(labels=LABELS, is_owned=st.booleans(), is_running=st.booleans())
def test_no_foreign_pod_costs_the_job_a_pod_or_an_attempt(
    labels: dict[str, str], is_owned: bool, is_running: bool
) -> None:
    sim = Simulation()
    sim.run_until_training()
    own, uid = {name: pod.uid for name, pod in sim.pods.items()}, sim.api.objects[JOB]["metadata"]["uid"]
    owner = sim.bodies[next(iter(own))]["metadata"]["ownerReferences"]
    metadata: Object = {"name": "stray", "namespace": KEY.namespace, "labels": {**labels, names.LABEL_JOB_UID: uid}}
    metadata |= {"ownerReferences": owner} if is_owned else {}
    sim.api.create((PODS, KEY.namespace, "stray"), {"metadata": metadata, "spec": {"containers": []}})
    if is_running:
        sim.start_pod("stray")
    sim.settle()
    assert own.items() <= {name: pod.uid for name, pod in sim.pods.items()}.items()
    assert (sim.status["phase"], sim.status["attempt"], sim.status["round"]) == ("Running", 1, 0)
    sim.end_head("Infrastructure")
    sim.settle()
    sim.later(60)
    sim.settle()
    assert sim.status["attempt"] == 2


def test_a_job_waits_until_the_foreign_pod_with_its_heads_name_is_gone() -> None:
    sim = Simulation()
    uid = sim.api.objects[JOB]["metadata"]["uid"]
    head = names.head_name(KEY.name, uid, 1)
    metadata = {"name": head, "namespace": KEY.namespace, "labels": {names.LABEL_JOB_UID: uid}}
    sim.api.create((PODS, KEY.namespace, head), {"metadata": metadata, "spec": {"containers": []}})
    for _ in range(8):
        sim.reconcile()
        sim.later(5)
    assert head in condition(sim, "ForeignPods") and not sim.bodies[head]["metadata"].get("ownerReferences")
    sim.reconcile()
    sim.lose(head)
    sim.reconcile()  # without any backoff
    assert sim.bodies[head]["metadata"]["ownerReferences"][0]["uid"] == uid


def test_one_denied_delete_keeps_no_other_pod_of_a_finished_job() -> None:
    sim = Simulation(scaling={"numWorkers": 63})
    sim.run_until_training()
    protected = next(name for name, pod in sim.pods.items() if pod.role == names.WORKER)
    sim.api.deletion = deny(protected)
    sim.end_head("Succeeded")
    sim.reconcile()
    sim.reconcile()
    assert [name for name, pod in sim.pods.items() if pod.role == names.WORKER] == [protected]
    sim.reconcile()
    assert protected in condition(sim, "DeleteDenied") and DENIAL in condition(sim, "DeleteDenied")
    assert sim.events.count("DeleteDenied") == 1


def test_a_denied_delete_is_tried_again_every_15_seconds_and_shown_until_it_succeeds() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.api.deletion = deny()
    sim.end_head("Succeeded")
    tried = []
    for second in range(120):
        before = len(sim.operator.client.names("delete", PODS))
        sim.reconcile()
        tried += [second] if len(sim.operator.client.names("delete", PODS)) > before else []
        sim.later(1)
    assert max(b - a for a, b in pairwise(tried)) <= 15 and len(tried) <= 13
    assert sim.events.count("DeleteDenied") == 1
    sim.api.deletion = lambda obj: ""
    sim.later(15)
    sim.settle()
    assert condition(sim, "DeleteDenied") == "" and len(sim.pods) == 1


def test_a_denied_delete_of_an_ended_pod_delays_no_attempt() -> None:
    sim = Simulation()
    sim.run_until_training()
    ended = sim.head.name
    sim.api.deletion = deny(ended)
    sim.end_head("Infrastructure")
    sim.settle()
    sim.later(60)
    for _ in range(6):
        sim.reconcile()
        sim.later(1)
    assert sim.status["attempt"] == 2 and len(sim.pods) == 4 and ended in sim.pods


def test_what_a_clean_up_may_not_remove_is_removed_later() -> None:
    sim = Simulation(keepPodsSeconds=10)
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    sim.api.deletion = deny(kind="ConfigMap")
    sim.later(11)
    for _ in range(30):
        sim.reconcile()
        sim.later(1)
    assert "cleanUpTime" not in sim.status and "ConfigMap" in condition(sim, "DeleteDenied")
    sim.api.deletion = lambda obj: ""
    sim.later(15)
    sim.settle()
    assert sim.status["cleanUpTime"] and condition(sim, "DeleteDenied") == ""


def test_a_job_whose_deletion_is_denied_says_so() -> None:
    sim = Simulation(ttlSecondsAfterFinished=10)
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    sim.api.deletion = deny(kind="TrainJob")
    sim.later(11)
    for _ in range(40):
        sim.reconcile()
        sim.later(1)
    assert f"TrainJob {KEY.name}" in condition(sim, "DeleteDenied")
    assert len(sim.operator.client.names("delete", "trainjobs")) <= 8
    sim.api.deletion = lambda obj: ""
    sim.later(15)
    sim.reconcile()
    assert JOB not in sim.api.objects


def find_condition(sim: Simulation) -> str:
    """Its message, or an empty string."""
    found = [each for each in sim.status["conditions"] if each["type"] == "CPULimited"]
    assert all((each["status"], each["reason"]) == ("True", "CPULimitAdded") for each in found)
    return str(found[0]["message"]) if found else ""


def fill_in(plural: str, body: Object) -> Object:
    """As a LimitRange with `default: {cpu: 4}`."""
    if plural != PODS:
        return body
    return add(body, lambda container: container["resources"]["limits"].setdefault("cpu", "4"))


def add_others(plural: str, body: Object) -> Object:
    """As a webhook that adds a sidecar and a limit for ephemeral storage."""
    if plural != PODS:
        return body
    body = add(body, lambda container: container["resources"]["limits"].update({"ephemeral-storage": "1Gi"}))
    body["spec"]["containers"].append(SIDECAR)
    return body


def add(body: Object, change: Callable[[Object], object]) -> Object:
    body = copy.deepcopy(body)
    change(body["spec"]["containers"][0])
    return body


def test_a_limit_that_the_job_did_not_ask_for_is_shown_once_until_the_pods_are_gone() -> None:
    sim = Simulation(podTemplate={"spec": {"containers": [SIDECAR]}})
    sim.api.mutation = fill_in
    sim.run_until_training()
    message = find_condition(sim)
    assert "(4 on container ray of head pods, 4 on container ray of worker pods)" in message
    assert "LimitRange in namespace default" in message and "podTemplate" in message
    sim.lose(next(name for name, pod in sim.pods.items() if pod.role == names.WORKER))
    sim.run_until_training()
    assert sim.status["round"] == 1 and find_condition(sim) == message
    assert sim.events.count("CPULimitAdded") == 1
    sim.restart()
    sim.settle()
    assert find_condition(sim) == message and sim.events.count("CPULimitAdded") == 1
    sim.api.mutation = lambda plural, body: body
    sim.end_head("Infrastructure")
    sim.settle()
    sim.later(60)
    sim.run_until_training()
    assert sim.status["attempt"] == 2 and find_condition(sim) == ""


@pytest.mark.parametrize(
    ("mutation", "spec"),
    [
        pytest.param(add_others, {}, id="other containers and resources"),
        pytest.param(fill_in, {"podTemplate": RAY_LIMIT}, id="a limit of the job's own"),
    ],
)
def test_what_does_not_throttle_ray_or_was_asked_for_is_not_shown(
    mutation: Callable[[str, Object], Object], spec: dict[str, Any]
) -> None:
    sim = Simulation(**spec)
    sim.api.mutation = mutation
    sim.run_until_training()
    assert find_condition(sim) == "" and "CPULimitAdded" not in sim.events


def test_a_limit_that_the_template_of_one_role_sets_hides_no_limit_of_the_other() -> None:
    sim = Simulation(head={"podTemplate": RAY_LIMIT})
    sim.api.mutation = fill_in
    sim.run_until_training()
    assert "(4 on container ray of worker pods)" in find_condition(sim)


def make_stuck(slot: int, since: datetime = SINCE, **changes: Any) -> PodView:
    """A worker pod of the first attempt."""
    return make_worker(slot, is_deleting=True, deletion_timestamp=since, **changes)


def describe(pod: PodView) -> dict[str, Any]:
    assert pod.deletion_timestamp is not None
    return {"name": pod.name, "node": pod.node, "since": format_time(pod.deletion_timestamp)}


def decide_beside(*stuck: PodView, listed: list[dict[str, Any]] | None = None) -> Plan:
    """For a job that trains despite them."""
    live = (make_head(), make_worker(0, round_=1), make_worker(1, round_=1))
    status = {**RUNNING_STATUS, "round": 1, "attempts": [make_attempt(rounds=1)], "stuckPods": listed}
    return decide(*live, *stuck, status=status)


def events_of(wanted: Plan) -> list[str]:
    return [event.message for event in wanted.events if event.reason == REASON]


def test_a_pod_is_listed_five_minutes_after_its_grace_period_until_it_is_gone() -> None:
    sim = Simulation()
    sim.run_until_training()
    sim.report(checkpoint=0)
    head = sim.head.name
    due = sim.evict(head, gone_in=65) - timedelta(seconds=5) + timedelta(seconds=300)
    sim.later(100)
    sim.settle()
    sim.run_until_training()
    assert sim.status["attempt"] == 2 and sim.last.wake_at == due
    sim.now = due - timedelta(seconds=1)
    sim.settle()
    assert "stuckPods" not in sim.status
    sim.now = due
    writes = sim.count_status_writes()
    sim.settle()
    since = sim.bodies[head]["metadata"]["deletionTimestamp"]
    assert sim.status["stuckPods"] == [{"name": head, "node": "node-1", "since": since}]
    sim.later(3600)
    sim.settle()
    assert sim.count_status_writes() == writes + 1 and sim.events.count(REASON) == 1
    sim.lose(head)
    sim.settle()
    assert "stuckPods" not in sim.status
    assert sim.status["phase"] == "Running" and sim.events.count(REASON) == 1


def test_the_event_names_pod_node_and_time_and_what_to_do() -> None:
    pod = make_stuck(0)
    [message] = events_of(decide_beside(pod))
    assert f"{pod.name} on node node-1 since 2026-01-01T11:55:00Z" in message
    assert "delete its Node object" in message
    assert "node.kubernetes.io/out-of-service" in message
    assert "kubectl delete pod NAME --force" in message


@pytest.mark.parametrize("changes", [{"node": "", "phase": "Pending"}, {"phase": "Failed"}], ids=str)
def test_a_pod_that_only_a_finalizer_keeps_uses_nothing_and_the_event_names_it(changes: dict[str, Any]) -> None:
    """Kueue's, for example, on a pod that it has gated: while Kueue is away, nobody removes it."""
    pod = make_stuck(0, finalizer="kueue.x-k8s.io/managed", is_running=False, **changes)
    [message] = events_of(decide_beside(pod))
    assert "finalizer (kueue.x-k8s.io/managed)" in message and pod.name in message
    assert "GPUs" not in message and "Node object" not in message
    runs = make_stuck(1, finalizer="kueue.x-k8s.io/managed")
    assert "may still use their GPUs" in events_of(decide_beside(pod, runs))[0]


def test_pods_of_suspended_and_finished_jobs_are_listed_too() -> None:
    sim = Simulation()
    sim.run_until_training()
    worker = next(name for name, pod in sim.pods.items() if pod.slot == 1)
    sim.evict(worker, gone_in=35)
    sim.settle()
    sim.run_until_training()
    sim.later(100)
    sim.apply(suspend=True)
    sim.settle()
    assert sim.status["phase"] == "Suspended" and sim.last.wake_at is not None
    sim.now = sim.last.wake_at
    sim.settle()
    assert [pod["name"] for pod in sim.status["stuckPods"]] == [worker]
    sim.apply()
    sim.settle()
    sim.run_until_training()
    sim.end_head("Succeeded")
    sim.settle()
    assert sim.status["phase"] == "Succeeded" and "stuckPods" in sim.status
    sim.lose(worker)
    sim.settle()
    assert "stuckPods" not in sim.status


def test_pods_due_at_the_same_time_cost_one_write_and_one_event() -> None:
    pods = [make_stuck(slot) for slot in range(512)]
    wanted = decide_beside(*pods)
    assert wanted.status is not None
    first = sorted(pods, key=lambda pod: pod.name)[:LIMIT]
    assert wanted.status.fields == {"stuckPods": [describe(pod) for pod in first]}
    [message] = events_of(wanted)
    assert message.startswith("512 pods ") and len(message) < 1024
    assert decide_beside(*pods, listed=wanted.status.fields["stuckPods"]).status is None


@pytest.mark.parametrize("number", slow_after(1, [160, 512]))
@pytest.mark.parametrize("order", ["as listed", "random"])
def test_many_pods_disappearing_one_by_one_cost_few_writes_and_no_event(order: str, number: int) -> None:
    pods = sorted((make_stuck(slot) for slot in range(number)), key=lambda pod: pod.name)
    if order == "random":
        random.Random(1).shuffle(pods)
    writes, listed = -1, None
    while True:
        wanted = decide_beside(*pods, listed=listed)
        if wanted.status is not None:
            writes, listed = writes + 1, wanted.status.fields["stuckPods"]
            assert writes == 0 or not events_of(wanted)
        if len(pods) < LIMIT:
            assert {pod["name"] for pod in listed or []} == {pod.name for pod in pods}, "a list with room is exact"
        if not pods:
            break
        pods.pop(0)
    assert writes <= 2 * number / LIMIT + LIMIT


def test_a_pod_due_later_gets_its_own_event() -> None:
    first, second = make_stuck(0, SINCE - timedelta(seconds=1)), make_stuck(1)
    assert decide_beside(first, make_stuck(1, SINCE + timedelta(seconds=1))).wake_at == NOW + timedelta(seconds=1)
    wanted = decide_beside(second, first, listed=[describe(first)])
    assert wanted.status is not None
    assert wanted.status.fields == {"stuckPods": [describe(first), describe(second)]}
    [message] = events_of(wanted)
    assert second.name in message and first.name not in message


def test_it_joins_the_write_of_a_decision() -> None:
    wanted = decide(make_worker(0), make_stuck(1, round_=1), status=RUNNING_STATUS)
    assert wanted.status is not None
    assert {"failure", "stuckPods"} <= wanted.status.fields.keys()
    assert {event.reason for event in wanted.events} == {"Restarting", REASON}


def test_a_guard_that_becomes_the_write_still_guards() -> None:
    status = {**RUNNING_STATUS, "phase": "Pending", "attempt": 2, "head": {}, "workers": {}, "progress": {}}
    status["attempts"] = [make_attempt(number=2, runningTime=None)]
    wanted = decide(make_head(2), make_stuck(0), status=status)
    assert len([create for create in wanted.creates if create.kind == "Pod"]) == 2
    assert wanted.status is not None and wanted.status.fields.keys() == {"stuckPods"}
    assert wanted.status.tests["/status/attempt"] == 2


def test_the_status_is_not_written_before_the_job_is_deleted() -> None:
    complete = {**RUNNING_STATUS["conditions"][0], "type": "Complete"}
    status = {**RUNNING_STATUS, "phase": "Succeeded", "conditions": [complete]}
    spec = make_spec(ttlSecondsAfterFinished=0)
    wanted = decide(make_stuck(0), status=status, spec=spec)
    assert wanted.delete_job is not None and wanted.status is None


def test_pods_of_a_job_with_an_invalid_spec_are_listed_too() -> None:
    observed = make_observed(make_stuck(0), status=RUNNING_STATUS)
    wanted = plan(replace(observed, spec=InvalidSpec("spec.image", "missing")))
    assert wanted.status is not None and wanted.status.fields["stuckPods"] == [describe(make_stuck(0))]


WORKLOAD_DENIAL = Denial("Workload", "digits-0f1e2d", "webhook says no", tries=3, at=NOW, verb="change")
ADMITTED_STATUS = {**RUNNING_STATUS, "admission": ADMISSION}


def show(*denials: Denial, status: dict[str, Any], state: QueueState = "served") -> tuple[str, str, Plan]:
    """The reason and the message of QueueUnreachable, empty without the condition, and the plan."""
    pods = (make_head(), make_worker(0), make_worker(1))
    queue = replace(served(make_admitted()), state=state)
    wanted = decide(*pods, status=status, spec=queued_spec(), queue=queue, denials=denials)
    fields = wanted.status.fields if wanted.status else {}
    for each in fields.get("conditions", ()):
        if each["type"] == "QueueUnreachable":
            return each["reason"], each["message"], wanted
    return "", "", wanted


def test_a_denied_change_of_the_workload_is_shown_and_tried_again_later() -> None:
    reason, message, wanted = show(WORKLOAD_DENIAL, status=ADMITTED_STATUS)
    assert reason == "ChangeDenied" and "to change Workload digits-0f1e2d" in message and "webhook says no" in message
    assert wanted.workload is None and wanted.wake_at == NOW + timedelta(seconds=4)
    late = replace(WORKLOAD_DENIAL, at=NOW - timedelta(seconds=20))
    assert show(late, status=ADMITTED_STATUS)[2].workload is not None
    assert show(status=ADMITTED_STATUS)[0] == ""


@pytest.mark.parametrize("state", ["off", "missing"])
def test_a_running_job_says_that_its_queue_cannot_reach_it(state: QueueState) -> None:
    reason, message, _ = show(status=ADMITTED_STATUS, state=state)
    assert reason == "QueueLost" and "team-a" in message
    assert show(status=ADMITTED_STATUS, state="unknown")[0] == "", "the API server has not answered yet"
    assert show(status=RUNNING_STATUS, state=state)[0] == "", "a job without a queue"
