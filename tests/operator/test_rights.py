"""The operator's rights, as real jobs use them: none is missing, and none is unused.

Cluster-wide as the manifests have them, and for one namespace as the chart has them, each on
the API server's audit log.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from railhead.local.control_plane import ControlPlane
from railhead.local.install import NAMESPACE, load_manifests
from railhead.resources.gangs.schedulers import SCHEDULERS
from tests.api.server import ApiServer
from tests.chart.chart import Rendered
from tests.operator.account import make_account
from tests.operator.audit import TEAM_NAMESPACE, AuditLog, Request
from tests.operator.cluster import Cluster
from tests.operator.conftest import LED, make_cluster
from tests.operator.pod_groups import install_pod_groups
from tests.operator.running import RunningOperator
from tests.operator.test_crowd import meet_stranger
from tests.operator.test_source import SOURCE, make_code
from tests.operator.test_writes import play
from tests.waiting import wait_until

# Asked for by admission (OwnerReferencesPermissionEnforcement) when a child names its owner, never by a request.
WITHOUT_REQUEST = {("update", "railhead.dev", "trainjobs/finalizers")}
NUMBERS = itertools.count(1)
CHART = Path(__file__).resolve().parents[2] / "charts" / "railhead"
SOMEWHERE = "https://reports.example:8443"
Right = tuple[str, str, str]


def granted(rendered: Rendered) -> set[Right]:
    """The rights bound to the operator, without the roles for users."""
    return {right[1:] for kind in ("Role", "ClusterRole") for right in rendered.grants(kind)}


def right_of(request: Request) -> Right:
    return request.verb, request.group, request.resource


def live(cluster: Cluster, second: RunningOperator, asked: Callable[[], list[Request]]) -> None:
    """Jobs with code in a ConfigMap, jobs that are gangs, two operators, another owner's pod, a new certificate."""
    install_pod_groups(cluster.server)
    cluster.apply("silent")
    cluster.wait_pods("silent", 3)
    cluster.bind_pod(cluster.head("silent"))
    make_code(cluster, **{"steps.py": ""})
    play(cluster, "rights", source=SOURCE)
    cluster.change("rights", keepPodsSeconds=0)
    wait_until("its children are removed", lambda: cluster.status("rights").get("cleanUpTime"))
    cluster.change("rights", ttlSecondsAfterFinished=0)
    wait_until("it is deleted", lambda: ("delete", "railhead.dev", "trainjobs") in {right_of(r) for r in asked()})
    for scheduler in ("Auto", *SCHEDULERS):
        cluster.apply(scheduler.lower(), scheduling={"gangScheduler": scheduler})
        cluster.wait_pods(scheduler.lower(), 3)
        assert cluster.status(scheduler.lower()).get("gangScheduler") == {"Auto": "PodGroup"}.get(scheduler)
        cluster.change(scheduler.lower(), suspend=True)
        cluster.wait_phase(scheduler.lower(), "Suspended")
    wait_until("a pod's events", lambda: ("list", "", "events") in {right_of(r) for r in asked()})
    wait_until("a lost compare", lambda: lose_compare(cluster, asked))
    second.stop()
    meet_stranger(cluster)
    wait_until("a look at a Service that exists", lambda: ("get", "", "services") in {right_of(r) for r in asked()})
    cluster.operator.stop()
    cluster.operator.start(report_url=SOMEWHERE)
    cluster.operator.stop()
    cluster.operator.start()


def lose_compare(cluster: Cluster, asked: Callable[[], list[Request]]) -> bool:
    """One more job for both operators; returns whether one of them lost a compare."""
    name = f"both-{next(NUMBERS)}"
    cluster.apply(name)
    cluster.wait_pods(name, 3)
    return any(right_of(request) == ("get", "railhead.dev", "trainjobs") for request in asked())


def check_rights(rights: set[Right], asked: list[Request]) -> None:
    assert not {right_of(r) for r in asked if r.is_forbidden}
    assert not any("*" in right for right in rights)
    assert rights - {right_of(r) for r in asked} == WITHOUT_REQUEST


def of(audit: AuditLog, namespace: str) -> Callable[[], list[Request]]:
    """The requests so far of the operator in this namespace."""
    return lambda: [r for r in audit.requests() if r.user.split(":")[2] == namespace]


def test_every_right_is_used_and_none_is_missing(
    cluster: Cluster, second_operator: RunningOperator, audit: AuditLog
) -> None:
    asked = of(audit, NAMESPACE)
    live(cluster, second_operator, asked)
    check_rights(granted(Rendered(load_manifests())), asked())


@pytest.fixture
def team(
    audited_plane: tuple[ControlPlane, AuditLog], server: ApiServer, operator: RunningOperator, tmp_path: Path
) -> Iterator[Team]:
    """The chart's roles for one namespace, and an operator with only those; the other tests' operator rests."""
    plane = audited_plane[0]
    cluster = make_cluster(server, operator)
    values = {"watchNamespaces": [cluster.namespace]}
    kubeconfig = tmp_path / "team.kubeconfig"
    with make_account(plane, TEAM_NAMESPACE, values, kubeconfig) as rendered:
        flags = [arg for arg in rendered.container["args"] if arg.startswith("--watch-namespace")]
        assert len(flags) == 1
        first, second = (
            RunningOperator(kubeconfig, tmp_path / name, namespace=TEAM_NAMESPACE, flags=flags)
            for name in ("first", "second")
        )
        operator.rest()
        try:
            first.start()
            second.start(report_url=first.report_url, flags=LED)
            wait_until("its lead", lambda: "leading as" in second.log.read_text())
            yield Team(replace(cluster, operator=first), second, granted(rendered))
        finally:
            first.stop()
            second.stop()


@dataclass(frozen=True)
class Team:
    """One namespace with its own operators, the first of which does not know of the second."""

    cluster: Cluster
    second: RunningOperator
    rights: set[Right]


def test_an_operator_for_one_namespace_uses_its_roles_and_no_others(
    team: Team, server: ApiServer, audit: AuditLog
) -> None:
    """Each job has its NetworkPolicy here."""
    other = make_cluster(server, team.cluster.operator)
    other.apply("untouched")
    asked = of(audit, TEAM_NAMESPACE)
    live(team.cluster, team.second, asked)
    check_rights(team.rights, asked())
    assert {r.namespace for r in asked()} <= {team.cluster.namespace, TEAM_NAMESPACE, ""}
    assert {right_of(r) for r in asked() if not r.namespace} == {("create", "authentication.k8s.io", "tokenreviews")}
    assert other.status("untouched") == {"observedGeneration": -1, "attempt": 0, "round": 0}
    made, removed = (
        [r for r in asked() if right_of(r) == (verb, "networking.k8s.io", "networkpolicies") and r.code == code]
        for verb, code in (("create", 201), ("delete", 200))
    )
    path = f"/apis/networking.k8s.io/v1/namespaces/{team.cluster.namespace}/networkpolicies"
    policies = server.request("GET", path).body["items"]
    assert len(made) - len(removed) == len(policies) > 0
    assert len(removed) == 1
    assert all(policy["spec"]["policyTypes"] == ["Ingress"] for policy in policies)


def test_secrets_are_read_in_the_operators_own_namespace_only(cluster: Cluster, audit: AuditLog) -> None:
    play(cluster, "secret")
    read = {r.namespace for r in of(audit, NAMESPACE)() if r.resource == "secrets" and r.verb != "create"}
    assert read <= {NAMESPACE}
