"""TrainJobs in every state that GitOps tools distinguish, as a real operator leaves them on a real API server.

tests/unit/gitops holds them as they were saved from here, and checks how the tools rate them.
A run compares; with RAILHEAD_SAVE_STATES=1 it writes them again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.planning.amendments.announcements import TYPES
from tests.operator.cluster import Cluster, Object
from tests.operator.test_refusals import admission, limit_cpus, protection
from tests.waiting import wait_until

SAVED = Path(__file__).resolve().parents[1] / "unit" / "gitops" / "states.yaml"
HEADER = "# Saved from real runs by RAILHEAD_SAVE_STATES=1 pytest tests/operator/test_states.py; do not edit.\n"
KEPT = ("observedGeneration", "phase", "attempt", "round", "conditions")
TIME = "2026-01-01T00:00:00Z"
RAISED = Outcome("Application", reason="TrainFunctionRaised", message="ValueError: no rails")
HOLD = "railhead.test/hold"
States = Iterator[tuple[str, Object]]


def test_the_saved_states_are_those_of_real_runs(cluster: Cluster) -> None:
    scenarios = (
        refused(cluster),
        runs_well(cluster),
        fails(cluster),
        rests(cluster),
        warned(cluster),
        is_deleted(cluster),
        hindered(cluster),
        throttled(cluster),
    )
    states = [simplify(name, job) for scenario in scenarios for name, job in scenario]
    if os.environ.get("RAILHEAD_SAVE_STATES"):
        SAVED.write_text(HEADER + yaml.safe_dump(states, sort_keys=False, width=120))
    saved = {state["name"]: state for state in yaml.safe_load(SAVED.read_text())}
    for state in states:
        assert state == saved.get(state["name"]), f"save it again: RAILHEAD_SAVE_STATES=1 pytest {Path(__file__).name}"
    assert len(saved) == len(states)


def simplify(name: str, job: Object) -> Object:
    """What tools look at, without what differs from run to run."""
    metadata = job["metadata"]
    status = {key: value for key, value in job["status"].items() if key in KEPT}
    for condition in status.get("conditions", []):
        condition["lastTransitionTime"] = TIME
        condition["message"] = condition["message"].replace(names.tag(metadata["uid"]), "3f2a9c")
        condition["message"] = condition["message"].replace(f"namespace {metadata['namespace']}", "namespace team")
        condition["message"] = re.sub(r"'railhead-\S*'|'[a-z-]+[0-9a-f]+'", "'policy'", condition["message"])
    is_deleted = {"deletionTimestamp": TIME} if "deletionTimestamp" in metadata else {}
    return {"name": name, "generation": metadata["generation"], **is_deleted, "status": status}


def wait_condition(cluster: Cluster, job: str, type_: str, status: str = "True") -> Object:
    """The job, once it has the condition."""

    def ask() -> Object | None:
        found = cluster.job(job)
        conditions = found["status"].get("conditions") or []
        return found if any((c["type"], c["status"]) == (type_, status) for c in conditions) else None

    found: Object = wait_until(f"{type_}={status} of {job}", ask, tell=lambda: str(cluster.status(job)))
    return found


def pods_of(cluster: Cluster, job: str, attempt: int) -> list[Object]:
    found = cluster.pods(job).values()
    return [pod for pod in found if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == str(attempt)]


def train(cluster: Cluster, job: str, *, attempt: int = 1, **fields: Any) -> None:
    """The attempt's pods run, and its driver reports that it trains."""
    wait_until("the pods", lambda: len(pods_of(cluster, job, attempt)) == 2)
    for pod in pods_of(cluster, job, attempt):
        cluster.bind_pod(pod)
        cluster.run_pod(pod)
    [head] = [pod for pod in pods_of(cluster, job, attempt) if pod["metadata"]["name"].endswith("-head")]
    wait_until(
        "the head in the status", lambda: cluster.status(job).get("head", {}).get("pod") == head["metadata"]["name"]
    )
    assert cluster.report(job, token=cluster.token_of(head), attempt=attempt, reports=1, joined=1, **fields) == 202
    wait_condition(cluster, job, "Running")


def runs_well(cluster: Cluster) -> States:
    yield "not seen by any operator", cluster.apply("well", workers=1)
    for pod in cluster.wait_pods("well", 2).values():
        cluster.run_pod(pod)
    cluster.wait_phase("well", "Starting")
    yield "starting", cluster.job("well")
    head = cluster.head("well")
    assert cluster.report("well", token=cluster.token_of(head), reports=1, joined=1) == 202
    yield "running", wait_condition(cluster, "well", "Running")
    cluster.end_pod(head, code=0, outcome=Outcome(SUCCEEDED, reports=1))
    yield "succeeded", wait_condition(cluster, "well", "Complete")


