"""A namespace in which the test plays everything but the operator: user, kubelet and driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from railhead.contract.outcome import Outcome
from railhead.contract.report import AUDIENCE
from railhead.contract.times import format_time
from railhead.kube.bodies import build_event
from tests.api.server import MERGE_PATCH, ApiServer
from tests.operator.running import RunningOperator
from tests.waiting import wait_until

Object = dict[str, Any]
JOBS = "/apis/railhead.dev/v1alpha1/namespaces/{}/trainjobs"


@dataclass
class Cluster:
    """One namespace; only the test changes its pods."""

    server: ApiServer
    operator: RunningOperator
    namespace: str

    def apply(self, name: str, *, workers: int = 2, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
        body = self.build(name, workers=workers, **spec)
        body["metadata"]["labels"] = dict(labels or {})
        return self._ask("POST", JOBS.format(self.namespace), body)

    def build(self, name: str, *, workers: int = 2, **spec: Any) -> Object:
        """A TrainJob as a user has it in a file."""
        return {
            "apiVersion": "railhead.dev/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": name},
            "spec": {
                "image": "registry.example/train:1",
                "trainer": {"trainFunc": "steps:train_func"},
                "source": {"inline": {"steps.py": "def train_func():\n    pass\n"}},
                "scaling": {"numWorkers": workers},
                "run": {"storagePath": "/runs"},
                **spec,
            },
        }

    def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        """The user's patch of a job's labels; None removes one."""
        body = {"metadata": {"labels": dict(labels)}}
        self._ask("PATCH", f"{JOBS.format(self.namespace)}/{name}", body, content_type=MERGE_PATCH)

    def make_again(self, exported: Object, *, labels: Mapping[str, str]) -> None:
        """As a backup tool makes a TrainJob again, so far without its status."""
        kept = {key: exported[key] for key in ("apiVersion", "kind", "spec")}
        metadata = {"name": exported["metadata"]["name"], "labels": dict(labels)}
        self._ask("POST", JOBS.format(self.namespace), {**kept, "metadata": metadata})

    def restore_status(self, exported: Object) -> None:
        """As the tool then replaces the status; it tries again if the operator has written meanwhile."""
        name = exported["metadata"]["name"]
        path = f"{JOBS.format(self.namespace)}/{name}"
        wait_until(
            "the status",
            lambda: (
                self.server.request("PUT", f"{path}/status", {**self.job(name), "status": exported["status"]}).status
                == 200
            ),
        )

    def config_map(self, name: str) -> Object:
        return self._ask("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")

    def change(self, name: str, **spec: Any) -> Object:
        """The user's patch of the spec."""
        return self._ask("PATCH", f"{JOBS.format(self.namespace)}/{name}", {"spec": spec}, content_type=MERGE_PATCH)

    def delete(self, name: str, *, policy: str = "Background") -> Object:
        """The user's deletion; returns the job if a finalizer still holds it."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        return self._ask("DELETE", f"{JOBS.format(self.namespace)}/{name}", options)

    def hold(self, name: str, *finalizers: str) -> None:
        """Replaces the finalizers: with one, a deleted job stays."""
        body = {"metadata": {"finalizers": list(finalizers)}}
        self._ask("PATCH", f"{JOBS.format(self.namespace)}/{name}", body, content_type=MERGE_PATCH)

    def job(self, name: str) -> Object:
        return self._ask("GET", f"{JOBS.format(self.namespace)}/{name}")

    def status(self, name: str) -> Object:
        return self.job(name).get("status") or {}

    def pods(self, job: str) -> dict[str, Object]:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        items = self._ask("GET", path, labelSelector=f"railhead.dev/job-name={job}")["items"]
        return {str(pod["metadata"]["name"]): pod for pod in items}

    def wait_pods(self, job: str, count: int, *, seconds: float = 30.0) -> dict[str, Object]:
        what = f"{count} pods of {job}"
        found: dict[str, Object] = wait_until(what, lambda: len(p := self.pods(job)) == count and p, seconds=seconds)
        return found

    def wait_reports(self, job: str, count: int) -> None:
        """Until the status has that many."""
        wait_until("the report", lambda: self.status(job).get("progress", {}).get("reports") == count)

    def wait_phase(self, job: str, phase: str) -> Object:
        wait_until(f"{job} {phase}", lambda: self.status(job).get("phase") == phase)
        return self.status(job)

    def children(self, job: str) -> list[str]:
        """The job's objects, as kind/name."""
        return self.children_of(self.job(job)["metadata"]["uid"])

    def children_of(self, uid: str) -> list[str]:
        """Also of a job that is gone."""
        found = []
        for plural in ("pods", "services", "secrets", "configmaps"):
            path = f"/api/v1/namespaces/{self.namespace}/{plural}"
            items = self._ask("GET", path, labelSelector=f"railhead.dev/job-uid={uid}")["items"]
            found += [f"{plural}/{item['metadata']['name']}" for item in items]
        return found

    def head(self, job: str) -> Object:
        [head] = [pod for name, pod in self.pods(job).items() if name.endswith("-head")]
        return head

    def pod(self, name: str) -> Object:
        return self._ask("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def make_pod(self, name: str, **labels: str) -> Object:
        """A pod of another owner."""
        container = {"name": "main", "image": "registry.example/other:1"}
        body: Object = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
        body["metadata"] = {"name": name, "labels": labels}
        return self._ask("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def events(self, job: str) -> list[Object]:
        """About this job."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        found: list[Object] = self._ask("GET", path, fieldSelector=f"involvedObject.name={job}")["items"]
        return found

    def bind_pod(self, pod: Object, node: str = "node-1") -> None:
        """As a scheduler does: from now on a deletion takes the pod's grace period."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": target,
        }
        self._ask("POST", f"{self._pod_path(pod)}/binding", binding)

    def remove_gates(self, pod: Object) -> None:
        """As a queue that admits the pod."""
        self._ask("PATCH", self._pod_path(pod), {"spec": {"schedulingGates": None}}, content_type=MERGE_PATCH)

    def run_pod(self, pod: Object) -> None:
        """As a kubelet reports that the pod's container runs."""
        state = {"running": {"startedAt": format_time(datetime.now(UTC))}}
        self._set_state(pod, "Running", state, is_ready=True)

    def hold_pod(self, pod: Object, reason: str, message: str) -> None:
        """As a kubelet reports that the pod's container cannot be started."""
        self._set_state(pod, "Pending", {"waiting": {"reason": reason, "message": message}}, is_ready=False)

    def refuse_pod(self, pod: Object) -> None:
        """As the kubelet of a node that does not admit the pod."""
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}
        self._ask("PATCH", f"{self._pod_path(pod)}/status", {"status": status}, content_type=MERGE_PATCH)

    def say_of_pod(self, pod: Object, reason: str, message: str) -> None:
        """As a kubelet in an event about the pod."""
        metadata = pod["metadata"]
        about = {"kind": "Pod", "namespace": self.namespace, "name": metadata["name"], "uid": metadata["uid"]}
        event = build_event(about, type_="Warning", reason=reason, message=message, component="kubelet")
        self._ask("POST", f"/api/v1/namespaces/{self.namespace}/events", event)

    def end_pod(self, pod: Object, *, code: int, outcome: Outcome) -> None:
        """As a kubelet reports that the pod's container has ended with this termination message."""
        ended = {"exitCode": code, "message": outcome.to_json(), "finishedAt": format_time(datetime.now(UTC))}
        self._set_state(pod, "Succeeded" if code == 0 else "Failed", {"terminated": ended}, is_ready=False)

    def remove_pod(self, pod: Object) -> None:
        """As when a node is gone: at once."""
        self._ask("DELETE", self._pod_path(pod), {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

    def clear_pods(self, job: str) -> None:
        """Removes the pods that are left of a deleted job, while garbage collection may do the same."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for pod in self.pods(job).values():
            answer = self.server.request("DELETE", self._pod_path(pod), options)
            assert answer.status in (200, 404), answer.message

    def ask_to_go(self, pod: Object, *, seconds: int) -> None:
        """As `kubectl delete pod`; a pod that is bound to a node without a kubelet stays."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": seconds}
        self._ask("DELETE", self._pod_path(pod), options)

    def token_of(self, pod: Object, *, audience: str = AUDIENCE, service_account: str = "default") -> str:
        """A token as the kubelet projects it into this pod."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{service_account}/token"
        reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"audiences": [audience], "expirationSeconds": 3600, "boundObjectRef": reference}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self._ask("POST", path, body)["status"]["token"])

    def authority_of(self, job: str) -> str:
        """The CA that the job's pods trust."""
        uid = self.job(job)["metadata"]["uid"]
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        for item in self._ask("GET", path)["items"]:
            owners = item["metadata"].get("ownerReferences") or []
            if any(owner["uid"] == uid for owner in owners):
                return str(item["data"]["report-ca.crt"])
        raise AssertionError(f"{job} has no input")

    def report(self, job: str, *, token: str, **fields: Any) -> int:
        """Reports as the driver does; the endpoint's answer."""
        values = {
            "namespace": self.namespace,
            "name": job,
            "uid": self.job(job)["metadata"]["uid"],
            "attempt": 1,
            "state": "RUNNING",
            "time": "2026-01-01T00:00:01Z",
            **fields,
        }
        body = json.dumps(values).encode()
        return self.operator.post(body, token=token, ca=self.authority_of(job))

    def _pod_path(self, pod: Object) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"

    def _set_state(self, pod: Object, phase: str, state: Object, *, is_ready: bool) -> None:
        [container] = pod["spec"]["containers"]
        base = {"name": container["name"], "ready": is_ready, "restartCount": 0, "image": "", "imageID": ""}
        status = {"phase": phase, "containerStatuses": [{**base, "state": state}]}
        self._ask("PATCH", f"{self._pod_path(pod)}/status", {"status": status}, content_type=MERGE_PATCH)

    def _ask(self, method: str, path: str, body: Any = None, **options: str) -> Object:
        answer = self.server.request(method, path, body, **options)
        assert answer.status < 300, f"{method} {path}: {answer.message}"
        return answer.body
