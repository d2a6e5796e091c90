"""What the parts of a cluster mean: each level of each check."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.client.cluster import readiness
from railhead.client.cluster.job_rows import read_row
from railhead.client.cluster.readiness import ERROR, OK, WARNING, Check
from railhead.json_object import Object
from tests.unit.client.jobs import NOW, make_job, make_running
from tests.unit.client.ready_cluster import DEFAULT, make_deployment, make_lease, make_node, make_object

PRESENT = {"nvidia.com/gpu.present": "true"}


def judge_nodes(*nodes: Object) -> Check:
    return readiness.judge_gpus([readiness.read_gpus(node) for node in nodes])


def make_namespace(level: str) -> Object:
    return make_object("a", labels={"pod-security.kubernetes.io/enforce": level})


@pytest.mark.parametrize(
    ("check", "level", "words"),
    [
        (readiness.judge_kubernetes({"minor": "31", "gitVersion": "v1.31.0"}), OK, "v1.31.0 answers"),
        (readiness.judge_kubernetes({"minor": "30+", "gitVersion": "v1.30.9"}), ERROR, "older than 1.31"),
        (readiness.judge_kubernetes({}), OK, ""),
        (readiness.judge_definition("", "0.1.0"), OK, "of Railhead 0.1.0 is served"),
        (readiness.judge_definition("spec.x: gone", ""), WARNING, "spec.x: gone"),
        (readiness.judge_operator([make_deployment()], has_seen_jobs=False), OK, "has 1 ready pods"),
        (readiness.judge_operator([make_deployment(0)], has_seen_jobs=True), ERROR, "has 0 ready pods"),
        (readiness.judge_operator([make_deployment(1, "0.0.9")], has_seen_jobs=True), WARNING, "0.0.9"),
        (readiness.judge_operator([], has_seen_jobs=True), WARNING, "has written the status"),
        (readiness.judge_operator([], has_seen_jobs=False), ERROR, "No Deployment"),
        (readiness.judge_leader([make_lease()], NOW), OK, "operator-1_a leads"),
        (readiness.judge_leader([make_lease(renewed="2026-11-25T11:58:46Z")], NOW), OK, "leads"),
        (readiness.judge_leader([make_lease(renewed="2026-11-25T11:58:44Z")], NOW), ERROR, "last renewed"),
        (readiness.judge_leader([make_lease(renewed="yesterday")], NOW), ERROR, "yesterday"),
        (readiness.judge_leader([make_lease(None)], NOW), ERROR, "is free"),
        (readiness.judge_leader([make_lease(None), make_lease()], NOW), OK, "leads"),
        (readiness.judge_leader([], NOW), WARNING, "no Lease"),
        (readiness.judge_rights([], [], "a"), OK, "read and change"),
        (readiness.judge_rights(["get x"], [], "a"), ERROR, "may not get x"),
        (readiness.judge_rights([], ["delete x"], "a"), WARNING, "may not delete x"),
        (readiness.judge_storage([make_object("s", annotations=DEFAULT)]), OK, "is s"),
        (readiness.judge_storage([make_object("s")]), WARNING, "None of the 1"),
        (
            judge_nodes(make_node("a", "4"), make_node("b", "4"), make_node("c")),
            OK,
            "2 of 3 nodes offer GPUs: 8 nvidia",
        ),
        (judge_nodes(make_node("a")), WARNING, "0 of 1 nodes"),
        (judge_nodes(make_node("a", "4"), make_node("b", **PRESENT)), WARNING, "b has GPUs and offer"),
        (judge_nodes(make_node("a", "0"), make_node("b", **PRESENT)), WARNING, "a, b have GPUs"),
        (judge_nodes(make_node("a", **{"nvidia.com/gpu.present": "false"})), WARNING, "0 of 1 nodes offer GPUs."),
        (readiness.judge_pod_security(make_namespace("baseline")), OK, "baseline"),
        (readiness.judge_pod_security(make_namespace("privileged")), WARNING, "enforces no Pod Security"),
        (readiness.judge_pod_security(make_object("a")), WARNING, "enforces no Pod Security"),
        (readiness.judge_network([make_object("cilium")]), OK, "cilium"),
        (readiness.judge_network([make_object("kube-flannel-ds")]), WARNING, "enforces no NetworkPolicy"),
        (readiness.judge_network([make_object("logs")]), WARNING, "is unknown"),
        (readiness.judge_dns([make_object("d", endpoints=[{"conditions": {"ready": True}}])]), OK, "1 ready"),
        (readiness.judge_dns([make_object("d", endpoints=[{"conditions": {"ready": False}}])]), ERROR, "no ready"),
        (readiness.judge_dns([make_object("d", endpoints=None)]), ERROR, "no ready"),
        (readiness.judge_dns([]), WARNING, "is unknown"),
        (readiness.judge_gangs([], has_kueue=False), OK, "No PodGroup"),
        (readiness.judge_gangs(["Volcano (v1)"], has_kueue=True), OK, "can be Volcano (v1); Kueue's queues are served"),
    ],
)
def test_a_part_has_the_level_and_is_described(check: Check, level: str, words: str) -> None:
    assert (check.level, words in check.message) == (level, True), check.message
    assert check.message.endswith(".")
    assert bool(check.remedy) or level == OK or check.subject in ("Operator", "Leader")


def test_a_job_that_no_operator_has_seen_for_a_minute_is_named() -> None:
    old, new, seen = make_job("old"), make_job("new"), make_running()
    new["metadata"]["creationTimestamp"] = "2026-11-25T11:59:30Z"
    rows = [read_row(job) for job in (old, new, seen)]
    check = readiness.judge_jobs(rows, NOW, "namespace a")
    assert (check.level, check.message) == (ERROR, "No operator has seen old in namespace a.")
    check = readiness.judge_jobs(rows[1:], NOW, "namespace a")
    assert (check.level, check.message) == (
        OK,
        "An operator has seen 1 TrainJobs in namespace a; 1 more are younger than a minute.",
    )


def test_long_lists_are_cut() -> None:
    rows = [read_row(make_job(f"j{number}")) for number in range(2000)]
    message = readiness.judge_jobs(rows, NOW, "all namespaces").message
    assert message == "No operator has seen j0, j1, j2, j3, j4 and 1995 more in all namespaces."


@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
@pytest.mark.parametrize("value", [None, "text", 3, [1], {"labels": 3, "allocatable": [], "conditions": 2}])
def test_parts_of_an_unexpected_type_count_as_absent(part: str, value: Any) -> None:
    obj: Object = {**make_lease(), part: value}
    checks = [
        readiness.judge_operator([obj], has_seen_jobs=False),
        readiness.judge_leader([obj], NOW),
        readiness.judge_storage([obj]),
        judge_nodes(obj),
        readiness.judge_pod_security(obj),
        readiness.judge_network([obj]),
        readiness.judge_dns([obj]),
    ]
    assert all(check.message for check in checks)
