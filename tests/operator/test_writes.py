"""What a job costs the API server, counted by the API server."""

from __future__ import annotations

from collections import Counter
from typing import Any

from railhead.contract.outcome import SUCCEEDED, Outcome
from railhead.contract.report import CommittedCheckpoint
from tests.operator.audit import WRITES, AuditLog
from tests.operator.cluster import Cluster
from tests.waiting import wait_until

WORKERS = 4
REPORTS = 3


def play(cluster: Cluster, name: str, **spec: Any) -> None:
    """A job from start to success, as kubelet and driver report it."""
    cluster.apply(name, workers=WORKERS, **spec)
    for pod in cluster.wait_pods(name, WORKERS + 1).values():
        cluster.run_pod(pod)
    cluster.wait_phase(name, "Starting")
    head = cluster.head(name)
    token = cluster.token_of(head)
    checkpoint = {"uri": "/runs/x/checkpoint_0", "index": 0, "time": "2026-01-01T00:00:02Z", "metrics": {}}
    for number in range(REPORTS):
        fields = {"reports": number + 1, "joined": WORKERS, "metrics": {"loss": str(number)}}
        assert cluster.report(name, token=token, **fields, checkpoint=checkpoint) == 202
        cluster.wait_reports(name, number + 1)
    cluster.wait_phase(name, "Running")
    last = CommittedCheckpoint("/runs/x/checkpoint_1", 1, "2026-01-01T00:00:02Z")
    cluster.end_pod(head, code=0, outcome=Outcome(SUCCEEDED, checkpoint=last, metrics={"loss": "0.1"}, reports=4))
    wait_until("the last event", lambda: "Succeeded" in {event["reason"] for event in cluster.events(name)})
    cluster.wait_pods(name, 1)


def wait_last_write(cluster: Cluster, audit: AuditLog) -> None:
    """The audit log shows the last deletes slightly after the list of pods."""
    wait_until("the last delete", lambda: count_writes(cluster, audit)["delete pods"] == WORKERS)


def count_writes(cluster: Cluster, audit: AuditLog) -> Counter[str]:
    """Granted writes, by kind."""
    counted: Counter[str] = Counter()
    for request in audit.requests(cluster.namespace):
        if (request.verb, request.resource, request.code) == ("create", "events", 409):
            continue  # it increments the count of an existing event
        if (request.verb, request.code) == ("get", 404):
            continue  # the first look at what all jobs of the namespace share
        assert request.code < 400, request
        if request.verb in WRITES:
            counted[" ".join(part for part in (request.verb, request.resource, request.manager) if part)] += 1
    return counted


def test_a_job_without_failures_costs_few_writes(cluster: Cluster, audit: AuditLog) -> None:
    play(cluster, "cheap")
    wait_last_write(cluster, audit)
    counted = count_writes(cluster, audit)
    assert counted.pop("create pods") == WORKERS + 1
    assert counted.pop("create events") == 3
    assert counted.pop("patch events") <= 1, "the last checkpoint"
    assert counted.pop("patch trainjobs/status") <= 4
    assert counted.pop("patch trainjobs/status railhead-reports") <= REPORTS
    assert counted.pop("delete pods") == WORKERS
    others = {key: counted.pop(key) for key in list(counted) if key.startswith("create ")}
    shared = Counter({"create services": 1, "create configmaps": 1})  # once per namespace
    assert Counter(others) - shared == {f"create {kind}": 1 for kind in ("configmaps", "networkpolicies", "secrets")}
    assert not counted, "writes of unexpected kinds"
    [commits] = [event for event in cluster.events("cheap") if event["reason"] == "CheckpointCommitted"]
    assert (commits["count"], commits["message"]) == (2, "Checkpoint 1 was committed: /runs/x/checkpoint_1")


def test_the_second_job_of_a_namespace_reuses_the_bundle(cluster: Cluster, audit: AuditLog) -> None:
    for name in ("first", "second"):
        cluster.apply(name, workers=1)
        cluster.wait_pods(name, 2)
    made = [r for r in audit.requests(cluster.namespace) if (r.verb, r.resource) == ("create", "configmaps")]
    codes = Counter(r.code for r in made)
    assert codes[201] == 3, "two inputs, one bundle"
    assert codes.total() - codes[201] <= codes[409] <= 1, "the operator remembers the bundle for a moment only"


def test_an_idle_job_costs_nothing(cluster: Cluster, other_cluster: Cluster, audit: AuditLog) -> None:
    """A restarted operator reconciles every job again and finds nothing to do."""
    play(cluster, "rests")
    wait_last_write(cluster, audit)
    before = count_writes(cluster, audit)
    cluster.operator.stop()
    cluster.operator.start()
    other_cluster.apply("later")  # seen after all objects from before the start
    other_cluster.wait_pods("later", 3)
    assert count_writes(cluster, audit) == before
