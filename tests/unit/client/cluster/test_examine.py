"""What `railhead doctor` reads, what it asks for, and what it may not read."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from railhead.api.served import PATH
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.examine import PROBES, READS, WRITES, examine
from railhead.client.cluster.readiness import ERROR, NOT_PERMITTED, OK, WARNING, Check
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.json_object import Object
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter
from railhead.resources.gangs.schedulers import SCHEDULERS
from tests.unit.client.jobs import make_job, make_running
from tests.unit.client.ready_cluster import Answers, FixedClient, make_deployment, make_node

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operate" / "doctor.md"
DENIED = Denied(403, "Forbidden", 'nodes is forbidden: User "guest" cannot list it')


async def find(answers: Answers | None = None) -> dict[str, Check]:
    client = FixedClient(answers or Answers())
    return {check.subject: check for check in await examine(Cluster(client, "team-a", "team-a"))}


async def test_a_ready_cluster_has_no_finding() -> None:
    checks = await find()
    assert {check.level for check in checks.values()} == {OK}
    assert list(checks) == ["Kubernetes", *PROBES]


async def test_it_creates_only_reviews_one_for_each_right() -> None:
    answers = Answers()
    await find(answers)
    assert answers.created == ["SelfSubjectAccessReview"] * len((*READS, *WRITES))


@pytest.mark.parametrize(
    ("resource", "subject"),
    [
        ("deployments", "Operator"),
        ("leases", "Leader"),
        ("trainjobs", "TrainJobs"),
        ("storageclasses", "Storage"),
        ("nodes", "GPUs"),
        ("daemonsets", "NetworkPolicy"),
        ("endpointslices", "DNS"),
    ],
)
async def test_what_may_not_be_read_is_not_permitted_and_nothing_else_changes(resource: str, subject: str) -> None:
    checks = await find(Answers(objects={resource: DENIED}))
    assert checks[subject].level == NOT_PERMITTED
    assert 'User "guest" cannot list it' in checks[subject].message
    assert {check.level for name, check in checks.items() if name != subject} == {OK}


async def test_a_part_that_does_not_answer_is_an_error() -> None:
    checks = await find(Answers(objects={"nodes": RetryAfter(503, "Unavailable", "etcd is away")}))
    assert (checks["GPUs"].level, checks["GPUs"].message) == (ERROR, "It could not be read: etcd is away.")


@pytest.mark.parametrize(
    ("error", "code"),
    [(RetryAfter(0, "NoAnswer", "refused"), ExitCode.UNREACHABLE), (Denied(401, "", "who?"), ExitCode.DENIED)],
)
async def test_without_an_answer_at_all_there_are_no_checks(error: Any, code: ExitCode) -> None:
    with pytest.raises(ClientError, match="cannot reach the API server") as raised:
        await find(Answers(paths={"/version": error}))
    assert raised.value.code == code


async def test_local_mode_needs_no_deployment_no_network_plugin_and_no_dns() -> None:
    node = make_node("local", "4")
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.36.1-railhead-local"}
    absent: dict[str, list[Object] | KubeError] = {"deployments": [], "daemonsets": [], "endpointslices": []}
    checks = await find(Answers(objects={**absent, "nodes": [node]}))
    assert {checks[subject].level for subject in ("Operator", "NetworkPolicy", "DNS")} == {OK}
    assert "Local mode runs the operator as a process" in checks["Operator"].message
    assert {*checks} == {"Kubernetes", *PROBES}
    elsewhere = await find(Answers(objects={**absent, "trainjobs": []}))
    assert (elsewhere["Operator"].level, elsewhere["DNS"].level) == (ERROR, WARNING)
    down = await find(Answers(objects={"nodes": [node], "deployments": [make_deployment(0)]}))
    assert down["Operator"].level == ERROR, "the chart is installed in local mode"


async def test_a_missing_or_an_older_definition_is_found() -> None:
    checks = await find(Answers(paths={PATH: Gone(404, "NotFound", "no")}))
    assert (checks["CRD"].level, "no CRD trainjobs.railhead.dev" in checks["CRD"].message) == (ERROR, True)
    checks = await find(Answers(paths={PATH: {}}))
    assert (checks["CRD"].level, "lacks what this command line" in checks["CRD"].message) == (WARNING, True)


@pytest.mark.parametrize(("job", "level"), [(make_job(), ERROR), (make_running(), WARNING)])
async def test_an_operator_without_a_deployment_is_known_by_its_jobs(job: Object, level: str) -> None:
    checks = await find(Answers(objects={"deployments": [], "trainjobs": [job]}))
    assert checks["Operator"].level == level


@pytest.mark.parametrize(
    ("denied", "level", "words"),
    [
        ((("trainjobs", "delete"), ("pods/exec", "create")), WARNING, "delete trainjobs, create pods/exec"),
        ((("pods/log", "get"),), ERROR, "get pods/log"),
    ],
)
async def test_missing_rights_are_named(denied: tuple[tuple[str, str], ...], level: str, words: str) -> None:
    check = (await find(Answers(denied=denied)))["Rights"]
    assert (check.level, words in check.message) == (level, True)


async def test_a_namespace_that_does_not_exist_is_an_error() -> None:
    assert (await find(Answers(level="")))["Pod Security"].message == "There is no namespace team-a."


@pytest.mark.parametrize(("resources", "is_served"), [([{"name": "podgroups"}], True), ([{"name": "other"}], False)])
async def test_a_group_version_counts_only_with_its_pod_groups(resources: Any, is_served: bool) -> None:
    paths: Any = {
        "/apis/kueue.x-k8s.io/v1beta2": {"resources": [{"name": "workloads"}]},
        "/apis/scheduling.k8s.io/v1beta1": {"resources": resources},
    }
    message = (await find(Answers(paths=paths)))["Gangs and queues"].message
    assert ("PodGroup (scheduling.k8s.io/v1beta1)" in message) is is_served
    assert "Kueue's queues are served" in message


KUEUE: dict[str, Object | KubeError] = {
    "/apis/kueue.x-k8s.io/v1beta2": {"resources": [{"name": "workloads"}, {"name": "localqueues"}]}
}


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ({}, WARNING),
        (Gone(404, "NotFound", 'localqueues "default" not found'), OK),
        (Denied(403, "Forbidden", "localqueues is forbidden"), NOT_PERMITTED),
    ],
)
async def test_a_local_queue_named_default_is_a_warning(answer: Object | KubeError, level: str) -> None:
    check = (await find(Answers(paths=KUEUE, default_queue=answer)))["Default queue"]
    assert check.level == level
    assert bool(check.remedy) == (level != OK)


async def test_without_kueue_nobody_asks_for_its_queues() -> None:
    check = (await find(Answers(default_queue=Denied(403, "Forbidden", "no such right"))))["Default queue"]
    assert check.level == OK


async def test_all_versions_of_pod_groups_are_asked_for_at_once() -> None:
    versions = {group.api_version for scheduler in SCHEDULERS.values() for group in scheduler.pod_groups}
    all_asked = asyncio.Barrier(len(versions))

    class WaitingClient(FixedClient):
        async def get_object(self, path: str) -> Object:
            if path.removeprefix("/apis/") in versions:
                await all_asked.wait()
            return await super().get_object(path)

    async with asyncio.timeout(10):
        await examine(Cluster(WaitingClient(Answers()), "team-a", "team-a"))


def test_the_page_has_each_check_in_its_order() -> None:
    table = PAGE.read_text().partition("| Check |")[2].partition("## ")[0]
    assert re.findall(r"^\| (?!-)([^|]+?) \|", table, re.MULTILINE) == ["Kubernetes", *PROBES]
