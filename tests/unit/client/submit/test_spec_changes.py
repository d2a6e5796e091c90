"""`--set`, and the job that `retry` creates."""

from __future__ import annotations

import pytest
import yaml

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.spec_changes import JSONLoader, build_retry, merge, name_retry, parse_changes, parse_config
from railhead.json_object import Object
from tests.unit.client.jobs import make_failed, make_running


@pytest.mark.parametrize(
    ("texts", "changes"),
    [
        (["image=a:1"], {"image": "a:1"}),
        (["spec.backoffLimit=6"], {"backoffLimit": 6}),
        (["scaling.resourcesPerWorker.memory=64Gi"], {"scaling": {"resourcesPerWorker": {"memory": "64Gi"}}}),
        (['scaling.resourcesPerWorker."nvidia.com/gpu"=2'], {"scaling": {"resourcesPerWorker": {"nvidia.com/gpu": 2}}}),
        (["env=[{name: A, value: b=c}]"], {"env": [{"name": "A", "value": "b=c"}]}),
        (["env=[{name: DAY, value: 2026-11-25}]"], {"env": [{"name": "DAY", "value": "2026-11-25"}]}),
        (["runtimeEnv=null"], {"runtimeEnv": None}),
        (["worker.a=1", "worker.b=x"], {"worker": {"a": 1, "b": "x"}}),
        ([], {}),
    ],
)
def test_changes_become_one_object(texts: list[str], changes: Object) -> None:
    assert parse_changes(texts) == changes


@pytest.mark.parametrize("texts", [["image"], ["=x"], ["spec.=x"], ["a=[1"], ["a=1", "a.b=2"]])
def test_a_change_that_cannot_be_read_is_named(texts: list[str]) -> None:
    with pytest.raises(ClientError, match="--set") as error:
        parse_changes(texts)
    assert error.value.code == ExitCode.USAGE


def test_merge_follows_json_merge_patch() -> None:
    base = {"a": {"b": 1, "c": 2}, "d": [1], "e": 1}
    assert merge(base, {"a": {"b": None, "x": 3}, "d": [2], "e": {"f": 1}}) == {
        "a": {"c": 2, "x": 3},
        "d": [2],
        "e": {"f": 1},
    }
    assert base["a"] == {"b": 1, "c": 2}, "the base is unchanged"


@pytest.mark.parametrize(
    ("name", "next_"),
    [
        ("digits", "digits-r2"),
        ("digits-r2", "digits-r3"),
        ("digits-r9", "digits-r10"),
        ("a" * 38, "a" * 35 + "-r2"),
        ("a" * 34 + "-bcd", "a" * 34 + "-r2"),
        ("r2", "r2-r2"),
    ],
)
def test_the_next_name(name: str, next_: str) -> None:
    assert name_retry(name) == next_
    assert len(name_retry(name)) <= 38


def test_a_retry_continues_from_the_checkpoint_and_does_not_belong_to_the_tool_of_the_first_job() -> None:
    job = make_failed("OutOfMemory", "OOMKilled")
    job["status"]["checkpoint"] = {"uri": "s3://b/c_4", "index": 4}
    job["spec"] |= {"suspend": False, "run": {"name": "fixed", "storagePath": "s3://b"}}
    job["metadata"]["labels"] = {"team": "a", "app.kubernetes.io/instance": "argo", "kueue.x-k8s.io/queue-name": "q"}
    job["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "railhead.dev/content": "digest",
        "railhead.dev/code-pending": "digits-code-1",
        "note": "n",
    }
    new = build_retry(job, {"scaling": {"resourcesPerWorker": {"memory": "64Gi"}}})
    assert new["metadata"] == {
        "name": "digits-r2",
        "namespace": "team-a",
        "labels": {"team": "a", "kueue.x-k8s.io/queue-name": "q"},
        "annotations": {"note": "n", "railhead.dev/retry-of": "digits"},
    }
    assert new["spec"]["resumeFrom"] == {"checkpoint": "s3://b/c_4"}
    assert new["spec"]["run"] == {"storagePath": "s3://b"}
    assert new["spec"]["scaling"] == {"numWorkers": 2, "resourcesPerWorker": {"memory": "64Gi"}}
    assert "suspend" not in new["spec"]
    assert "status" not in new


def test_a_retry_without_a_checkpoint_keeps_where_the_first_job_began() -> None:
    job = make_failed("Configuration", "RayTooOld")
    job["spec"]["resumeFrom"] = {"trainJob": "other"}
    assert build_retry(job, {}, "again")["spec"]["resumeFrom"] == {"trainJob": "other"}
    assert build_retry(job, {}, "again")["metadata"]["name"] == "again"


def test_a_job_that_runs_is_not_retried() -> None:
    with pytest.raises(ClientError, match=r"has not finished .phase Running.*railhead suspend digits") as error:
        build_retry(make_running(), {})
    assert error.value.code == ExitCode.REFUSED


@pytest.mark.parametrize("text", ["lr", "=0.1", "lr=[1"])
def test_a_hyperparameter_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ClientError, match=r"^--config"):
        parse_config([text])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        ("-.5e-3", -0.0005),
        ("0.1", 0.1),
        ("1.", 1.0),
        ("3", 3),
        ("-7", -7),
        ("0x1F", 31),
        ("1_000", 1000),
        ("12:30", "12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("2026-11-25", "2026-11-25"),
        ("1e", "1e"),
        ("e3", "e3"),
        ("1.5.2", "1.5.2"),
        ("true", True),
        ("null", None),
    ],
)
def test_yaml_has_the_types_that_kubectl_gives_it(text: str, value: object) -> None:
    found = yaml.load(text, JSONLoader)
    assert (found, type(found)) == (value, type(value))
