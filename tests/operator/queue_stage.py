"""A namespace with a queue of Kueue, whose controllers run while the test waits; the test plays the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.kueue.client import Kueue, build_pod_set, build_workload
from tests.kueue.workload import find_condition, holds_quota, is_true
from tests.operator.cluster import Cluster, Object

QUOTA = 4  # GPUs
CHECKPOINT: dict[str, Any] = {"uri": "/runs/x/checkpoint_4", "index": 4, "time": "2026-01-01T00:00:04Z", "metrics": {}}
PREEMPTED = Outcome("Preemption", reason="Terminated", checkpoint=CommittedCheckpoint(**CHECKPOINT))


@dataclass
class Stage:
    """Jobs have one head pod and a worker pod with one GPU for each of `gpus`."""

    cluster: Cluster
    kueue: Kueue

    def submit(self, job: str, *, gpus: int = 2, queue: str = "team", **spec: Any) -> None:
        numbers = spec.pop("numbers", {"numWorkers": gpus})
        scaling = {"useGPU": True, "workersPerPod": 1, **numbers}
        scheduling: dict[str, Any] = {"scheduling": {"queueName": queue}} if queue else {}
        self.cluster.apply(job, scaling=scaling, **scheduling, **spec)

    def until(self, what: str, ask: Callable[[], Any], *, seconds: float = 30.0) -> Any:
        return self.kueue.until(what, ask, seconds=seconds)

    def wait_phase(self, job: str, phase: str) -> Object:
        self.until(f"{job} {phase}", lambda: self.cluster.status(job).get("phase") == phase)
        return self.cluster.status(job)

    def wait_reason(self, job: str, reason: str) -> str:
        """Until a condition of the queued job has the reason; returns its message. No pod exists then."""

        def find() -> list[str]:
            status = self.cluster.status(job)
            found = [each["message"] for each in status.get("conditions", ()) if each["reason"] == reason]
            return found if status.get("phase") == "Queued" else []

        messages = self.until(f"{job} Queued for {reason}", find)
        assert not self.cluster.pods(job)
        return str(messages[0])

    def wait_pods(self, job: str, count: int, *, attempt: int = 1) -> dict[str, Object]:
        """Until the attempt has that many pods, and no other pod is left."""

        def find() -> dict[str, Object]:
            pods = self.cluster.pods(job)
            own = [each for each in pods.values() if each["metadata"]["labels"]["railhead.dev/attempt"] == str(attempt)]
            return pods if len(own) == len(pods) == count else {}

        found: dict[str, Object] = self.until(f"{count} pods of {job}, attempt {attempt}", find)
        return found

    def start(self, job: str, count: int, *, attempt: int = 1) -> None:
        """As scheduler and kubelets, until the status says that the pods run. A deletion then takes a kubelet."""
        for pod in self.wait_pods(job, count, attempt=attempt).values():
            self.cluster.bind_pod(pod)
            self.cluster.run_pod(pod)
        self.wait_phase(job, "Starting")

    def wait_stop(self, job: str) -> None:
        """Until the operator has asked the head to end."""
        self.until(f"{job}'s head is deleted", lambda: self.cluster.head(job)["metadata"].get("deletionTimestamp"))

    def stop_pods(self, job: str) -> None:
        """As kubelets: the head saves a last checkpoint; the other pods end once the operator has seen that."""
        self.wait_stop(job)
        self.end_stopped_head(job)
        self.until(f"all pods of {job} are deleted", lambda: self.count_deleting(job) == len(self.cluster.pods(job)))
        self.remove_pods(job)

    def count_deleting(self, job: str) -> int:
        """Returns the number of pods that are being deleted."""
        return sum("deletionTimestamp" in pod["metadata"] for pod in self.cluster.pods(job).values())

    def end_stopped_head(self, job: str) -> None:
        """As the kubelet, once the driver has saved a last checkpoint."""
        self.cluster.end_pod(self.cluster.head(job), code=FailureClass.PREEMPTION.exit_code, outcome=PREEMPTED)

    def remove_pods(self, job: str) -> None:
        for pod in self.cluster.pods(job).values():
            self.cluster.remove_pod(pod)

    def succeed(self, job: str) -> None:
        """As kubelets: the driver ends, and then all pods are gone."""
        self.end_head(job)
        self.wait_phase(job, "Succeeded")
        self.remove_pods(job)

    def end_head(self, job: str) -> None:
        """As the kubelet, once the driver has ended with success."""
        last = Outcome(SUCCEEDED, checkpoint=CommittedCheckpoint(**CHECKPOINT))
        self.cluster.end_pod(self.cluster.head(job), code=0, outcome=last)

    def workload(self, job: str) -> Object:
        found = self.kueue.find(job)
        assert found is not None, f"{job} has no Workload"
        return found

    def is_admitted(self, job: str) -> bool:
        found = self.kueue.find(job)
        return found is not None and is_true(found, "Admitted")

    def holds_quota(self, job: str) -> bool:
        found = self.kueue.find(job)
        return found is not None and holds_quota(found)

    def reason(self, job: str, type_: str) -> str:
        """The status and the reason of a condition of the job's Workload."""
        found = find_condition(self.workload(job), type_)
        return f"{found['status']}: {found['reason']}" if found else ""

    def occupy(self, *, gpus: int = QUOTA, name: str = "other", **spec: Any) -> None:
        """Another owner's Workload asks for quota, and has it if it is free, before a job of the same second."""
        self.kueue.submit(build_workload(name, pod_sets=[build_pod_set("main", count=gpus, gpus=1)], **spec))
        self.kueue.settle()

    def preempt(self, job: str) -> None:
        """A Workload with a higher priority takes all quota, as soon as this job releases it."""
        self.occupy(name="urgent", priority=1000)
        self.until(f"{job} is evicted", lambda: is_true(self.workload(job), "Evicted"))

    def check_quota(self) -> None:
        """In the end no job holds quota without pods."""

        def find() -> list[str]:
            owners = {
                owner["name"]
                for each in self.kueue.list().values()
                if holds_quota(each)
                for owner in each["metadata"].get("ownerReferences", ())
            }
            return [job for job in owners if not self.cluster.pods(job)]

        self.until("no quota is held by a job without pods", lambda: not find())
