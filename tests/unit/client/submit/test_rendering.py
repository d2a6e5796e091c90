"""`railhead render`: what the operator would create, by its own planner."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.submit.rendering import list_other_objects, read_jobs, render_job
from railhead.json_object import Object

SPEC = {
    "image": "registry.example/train:1",
    "trainer": {"trainFunc": "train:train_func"},
    "scaling": {"numWorkers": 2},
    "run": {"storagePath": "s3://bucket/runs"},
}
JOB: Object = {"metadata": {"name": "digits", "namespace": "team-a"}, "spec": SPEC}


def test_the_objects_are_those_of_the_first_attempt() -> None:
    found = [(body["kind"], body["metadata"]["name"].split("-")[-1]) for body in render_job(JOB)]
    assert [kind for kind, _ in found][:2] == ["Service", "ConfigMap"]
    assert [(kind, end) for kind, end in found if kind == "Pod"] == [("Pod", "head"), ("Pod", "0"), ("Pod", "0")]


def test_a_suspended_job_and_one_that_waits_for_a_checkpoint_are_rendered_as_when_they_start() -> None:
    job = {**JOB, "spec": {**SPEC, "suspend": True, "resumeFrom": {"trainJob": "other"}}}
    assert sum(body["kind"] == "Pod" for body in render_job(job)) == 3


def test_no_token_is_shown_and_long_contents_are_sizes() -> None:
    bodies = render_job(JOB)
    [secret] = [body for body in bodies if body["kind"] == "Secret"]
    assert set(secret["stringData" if "stringData" in secret else "data"].values()) == {"(hidden)"}
    [driver] = [body for body in bodies if "driver" in body["metadata"]["name"]]
    assert driver["binaryData"]["railhead.pyz"].endswith(" characters)")


def test_a_copied_config_map_names_its_source() -> None:
    job = {**JOB, "spec": {**SPEC, "source": {"configMap": {"name": "my-code"}}}}
    assert "(a copy of the ConfigMap my-code)" in [body.get("data") for body in render_job(job)]


def test_an_invalid_spec_names_the_field() -> None:
    job = {**JOB, "spec": {**SPEC, "scaling": {"numWorkers": 0}}}
    with pytest.raises(ClientError, match=r"digits: spec\.scaling\.numWorkers: ") as error:
        render_job(job)
    assert error.value.code == ExitCode.REFUSED


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod", "apiVersion: railhead.dev/v1alpha1\nkind: TrainJob"])
def test_a_file_without_a_job_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(ClientError) as error:
        read_jobs(tmp_path / "job.yaml")
    assert error.value.code == ExitCode.USAGE


def test_what_else_a_file_contains_is_named(tmp_path: Path) -> None:
    claim = "kind: PersistentVolumeClaim\nmetadata: {name: runs}\n"
    job = "apiVersion: railhead.dev/v1alpha1\nkind: TrainJob\nmetadata: {name: digits}\n"
    (tmp_path / "job.yaml").write_text(f"{claim}---\n{job}---\n---\n[1]\n")
    assert list_other_objects(tmp_path / "job.yaml") == ["PersistentVolumeClaim runs"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="cannot be read: No such file"):
        read_jobs(tmp_path / "job.yaml")
