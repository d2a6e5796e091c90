"""The operator is not alone: a second operator runs, and there are pods of other owners."""

from __future__ import annotations

import base64
from collections import Counter

from railhead.api import names
from railhead.api.parsed_spec import parse_spec
from railhead.controller.report.certificate import SECRET_NAME
from railhead.json_object import Object
from railhead.local.install import NAMESPACE
from railhead.resources.base import JobRef, OperatorSettings
from railhead.resources.bundle import BUNDLE_FILE, build_bundle, bundle_name
from tests.api.server import ApiServer
from tests.operator.audit import AuditLog
from tests.operator.cluster import Cluster
from tests.operator.conftest import make_cluster
from tests.operator.running import RunningOperator
from tests.unit.builders import make_mounts
from tests.waiting import wait_until


def meet_stranger(cluster: Cluster) -> tuple[str, str]:
    """Creates a pod with the name of a job's future head before the operator sees the job; returns job and pod."""
    cluster.operator.stop()
    uid = cluster.apply("late")["metadata"]["uid"]
    name = names.head_name("late", uid, 1)
    cluster.make_pod(name)
    cluster.operator.start()
    wait_until("the refusal", lambda: "ForeignObject" in {event["reason"] for event in cluster.events("late")})
    return "late", name


def test_a_foreign_pod_with_the_heads_name_is_reported_and_left_alone(cluster: Cluster) -> None:
    job, name = meet_stranger(cluster)
    [event] = [event for event in cluster.events(job) if event["reason"] == "ForeignObject"]
    foreign = f"Pod {name} was rejected: a Pod of this name exists that this TrainJob does not own; delete it"
    assert event["message"] == f"{foreign}; the job holds no pods meanwhile, and the next try follows within 30 s"
    stranger = cluster.pod(name)
    assert "ownerReferences" not in stranger["metadata"]
    cluster.remove_pod(stranger)
    cluster.wait_pods(job, 3)


def plant(cluster: Cluster, plural: str, name: str, **body: object) -> str:
    """Creates a foreign object; returns its path."""
    path = f"/api/v1/namespaces/{cluster.namespace}/{plural}"
    assert cluster.server.request("POST", path, {"metadata": {"name": name}, **body}).status == 201
    return f"{path}/{name}"


def predict_input(cluster: Cluster, job: Object) -> str:
    """The name that the operator will give to the job's input, as somebody with the operator's code can compute it."""
    secret = cluster.server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET_NAME}").body
    authority = base64.b64decode(secret["data"]["ca.crt"]).decode()
    settings = OperatorSettings("", authority, bundle=b"", bundle_name="", token_key=b"")
    ref = JobRef(cluster.namespace, job["metadata"]["name"], job["metadata"]["uid"])
    return make_mounts(ref, parse_spec(job["spec"]), settings).input


def find_refusal(cluster: Cluster, job: str) -> str:
    return "".join(event["message"] for event in cluster.events(job) if event["reason"] == "ForeignObject")


def test_planted_children_are_reported_and_no_pod_starts_until_they_are_deleted(
    cluster: Cluster, other_cluster: Cluster, server: ApiServer
) -> None:
    cluster.operator.stop()
    homes = {"input": cluster, "service": make_cluster(server, cluster.operator), "driver": other_cluster}
    jobs = {job: home.apply(job) for job, home in homes.items()}
    planted = {
        "input": predict_input(cluster, jobs["input"]),
        "service": names.HEADS_SERVICE,
        "driver": bundle_name(build_bundle()),
    }
    paths = [
        plant(cluster, "configmaps", planted["input"], data={"job.json": "{}"}),
        plant(homes["service"], "services", planted["service"], spec={"clusterIP": "None", "selector": {"app": "x"}}),
        plant(other_cluster, "configmaps", planted["driver"], binaryData={BUNDLE_FILE: "Zm9yZWlnbg=="}),
    ]
    cluster.operator.start()
    for job, home in homes.items():
        message = wait_until("the refusal", lambda home=home, job=job: find_refusal(home, job))  # type: ignore[misc]
        assert planted[job] in message and "; delete it; the job holds no pods" in message
        assert home.pods(job) == {}
    for path in paths:
        assert cluster.server.request("DELETE", path).status == 200
    cluster.operator.stop()
    cluster.operator.start()  # it tries again at once
    for job, home in homes.items():
        home.wait_pods(job, 3)


def test_two_concurrent_operators_run_a_job_once(
    cluster: Cluster, second_operator: RunningOperator, audit: AuditLog
) -> None:
    jobs = [f"shared-{number}" for number in range(5)]
    for job in jobs:
        cluster.apply(job)
    for job in jobs:
        pods = cluster.wait_pods(job, 3)
        for pod in pods.values():
            cluster.run_pod(pod)
    for job in jobs:
        cluster.wait_phase(job, "Starting")
        assert cluster.status(job)["attempt"] == 1
    asked = audit.requests(cluster.namespace)
    assert Counter(r.code for r in asked if (r.verb, r.resource) == ("create", "pods"))[201] == 3 * len(jobs)
    assert not [r for r in asked if r.verb == "delete"]


def test_a_pod_deleted_by_another_client_is_recreated(cluster: Cluster) -> None:
    cluster.apply("robbed")
    worker = next(pod for name, pod in cluster.wait_pods("robbed", 3).items() if not name.endswith("-head"))
    cluster.remove_pod(worker)
    pods = cluster.wait_pods("robbed", 3)
    assert worker["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()}
