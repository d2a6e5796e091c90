"""Scenarios of jobs on a real API server, many at once, each written as the actions of user, kubelet and driver.

A scenario is a generator: it takes its next step and yields while it waits for the operator. One loop
lists the jobs of this name and their pods in all namespaces, and advances every scenario.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.operator.cluster import Cluster, Object
from tests.operator.proxy import Ledger
from tests.waiting import NotInTime

JOB = "digits"
DIGEST = re.compile(r"(?<=-)[0-9a-f]{32}$")  # of the content, which names the job
REPORT_PAUSE_SECONDS = 1.0
LOOK_PAUSE_SECONDS = 0.2  # the operator needs the processors too, and each look lists all pods of all scenarios
RAISED = Outcome("Application", reason="TrainFunctionRaised", message="ValueError: no rails")
Scenario = Callable[["ScenarioRun"], Iterator[None]]


def checkpoint(index: int) -> Object:
    return {"uri": f"/runs/x/checkpoint_{index}", "index": index, "time": "2026-01-01T00:00:02Z", "metrics": {}}


@dataclass
class ScenarioRun:
    """One job in its own namespace, as last observed.

    Attributes:
        interlude: awaited once the first attempt trains, before anything happens to it.
        violations: of invariants, even momentary ones.
    """

    cluster: Cluster
    ledger: Ledger
    interlude: Callable[[], Iterator[None]] = lambda: iter(())
    job: Object | None = None
    pods: dict[str, Object] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    _reported_at: float = 0.0
    _uid: str = ""

    @property
    def status(self) -> Object:
        return (self.job or {}).get("status") or {}

    def look(self, job: Object | None, pods: list[Object]) -> None:
        """Every pod runs as soon as it exists."""
        self.job, self.pods = job, {p["metadata"]["name"]: p for p in pods}
        self._uid = str(job["metadata"]["uid"]) if job else self._uid
        heads = [name for name, pod in self.pods.items() if name.endswith("-head") and is_live(pod)]
        if len(heads) > 1:
            self.violations.append(f"two live heads: {heads}")
        for pod in pods:
            if "containerStatuses" not in pod["status"]:
                self.cluster.run_pod(pod)

    def head(self, attempt: int) -> Object:
        [head] = [pod for name, pod in self.pods.items() if name.endswith(f"-{attempt}-head")]
        return head

    def worker(self, slot: int) -> Object:
        [worker] = [pod for name, pod in self.pods.items() if f"-w{slot}-" in name]
        return worker

    def is_up(self, attempt: int, *, workers: int = 2) -> bool:
        """The status has the attempt, and exactly its pods run."""
        own = [p for p in self.pods.values() if p["metadata"]["labels"][names.LABEL_ATTEMPT] == str(attempt)]
        running = [p for p in own if p["status"].get("phase") == "Running"]
        return self.status.get("attempt") == attempt and len(running) == len(own) == workers + 1

    def until(self, what: Callable[[], Any]) -> Iterator[None]:
        while not what():
            yield

    def train(self, attempt: int) -> Iterator[None]:
        """Until the attempt is up, and its checkpoint is in the status."""
        yield from self.until(lambda: self.is_up(attempt))
        token, wanted = self.cluster.token_of(self.head(attempt)), {"attempt": attempt, "reports": 1}
        while not wanted.items() <= self.status.get("progress", {}).items():
            self._report(attempt, token)
            yield
        if attempt == 1:
            yield from self.interlude()

    def _report(self, attempt: int, token: str) -> None:
        """A driver repeats its last report; an operator that is down does not receive it."""
        if time.monotonic() - self._reported_at > REPORT_PAUSE_SECONDS:
            self._reported_at = time.monotonic()
            fields = {"reports": 1, "joined": 2, "checkpoint": checkpoint(attempt - 1)}
            try:
                self.cluster.report(JOB, token=token, attempt=attempt, **fields)
            except OSError:
                pass

    def succeed(self, attempt: int) -> Iterator[None]:
        """The driver's last report, and the status that follows."""
        last = Outcome(SUCCEEDED, checkpoint=CommittedCheckpoint(**checkpoint(9)), reports=2)
        self.cluster.end_pod(self.head(attempt), code=0, outcome=last)
        yield from self.until(lambda: self.status.get("phase") == "Succeeded" and len(self.pods) == 1)

    def summarize(self) -> Object:
        """Results that must be the same with and without faults."""
        tag = names.tag(self._uid)
        granted: Counter[str] = Counter()
        for (method, resource, name), count in self.ledger.granted.items():
            if method in ("POST", "DELETE") and resource != "events":
                granted[f"{method} {resource} {DIGEST.sub('digest', name.replace(tag, 'tag'))}"] += count
        status = self.status
        restarts = {key: count for key, count in (status.get("restarts") or {}).items() if count}
        return {
            "granted": dict(granted),
            "pods": sorted((name.replace(tag, "tag"), p["status"]["phase"]) for name, p in self.pods.items()),
            "status": {key: status.get(key) for key in ("phase", "attempt", "round")},
            "restarts": restarts,
            "checkpoint": (status.get("checkpoint") or {}).get("index"),
            "conditions": sorted((c["type"], c["status"], c["reason"]) for c in status.get("conditions") or []),
        }


