"""What else acts on a cluster: a colleague's copy of a pod, a policy that protects one, a kubelet that refuses one, a
disk that is full when an attempt begins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, Object, wait_until
from tests.e2e.jobs import make_job, with_config
from tests.full_disk import mount_full_disk

POLICY = "railhead-tests-protected"
TRIES = 8  # of the driver, with pauses of 0.5, 1, 2, ... s after them: two minutes
# What a person who copies a pod's YAML removes.
OF_THE_SERVER = ("ownerReferences", "uid", "resourceVersion", "creationTimestamp", "managedFields", "finalizers")


def find_condition(cluster: Cluster, job: str, type_: str) -> Object:
    found = cluster.status(job).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})


def read_events(cluster: Cluster, job: str, reason: str) -> list[str]:
    selector = f"involvedObject.kind=TrainJob,involvedObject.name={job},reason={reason}"
    items = json.loads(cluster("get", "events", "--field-selector", selector, "-o", "json"))["items"]
    return [str(item["message"]) for item in items]


def copy_pod(cluster: Cluster, name: str, to: str) -> None:
    """As `kubectl get pod -o yaml | kubectl apply -f -`, with all labels and another command."""
    pod = cluster.get("pod", name)
    metadata: dict[str, Any] = {k: v for k, v in pod["metadata"].items() if k not in OF_THE_SERVER}
    spec = {**pod["spec"], "initContainers": [], "terminationGracePeriodSeconds": 1}
    container = {**spec["containers"][0], "command": ["python3", "-c", "import time; time.sleep(3600)"], "args": []}
    copy = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": to}}
    cluster.apply({**copy, "spec": {**spec, "containers": [container]}})
    wait_until(f"pod {to} runs", lambda: cluster.get("pod", to)["status"].get("phase") == "Running")


def protect(cluster: Cluster, pod: str) -> None:
    """A ValidatingAdmissionPolicy that denies the deletion of this pod to everybody."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
    validation = {"expression": f"oldObject.metadata.name != '{pod}'", "message": "the pod is under protection"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": POLICY}}
    cluster.apply({**head, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    binding = {"policyName": POLICY, "validationActions": ["Deny"]}
    cluster.apply({**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})

    def is_protected() -> bool:
        try:
            cluster("delete", "pod", pod, "--dry-run=server")
        except Exception as error:
            return "under protection" in str(error)
        return False

    wait_until("the policy acts", is_protected)


def unprotect(cluster: Cluster) -> None:
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        cluster.kubectl("delete", kind, POLICY, "--ignore-not-found")


@pytest.mark.slow
def test_a_copied_pod_stops_no_restart_and_a_protected_pod_keeps_no_other(cluster: Cluster) -> None:
    cluster.apply(with_config(make_job("worldly", cluster.image), epochs=2000, seconds=0.5))
    cluster.wait_phase("worldly", "Running")
    [worker] = [name for name in cluster.pod_names("worldly") if name.endswith("-w1-0")]
    copy_pod(cluster, worker, "worldly-copy")
    cluster("delete", "pod", cluster.head_pod("worldly"), "--grace-period=0", "--force")
    wait_until("attempt 2", lambda: cluster.status("worldly")["attempt"] == 2, tell=lambda: cluster.tell("worldly"))
    cluster.wait_phase("worldly", "Running")
    assert "worldly-copy" in find_condition(cluster, "worldly", "ForeignPods")["message"]
    assert any("worldly-copy" in message for message in read_events(cluster, "worldly", "ForeignPods"))
    assert cluster.get("pod", "worldly-copy")["status"]["phase"] == "Running"
    cluster("delete", "pod", "worldly-copy", "--grace-period=0", "--force")

    [worker] = [name for name in cluster.pod_names("worldly") if name.endswith("-w1-0")]
    protect(cluster, worker)
    try:
        cluster("patch", "rtj", "worldly", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        wait_until("only the protected pod", lambda: cluster.pod_names("worldly") == [worker])
        denied = wait_until("DeleteDenied", lambda: find_condition(cluster, "worldly", "DeleteDenied"))
        assert worker in denied["message"] and "the pod is under protection" in denied["message"]
        assert any(worker in message for message in read_events(cluster, "worldly", "DeleteDenied"))
        assert cluster.status("worldly")["phase"] == "Suspending"
    finally:
        unprotect(cluster)
    cluster.wait_phase("worldly", "Suspended")
    assert not find_condition(cluster, "worldly", "DeleteDenied")
    wait_until("no pod", lambda: not cluster.pods("worldly"), tell=lambda: cluster.tell("worldly"))
    cluster.delete_job("worldly")


@pytest.mark.slow
@pytest.mark.node
def test_a_pod_that_the_kubelet_refuses_spends_nothing(cluster: Cluster) -> None:
    """The kubelet rejects a sysctl that it does not allow; the API server and the scheduler do not look at it."""
    if cluster.is_local:
        pytest.skip("the local node runs processes and looks at no sysctl; tests/unit/planning has the kubelet's texts")
    unsafe = {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}}}
    enforce = "pod-security.kubernetes.io/enforce"
    cluster.kubectl("label", "namespace", cluster.namespace, f"{enforce}=privileged", "--overwrite")
    try:
        cluster.apply(make_job("refused", cluster.image, backoffLimit=0, worker={"podTemplate": unsafe}))
        # The job avoids the only node, until the scheduler has found no other one for a while.
        refused = lambda: (cluster.status("refused").get("workerLosses") or {}).get("refused", 0) >= 2  # noqa: E731
        wait_until("two refusals", refused, tell=lambda: cluster.tell("refused"))
        status = cluster.status("refused")
        assert status["attempt"] == 1 and "failure" not in status and not any((status.get("restarts") or {}).values())
        assert any("SysctlForbidden" in message for message in read_events(cluster, "refused", "NodeRefusedPod"))
        assert read_events(cluster, "refused", "NodeAvoided") and read_events(cluster, "refused", "NodeAvoidanceEnded")
        assert status["round"] <= 8
        cluster.delete_job("refused")
    finally:
        cluster.kubectl("label", "namespace", cluster.namespace, f"{enforce}=restricted", "--overwrite")


@pytest.mark.slow
@pytest.mark.node
def test_an_attempt_that_finds_a_full_disk_waits_for_minutes_and_then_trains(cluster: Cluster) -> None:
    if cluster.volume_folder is None:
        pytest.skip("only a node on this machine has a folder in which the test can mount a disk")
    with mount_full_disk(cluster.volume_folder / cluster.namespace / "full") as disk:
        cluster.provide_claim("full")
        run = {"storagePath": "/runs", "storageVolume": {"persistentVolumeClaim": {"claimName": "full"}}}
        job = make_job("thirsty", cluster.image, run=run, backoffLimit=0, noProgressLimit=0)
        job["spec"]["env"] = [{"name": "NOTES", "value": "/tmp/notes"}]
        cluster.apply(with_config(job, epochs=3))
        found = wait_until("StorageUnavailable", lambda: find_condition(cluster, "thirsty", "StorageUnavailable"))
        assert "No space left on device" in found["message"]
        tries = lambda: cluster.log(cluster.head_pod("thirsty")).count("the attempt waits for it") >= TRIES  # noqa: E731
        wait_until(f"{TRIES} tries", tries, tell=lambda: cluster.tell("thirsty"))
        disk.make_room()
        status = cluster.wait_end("thirsty")
        assert status["phase"] == "Succeeded", cluster.tell("thirsty")
        assert status["attempt"] == 1 and not any((status.get("restarts") or {}).values())
        assert not find_condition(cluster, "thirsty", "StorageUnavailable")
        cluster.delete_job("thirsty")
        wait_until("no pod", lambda: not cluster.pods("thirsty"))
