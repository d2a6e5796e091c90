"""Pods that carry the job's label and are not its own, and deletes that the API server denies: both are shown, and
neither holds up anything else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.api import names
from tests.model.api_server import Object
from tests.model.operator import PODS
from tests.unit.planning.simulation import JOB, KEY, Simulation

DENIAL = 'admission webhook "guard.example" denied the request: pods are protected'


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
