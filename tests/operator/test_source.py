"""Code in a ConfigMap: what the operator makes of it on a real API server, whatever becomes of it later."""

from __future__ import annotations

from railhead.api import names
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import Outcome
from tests.api.server import MERGE_PATCH
from tests.operator.stage import Object, Stage
from tests.waiting import wait_until

SOURCE = {"configMap": {"name": "code", "items": [{"key": "steps.py", "path": "pkg/steps.py"}]}}


def config_maps(stage: Stage, name: str = "") -> str:
    return f"/api/v1/namespaces/{stage.namespace}/configmaps" + (f"/{name}" if name else "")


def make_code(stage: Stage, **data: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": data}
    made = stage.server.request("POST", config_maps(stage), body)
    assert made.status == 201, made.message


def find_copy(stage: Stage, job: str) -> Object | None:
    name = names.source_name(job, stage.job(job)["metadata"]["uid"])
    answer = stage.server.request("GET", config_maps(stage, name))
    return answer.body if answer.status == 200 else None


def messages(stage: Stage, job: str, reason: str) -> list[str]:
    return [event["message"] for event in stage.events(job) if event["reason"] == reason]


def test_a_missing_config_map_is_said_and_the_job_starts_when_it_is_there(stage: Stage) -> None:
    stage.apply("waits", source=SOURCE)
    source = f"spec.source.configMap: ConfigMap {stage.namespace}/code"
    said = wait_until("the word", lambda: messages(stage, "waits", "SourceNotFound"))
    assert said == [f"{source} not found; create it"]
    assert stage.pods("waits") == {}
    make_code(stage, **{"other.py": ""})
    newest = [f"{source} has no key steps.py; add it"]  # in the same event
    wait_until("the next word", lambda: messages(stage, "waits", "SourceNotFound") == newest, seconds=90)
    assert stage.pods("waits") == {}
    patch = {"data": {"steps.py": "first"}}
    stage.server.request("PATCH", config_maps(stage, "code"), patch, content_type=MERGE_PATCH)
    wait_until("3 pods", lambda: len(stage.pods("waits")) == 3, seconds=90)
    assert stage.status("waits")["attempt"] == 1


def test_what_becomes_of_the_config_map_later_reaches_no_pod(stage: Stage) -> None:
    make_code(stage, **{"steps.py": "first", "other.py": "left out"})
    stage.apply("fixed", source=SOURCE)
    pods = stage.wait_pods("fixed", 3)
    copy = find_copy(stage, "fixed")
    assert copy is not None
    assert (copy["data"], copy["immutable"]) == ({"steps.py": "first"}, True)
    for pod in pods.values():
        [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "railhead-source"]
        assert volume["configMap"]["name"] == copy["metadata"]["name"]
        assert volume["configMap"]["items"] == [{"key": "steps.py", "path": "pkg/steps.py"}]
    changed = {"data": {"steps.py": "second"}}
    stage.server.request("PATCH", config_maps(stage, "code"), changed, content_type=MERGE_PATCH)
    lose_attempt(stage, "fixed", 1)
    assert find_copy(stage, "fixed") == copy
    stage.server.request("DELETE", config_maps(stage, "code"))
    lose_attempt(stage, "fixed", 2)
    assert find_copy(stage, "fixed") == copy
    assert messages(stage, "fixed", "SourceNotFound") == []


def lose_attempt(stage: Stage, job: str, attempt: int) -> None:
    """Its head ends; the next attempt's pods are made."""
    head = stage.head(job)
    lost = Outcome("Infrastructure", reason="RayHeadEnded", message="gone")
    stage.end_pod(head, code=FailureClass("Infrastructure").exit_code, outcome=lost)
    following = f"-{attempt + 1}-"
    wait_until(f"attempt {attempt + 1}", lambda: sum(following in n for n in stage.pods(job)) == 3, seconds=60)
