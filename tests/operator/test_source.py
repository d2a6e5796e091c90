"""Code in a ConfigMap: how the operator uses it on a real API server, even after changes."""

from __future__ import annotations

from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from tests.api.server import MERGE_PATCH
from tests.operator.cluster import Cluster, Object
from tests.waiting import wait_until

SOURCE = {"configMap": {"name": "code", "items": [{"key": "steps.py", "path": "pkg/steps.py"}]}}


def config_maps(cluster: Cluster, name: str = "") -> str:
    return f"/api/v1/namespaces/{cluster.namespace}/configmaps" + (f"/{name}" if name else "")


def make_code(cluster: Cluster, **data: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": data}
    made = cluster.server.request("POST", config_maps(cluster), body)
    assert made.status == 201, made.message


def find_copy(cluster: Cluster, job: str) -> Object | None:
    name = cluster.status(job).get("source", "none-yet")
    answer = cluster.server.request("GET", config_maps(cluster, name))
    return answer.body if answer.status == 200 else None


def messages(cluster: Cluster, job: str, reason: str) -> list[str]:
    return [event["message"] for event in cluster.events(job) if event["reason"] == reason]


def test_a_missing_config_map_is_reported_and_the_job_starts_when_it_exists(cluster: Cluster) -> None:
    cluster.apply("waits", source=SOURCE)
    source = f"spec.source.configMap: ConfigMap {cluster.namespace}/code"
    found = wait_until("the message", lambda: messages(cluster, "waits", "SourceNotFound"))
    again = "the job holds no pods meanwhile, and the next try follows within 30 s"
    assert found == [f"{source} not found; create it; {again}"]
    assert cluster.pods("waits") == {}
    make_code(cluster, **{"other.py": ""})
    newest = [f"{source} has no key steps.py; add it; {again}"]  # in the same event
    wait_until("the next message", lambda: messages(cluster, "waits", "SourceNotFound") == newest, seconds=90)
    assert cluster.pods("waits") == {}
    patch = {"data": {"steps.py": "first"}}
    cluster.server.request("PATCH", config_maps(cluster, "code"), patch, content_type=MERGE_PATCH)
    wait_until("3 pods", lambda: len(cluster.pods("waits")) == 3, seconds=90)
    assert cluster.status("waits")["attempt"] == 1


def test_later_changes_of_the_config_map_reach_no_pod(cluster: Cluster) -> None:
    make_code(cluster, **{"steps.py": "first", "other.py": "left out"})
    cluster.apply("fixed", source=SOURCE)
    pods = cluster.wait_pods("fixed", 3)
    copy = find_copy(cluster, "fixed")
    assert copy is not None
    assert (copy["data"], copy["immutable"]) == ({"steps.py": "first"}, True)
    for pod in pods.values():
        [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "railhead-source"]
        assert volume["configMap"]["name"] == copy["metadata"]["name"]
        assert volume["configMap"]["items"] == [{"key": "steps.py", "path": "pkg/steps.py"}]
    changed = {"data": {"steps.py": "second"}}
    cluster.server.request("PATCH", config_maps(cluster, "code"), changed, content_type=MERGE_PATCH)
    lose_attempt(cluster, "fixed", 1)
    assert find_copy(cluster, "fixed") == copy
    cluster.server.request("DELETE", config_maps(cluster, "code"))
    lose_attempt(cluster, "fixed", 2)
    assert find_copy(cluster, "fixed") == copy
    assert messages(cluster, "fixed", "SourceNotFound") == []


def lose_attempt(cluster: Cluster, job: str, attempt: int) -> None:
    """Its head ends; the next attempt's pods are created."""
    head = cluster.head(job)
    lost = Outcome("Infrastructure", reason="RayHeadEnded", message="gone")
    cluster.end_pod(head, code=FailureClass("Infrastructure").exit_code, outcome=lost)
    following = f"-{attempt + 1}-"
    wait_until(f"attempt {attempt + 1}", lambda: sum(following in n for n in cluster.pods(job)) == 3, seconds=60)
