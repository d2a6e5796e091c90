"""Kueue's Workload: what it asks for is what the pods request; and what an admission adds to a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.api.queue import AdmissionStatus, PodSetAdmission, Toleration
from railhead.planning.facts.admission import build_request
from railhead.planning.queue_view import QueueView
from railhead.resources.base import JobRef
from railhead.resources.pod_builder import PodSettings, WorkerPodBuilder, build_head_pod
from railhead.resources.queues.kueue import build_workload, compute_digest
from tests.unit.builders import MOUNTS, UID, make_job
from tests.unit.kueue import queued_spec

JOB = JobRef("default", "digits", UID)


def make_request(queue: QueueView | None = None, **spec: Any) -> Any:
    return build_request(make_job(spec=queued_spec(**spec), queue=queue or QueueView("served")))


def build(queue: QueueView | None = None, **spec: Any) -> dict[str, Any]:
    return build_workload(JOB, make_request(queue, **spec))


def test_it_asks_for_one_head_and_all_workers_with_the_requests_of_the_pods() -> None:
    workload = build()
    head, workers = workload["spec"]["podSets"]
    assert (head["name"], head["count"], workers["name"], workers["count"]) == ("head", 1, "workers", 2)
    request = make_request()
    for pod_set, pod in ((head, request.head), (workers, request.worker)):
        wanted = {each["name"]: each["resources"] for each in pod["spec"]["containers"]}
        assert {each["name"]: each["resources"] for each in pod_set["template"]["spec"]["containers"]} == wanted
    assert workload["spec"]["queueName"] == "team-a" and "minCount" not in workers


def test_the_job_owns_it_and_a_finalizer_keeps_it_until_the_pods_are_gone() -> None:
    metadata = build()["metadata"]
    assert metadata["ownerReferences"][0]["uid"] == UID
    assert metadata["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    assert metadata["name"] == "digits-0f1e2d"


def test_an_elastic_job_may_be_admitted_with_fewer_workers() -> None:
    scaling = {"minWorkers": 2, "maxWorkers": 4, "desiredWorkers": 3}
    workers = build(scaling=scaling)["spec"]["podSets"][1]
    assert (workers["count"], workers["minCount"]) == (3, 2)


def test_the_priority_is_that_of_the_class_and_no_part_of_the_digest() -> None:
    view = QueueView("served", priority_label="high", priority=100)
    spec = build(view)["spec"]
    assert spec["priorityClassRef"]["name"] == "high" and spec["priority"] == 100
    assert "priority" not in build()["spec"]
    digest = compute_digest(make_request(view))
    assert compute_digest(make_request(replace(view, priority=200))) == digest != compute_digest(make_request())


def test_the_digest_changes_with_what_the_job_asks_for_and_with_nothing_else() -> None:
    digest = compute_digest(make_request())
    assert compute_digest(make_request(image="example/train:2", env=[{"name": "A", "value": "1"}])) == digest
    assert compute_digest(make_request(scaling={"numWorkers": 3})) != digest
    assert compute_digest(make_request(scheduling={"queueName": "team-b"})) != digest
    template = {"spec": {"nodeSelector": {"zone": "a"}}}
    assert compute_digest(make_request(podTemplate=template)) != digest


def test_a_template_that_holds_anything_still_makes_a_workload() -> None:
    """The API server then rejects the pods."""
    build(podTemplate={"spec": {"affinity": "near", "nodeSelector": 3}})


def test_an_admitted_pod_has_the_flavors_labels_and_tolerations_and_names_its_pod_set() -> None:
    template = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}, "spec": {"nodeSelector": {"zone": "a"}}}
    tolerations = [Toleration(key="spot", operator="Exists")]
    given = [
        PodSetAdmission(
            name=name,
            labels={"tier": "b", "kueue.x-k8s.io/queue-name": "team-b"},
            annotations={"request": "prov-1"},
            node_selector={"pool": "spot"},
            tolerations=tolerations,
        )
        for name in ("head", "workers")
    ]
    attempt = PodSettings(JOB, queued_spec(podTemplate=template), 1, MOUNTS, admission=AdmissionStatus(pod_sets=given))
    head = build_head_pod(attempt, report_url="", status=make_job().status, worker_pods=2)
    worker = WorkerPodBuilder(attempt).build(slot=1, round_=0)
    for pod, name in ((head, "head"), (worker, "workers")):
        assert pod["spec"]["nodeSelector"] == {"zone": "a", "pool": "spot"}
        assert {"key": "spot", "operator": "Exists"} in pod["spec"]["tolerations"]
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"] == name
        assert pod["metadata"]["labels"]["tier"] == "b" and pod["metadata"]["annotations"]["request"] == "prov-1"
        assert "kueue.x-k8s.io/queue-name" not in pod["metadata"]["labels"], "Kueue would manage the pods itself"


def test_the_pods_of_a_job_without_a_queue_are_as_before() -> None:
    worker = WorkerPodBuilder(PodSettings(JOB, queued_spec(), 1, MOUNTS)).build(slot=0, round_=0)
    assert "kueue.x-k8s.io/podset" not in worker["metadata"]["labels"]
