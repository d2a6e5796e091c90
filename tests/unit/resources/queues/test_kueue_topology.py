"""What a job asks of Kueue's Topology Aware Scheduling, and how its pods wait for their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.api.queue import AdmissionStatus, PodSetAdmission
from railhead.planning.facts.admission import build_request
from railhead.planning.queue_view import QueueView
from railhead.resources.base import JobRef
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.queues.kueue import build_workload
from tests.unit.builders import MOUNTS, UID, make_job
from tests.unit.kueue import queued_spec

JOB = JobRef("default", "digits", UID)


def build(**spec: Any) -> dict[str, Any]:
    return build_workload(JOB, build_request(make_job(spec=queued_spec(**spec), queue=QueueView("served"))))


RACK = "example.com/rack"
PLACED = "kueue.x-k8s.io/podset-{}-topology"


def find_requests(**templates: dict[str, str]) -> list[Any]:
    """The topology requests of head and workers, by the annotations of podTemplate, head and worker."""
    spec: dict[str, Any] = {}
    for key, given in templates.items():
        made = {"metadata": {"annotations": given}}
        spec[key] = made if key == "podTemplate" else {"podTemplate": made}
    return [each.get("topologyRequest") for each in build(**spec)["spec"]["podSets"]]


def test_annotations_of_the_templates_ask_for_a_topology_and_equal_ones_make_a_group() -> None:
    required, preferred = ({PLACED.format(kind): RACK} for kind in ("required", "preferred"))
    assert find_requests() == [None, None]
    assert find_requests(podTemplate=required) == [{"required": RACK, "podSetGroupName": "attempt"}] * 2
    assert find_requests(podTemplate=preferred)[0] == {"preferred": RACK, "podSetGroupName": "attempt"}
    assert find_requests(worker=required) == [None, {"required": RACK}]
    assert find_requests(worker=required, head=preferred) == [{"preferred": RACK}, {"required": RACK}]
    named = {**required, "kueue.x-k8s.io/podset-group-name": "both"}
    assert find_requests(podTemplate=named)[1] == {"required": RACK, "podSetGroupName": "both"}
    assert find_requests(podTemplate={PLACED.format("unconstrained"): "true"}) == [{"unconstrained": True}] * 2


def test_slices_make_no_group_and_what_is_not_valid_is_left_to_the_api_server() -> None:
    size, level = (f"kueue.x-k8s.io/podset-slice-{what}" for what in ("size", "required-topology"))
    given = {PLACED.format("required"): "example.com/block", level: RACK, size: "2"}
    request = {"required": "example.com/block", "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 2}
    assert find_requests(podTemplate=given) == [request, request]
    assert find_requests(worker={**given, size: "two"})[1]["podSetSliceSize"] == "two"
    assert find_requests(worker={PLACED.format("unconstrained"): "yes"})[1] == {"unconstrained": "yes"}


def test_pods_that_kueue_assigns_to_nodes_are_gated_and_name_their_workload() -> None:
    given = [PodSetAdmission(name="head"), PodSetAdmission(name="workers", topology_aware=True)]
    gates = {"spec": {"schedulingGates": [{"name": "own"}]}}
    attempt = PodSettings(JOB, queued_spec(podTemplate=gates), 1, MOUNTS, admission=AdmissionStatus(pod_sets=given))
    worker = WorkerPodBuilder(attempt).build(slot=1, round_=0)
    assert worker["spec"]["schedulingGates"] == [{"name": "own"}, {"name": "kueue.x-k8s.io/topology"}]
    annotations = worker["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/workload"] == build()["metadata"]["name"]
    assert annotations[PLACED.format("unconstrained")] == "true", "by it Kueue knows such pods"
    head = build_head_pod(attempt, report_url="", status=make_job().status, worker_pods=2)
    assert head["spec"]["schedulingGates"] == [{"name": "own"}]
    assert "kueue.x-k8s.io/workload" not in head["metadata"]["annotations"]
    asked = {"metadata": {"annotations": {PLACED.format("required"): RACK}}}
    attempt = replace(attempt, spec=queued_spec(podTemplate=asked))
    annotations = WorkerPodBuilder(attempt).build(slot=1, round_=0)["metadata"]["annotations"]
    assert annotations[PLACED.format("required")] == RACK and PLACED.format("unconstrained") not in annotations