def fails(cluster: Cluster) -> States:
    cluster.apply("bad", workers=1, backoffLimit=1)
    train(cluster, "bad")
    cluster.end_pod(cluster.head("bad"), code=FailureClass("Application").exit_code, outcome=RAISED)
    yield "restarting after a loss", wait_condition(cluster, "bad", "Reconciling")
    for pod in pods_of(cluster, "bad", 1):
        cluster.remove_pod(pod)
    train(cluster, "bad", attempt=2)
    [head] = [pod for pod in pods_of(cluster, "bad", 2) if pod["metadata"]["name"].endswith("-head")]
    cluster.end_pod(head, code=FailureClass("Application").exit_code, outcome=RAISED)
    yield "failed", wait_condition(cluster, "bad", "Failed")


def rests(cluster: Cluster) -> States:
    cluster.apply("rests", workers=1)
    train(cluster, "rests")
    yield "running, with a change that was not seen", cluster.change("rests", suspend=True)
    cluster.wait_phase("rests", "Suspending")
    yield "suspending", cluster.job("rests")
    cluster.end_pod(
        cluster.head("rests"),
        code=FailureClass.PREEMPTION.exit_code,
        outcome=Outcome("Preemption", reason="Terminated"),
    )
    wait_until(
        "the deletion of all pods",
        lambda: all("deletionTimestamp" in p["metadata"] for p in cluster.pods("rests").values()),
    )
    for pod in cluster.pods("rests").values():
        cluster.remove_pod(pod)
    yield "suspended", wait_condition(cluster, "rests", "Suspended")


def warned(cluster: Cluster) -> States:
    warnings = {
        "running, though the run cannot resume": {"reason": "RunNameDiffers", "message": "The run cannot resume."},
        "running from an older checkpoint": {"reason": "CheckpointMissing", "message": "A checkpoint is gone."},
        "running with a Ray that cannot announce the end": {"reason": "EndNotAnnounced", "message": "Ray is old."},
        "running with a Ray that is newer than tested": {"reason": "RayNewerThanTested", "message": "Ray is new."},
        "running while the storage is full": {"reason": "CheckpointNotWritten", "message": "No space left on device."},
        "running, though it may hang": {"reason": "NoSteps", "message": "Rank 1 is at t.py:4."},
        "running while a metric rule fires": {"reason": "MetricRule", "message": "rule nan: loss is NaN at step 4"},
    }
    for number, (name, warning) in enumerate(warnings.items()):
        job = f"warned-{number}"
        cluster.apply(job, workers=1)
        train(cluster, job, warning=warning, state="RUNNING")
        wait_until(name, partial(has_warning, cluster, job))
        yield name, cluster.job(job)


def is_deleted(cluster: Cluster) -> States:
    cluster.apply("leaves", workers=1)
    train(cluster, "leaves")
    cluster.hold("leaves", HOLD)
    yield "being deleted", cluster.delete("leaves")
    cluster.hold("leaves")


def hindered(cluster: Cluster) -> States:
    """By what other people do in its namespace."""
    cluster.apply("hindered", workers=1)
    train(cluster, "hindered")
    cluster.make_pod("copy", **{names.LABEL_JOB_UID: cluster.job("hindered")["metadata"]["uid"]})
    yield "running beside a foreign pod", wait_condition(cluster, "hindered", "ForeignPods")
    [worker] = [name for name in cluster.pods("hindered") if name.endswith("-w0-0")]
    probe = f"/api/v1/namespaces/{cluster.namespace}/pods/{worker}?dryRun=All"
    with admission(
        cluster, protection(cluster), is_active=lambda: cluster.server.request("DELETE", probe).status >= 400
    ):
        cluster.end_pod(cluster.head("hindered"), code=0, outcome=Outcome(SUCCEEDED, reports=1))
        yield "succeeded, with a pod that a policy protects", wait_condition(cluster, "hindered", "DeleteDenied")
        assert worker in cluster.pods("hindered")
    wait_until(
        "the deletion of the worker", lambda: "deletionTimestamp" in cluster.pods("hindered")[worker]["metadata"]
    )


def throttled(cluster: Cluster) -> States:
    """By a LimitRange, which is in force for all that come later."""
    limit_cpus(cluster, "7")
    cluster.apply("throttled", workers=1)
    train(cluster, "throttled")
    yield "running with a CPU limit from a LimitRange", wait_condition(cluster, "throttled", "CPULimited")


def has_warning(cluster: Cluster, job: str) -> bool:
    return any(c["type"] in TYPES for c in cluster.status(job)["conditions"])


def refused(cluster: Cluster) -> States:
    """By what only the operator can know."""
    trainer = {"trainFunc": "digits:train_func", "trainLoopConfig": {"text": "x" * 140_000}}
    cluster.apply("refused", workers=1, trainer=trainer)
    yield "refused by the operator", wait_condition(cluster, "refused", "Stalled")
