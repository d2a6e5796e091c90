"""The Job that reads a claim, on a real API server with its controllers: who admits its pod, and who refuses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.client.cluster.connection import Target, open_cluster
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.reader_job import build_reader, run_reader
from railhead.json_object import Object
from railhead.local.control_plane import ControlPlane
from tests.api.server import MERGE_PATCH, ApiServer
from tests.api.trainjobs import make_job
from tests.waiting import wait_until

STORED = {
    "spec.run": {"storagePath": "/runs", "storageVolume": {"persistentVolumeClaim": {"claimName": "runs"}}},
}
REFUSED_SECONDS = 10


@pytest.fixture(scope="module")
def namespace(api_server: ApiServer) -> Iterator[str]:
    """Makes a namespace that enforces Pod Security `restricted`, with a claim."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "readers", "labels": labels}
    assert api_server.request("POST", "/api/v1/namespaces", {"metadata": metadata}).status == 201
    account = {"metadata": {"name": "default"}}
    assert api_server.request("POST", "/api/v1/namespaces/readers/serviceaccounts", account).status in (201, 409)
    claim = {
        "metadata": {"name": "runs"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    assert api_server.request("POST", "/api/v1/namespaces/readers/persistentvolumeclaims", claim).status == 201
    yield "readers"
    api_server.request("DELETE", "/api/v1/namespaces/readers")


def create_job(server: ApiServer, name: str, **template: Any) -> Object:
    changes = {**STORED, "metadata.name": name, "metadata.namespace": "readers"}
    job = make_job({**changes, **({"spec.podTemplate": {"spec": template}} if template else {})})
    answer = server.request("POST", "/apis/railhead.dev/v1alpha1/namespaces/readers/trainjobs", job)
    assert answer.status == 201, answer.message
    return answer.body


def run_pods(server: ApiServer) -> None:
    """Does what a kubelet would: the Job's pod runs."""
    path = "/api/v1/namespaces/readers/pods"
    running = {"name": "reader", "ready": True, "image": "a", "imageID": "", "restartCount": 0}
    container = {**running, "state": {"running": {}}}
    status = {"status": {"phase": "Running", "conditions": [], "containerStatuses": [container]}}
    node = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}

    def start() -> bool:
        names = [pod["metadata"]["name"] for pod in server.request("GET", path).body["items"]]
        for name in names:
            server.request("POST", f"{path}/{name}/binding", {"metadata": {"name": name}, **node})
            answer = server.request("PATCH", f"{path}/{name}/status", status, content_type=MERGE_PATCH)
            assert answer.status == 200, answer.message
        return bool(names)

    wait_until("the Job's pod", start)


async def read(control_plane: ControlPlane, job: Object, server: ApiServer, *, starts: bool = True) -> list[str]:
    """Returns the name of the pod that run_reader yields, and what it said; the test is the kubelet."""
    said: list[str] = []
    async with open_cluster(Target(str(control_plane.kubeconfig), namespace="readers")) as cluster:
        kubelet = asyncio.ensure_future(asyncio.to_thread(run_pods, server)) if starts else None
        async with run_reader(cluster, build_reader(job, folder="/runs/x"), said.append) as pod:
            [job_object] = server.request("GET", "/apis/batch/v1/namespaces/readers/jobs").body["items"]
            assert job_object["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
            if kubelet:
                await kubelet
    return [pod, *said]


async def test_pod_security_restricted_admits_the_pod_and_the_job_goes_with_the_command(
    control_plane: ControlPlane, api_server: ApiServer, namespace: str
) -> None:
    pod, *_ = await read(control_plane, create_job(api_server, "one"), api_server)
    assert pod.startswith("one-") and "-reader-" in pod
    path = "/apis/batch/v1/namespaces/readers/jobs"
    wait_until("the end of the Job", lambda: api_server.request("GET", path).body["items"] == [])


async def test_a_policys_refusal_of_the_pod_is_told_at_once(
    control_plane: ControlPlane, api_server: ApiServer, namespace: str
) -> None:
    job = create_job(api_server, "root", securityContext={"runAsUser": 0, "runAsNonRoot": False})
    began = time.monotonic()
    with pytest.raises(ClientError, match=r"is refused: .*violates PodSecurity") as raised:
        await read(control_plane, job, api_server, starts=False)
    assert raised.value.code == ExitCode.REFUSED
    assert time.monotonic() - began < REFUSED_SECONDS


async def test_a_quotas_refusal_of_the_pod_is_told_at_once(
    control_plane: ControlPlane, api_server: ApiServer, namespace: str
) -> None:
    path = "/api/v1/namespaces/readers/resourcequotas"
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    assert api_server.request("POST", path, quota).status == 201
    try:
        wait_until("the quota", lambda: "hard" in api_server.request("GET", f"{path}/none").body.get("status", {}))
        job = create_job(api_server, "over")
        began = time.monotonic()
        with pytest.raises(ClientError, match=r"is refused: .*exceeded quota: none"):
            await read(control_plane, job, api_server, starts=False)
        assert time.monotonic() - began < REFUSED_SECONDS
    finally:
        api_server.request("DELETE", f"{path}/none")
