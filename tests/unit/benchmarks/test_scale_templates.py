"""Copies of a real job, and what a subject's file means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.scale.present import Mix
from benchmarks.scale.subject import OURS, load_subject
from benchmarks.scale.templates import Template

OLD, NEW = "aaaaaa00-0000-4000-8000-000000000001", "bbbbbb00-0000-4000-8000-000000000002"
JOB = {
    "apiVersion": "example.com/v1",
    "kind": "Job",
    "metadata": {"name": "like-it", "uid": OLD, "labels": {"a": "b"}, "resourceVersion": "7"},
    "spec": {"suspend": False},
    "status": {"head": {"pod": "like-it-aaaaaa-1-head"}},
}
POD = {
    "metadata": {"name": "like-it-aaaaaa-1-head", "uid": "other", "labels": {"job": OLD, "of": "like-it"}},
    "spec": {"containers": []},
    "status": {"phase": "Running"},
}


def test_a_copy_has_its_own_name_and_uid_everywhere() -> None:
    template, copy = Template(JOB, (POD,)), {"metadata": {"name": "run-1", "uid": NEW}}
    assert template.build_status(copy) == {"head": {"pod": "run-1-bbbbbb-1-head"}}
    [pod] = template.build_pods(copy)
    assert pod["metadata"] == {"name": "run-1-bbbbbb-1-head", "labels": {"job": NEW, "of": "run-1"}}
    assert pod["status"] == {"phase": "Running"}


def test_a_copy_is_created_without_what_the_api_server_sets() -> None:
    job = json.loads(Template(JOB, ()).build_job("run-1"))
    assert job["metadata"] == {"labels": {"a": "b"}, "name": "run-1", "namespace": "bench"}
    assert "status" not in job


def test_the_kinds_of_jobs_add_up() -> None:
    assert Mix.split(10_000, running=10, suspended=45) == Mix(1000, 4500, 4500)
    assert Mix.split(3, running=50, suspended=50) == Mix(2, 2, 0)


def test_our_own_subject_names_all_that_can_be_measured() -> None:
    subject = load_subject(OURS)
    assert subject.metrics and subject.queue_depth and subject.pass_seconds and subject.reports
    assert subject.success is not None
    assert subject.name_of_jobs == "trainjobs"
    job = json.loads(subject.build_job("one", namespace="n", workers=2, is_suspended=True))
    assert job["metadata"] == {"name": "one", "namespace": "n"}
    assert job["spec"]["suspend"] is True and job["spec"]["scaling"] == {"numWorkers": 2}


def test_another_operators_file_may_lack_metrics(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(
        "name: other\ninstall: [a.yaml]\ncommand: [run]\nready: x\njobs: /apis/j\njob: ''\npods_per_job: 1\n"
    )
    subject = load_subject(path)
    assert (subject.metrics, subject.queue_depth, subject.reports, subject.success) == ("", "", "", None)
    assert subject.install == (tmp_path / "a.yaml",)
    with pytest.raises(KeyError):
        path.write_text("name: other\n")
        load_subject(path)