def is_live(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def clean(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB)
    yield from run.train(1)
    yield from run.succeed(1)


def raises_once(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB, backoffLimit=1)
    yield from run.train(1)
    run.cluster.end_pod(run.head(1), code=FailureClass("Application").exit_code, outcome=RAISED)
    yield from run.train(2)
    yield from run.succeed(2)


def loses_a_worker(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB)
    yield from run.train(1)
    lost = run.worker(1)
    run.cluster.remove_pod(lost)
    yield from run.until(lambda: lost["metadata"]["name"] not in run.pods and run.is_up(1))
    yield from run.succeed(1)


def loses_its_head(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB)
    yield from run.train(1)
    run.cluster.remove_pod(run.head(1))
    yield from run.train(2)
    yield from run.succeed(2)


def rests(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB)
    yield from run.train(1)
    run.cluster.change(JOB, suspend=True)
    yield from run.until(lambda: run.status.get("phase") == "Suspended")
    run.cluster.change(JOB, suspend=False)
    yield from run.train(2)
    yield from run.succeed(2)


def fails(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB, backoffLimit=0)
    yield from run.train(1)
    run.cluster.end_pod(run.head(1), code=FailureClass("Application").exit_code, outcome=RAISED)
    yield from run.until(lambda: run.status.get("phase") == "Failed" and len(run.pods) == 1)


def is_deleted(run: ScenarioRun) -> Iterator[None]:
    run.cluster.apply(JOB)
    yield from run.train(1)
    run.cluster.delete(JOB)
    yield from run.until(lambda: run.job is None and not run.pods)


SCENARIOS: tuple[Scenario, ...] = (clean, raises_once, loses_a_worker, loses_its_head, rests, fails, is_deleted)


def play(runs: list[tuple[ScenarioRun, Scenario]], *, each_round: Callable[[], None], seconds: float = 120.0) -> None:
    """Until all scenarios have ended. `each_round` is called before every list of the cluster."""
    running = {run.cluster.namespace: (run, scenario(run)) for run, scenario in runs}
    server = runs[0][0].cluster.server
    deadline = time.monotonic() + seconds
    while running:
        each_round()
        found = server.list("/apis/railhead.dev/v1alpha1/trainjobs", fieldSelector=f"metadata.name={JOB}")
        jobs = {job["metadata"]["namespace"]: job for job in found}
        pods = server.list("/api/v1/pods", labelSelector=f"{names.LABEL_JOB_NAME}={JOB}")
        for namespace, (run, scenario) in list(running.items()):
            run.look(jobs.get(namespace), [p for p in pods if p["metadata"]["namespace"] == namespace])
            if next(scenario, "over") == "over":
                del running[namespace]
        time.sleep(LOOK_PAUSE_SECONDS)
        if time.monotonic() > deadline:
            states = [f"{s.ledger.trouble}: {s.summarize()}" for s, _ in running.values()]
            raise NotInTime(
                f"{len(running)} jobs do not come to their end within {seconds:.0f} s\n" + "\n".join(states[:5])
            )
