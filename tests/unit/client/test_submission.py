"""The job that `submit` creates, and when one of its name is the same."""

from __future__ import annotations

import pytest

from railhead.api.base import Object
from railhead.api.job import parse_spec
from railhead.client.errors import ClientError, ExitCode
from railhead.client.submission import CONTENT, Script, build_job, check_existing, describe_plan, mark

SCRIPT = Script("src/my_train.py:train_func", "code", "registry.example/train:1", "s3://b/runs", workers=4, gpus=2)


def test_a_script_becomes_a_valid_job() -> None:
    job = build_job(SCRIPT)
    assert job["metadata"]["name"] == "my-train"
    spec = parse_spec(job["spec"], name="my-train")
    assert spec.trainer.train_func == "my_train:train_func"
    assert job["spec"]["source"] == {"inline": {"my_train.py": "code"}}


@pytest.mark.parametrize("target", ["train.py", "train:main", "my-train.py:main", "train.py:a.b", "x.txt"])
def test_another_target_is_refused(target: str) -> None:
    with pytest.raises(ClientError, match=r"as in train.py:train_func") as error:
        build_job(Script(target, "", "i", "s"))
    assert error.value.code == ExitCode.USAGE


def make_existing(job: Object, **status: object) -> Object:
    """The job as the API server stores it, with a default."""
    return {**job, "spec": {**job["spec"], "backoffLimit": 3}, "status": status}


def test_the_same_job_is_recognised_also_after_a_change_of_the_stored_one() -> None:
    new = mark(build_job(SCRIPT))
    old = make_existing(new, phase="Suspended")
    old["spec"]["suspend"] = True
    assert check_existing(new, old) == "my-train is this job already, in phase Suspended"


def test_a_job_that_another_tool_created_is_compared_by_its_fields() -> None:
    new, old = mark(build_job(SCRIPT)), make_existing(build_job(SCRIPT))
    assert "is this job already" in check_existing(new, old)
    old["spec"]["image"] = "other"
    with pytest.raises(ClientError, match=r'spec.image: "registry.example/train:1" instead of "other"'):
        check_existing(new, old)


@pytest.mark.parametrize("change", [{"image": "other"}, {"suspend": None}])
def test_another_job_of_the_name_is_refused_with_the_difference(change: Object) -> None:
    new = build_job(SCRIPT)
    old = make_existing(mark({**new, "spec": {**new["spec"], **change}}))
    with pytest.raises(ClientError, match="exists with another spec") as error:
        check_existing(mark(new), old)
    assert error.value.code == ExitCode.REFUSED


def test_a_finished_job_is_not_created_again() -> None:
    new = mark(build_job(SCRIPT))
    failed = [{"type": "Failed", "status": "True", "reason": "x"}]
    with pytest.raises(ClientError, match=r"has finished .Failed.; run `railhead retry my-train`"):
        check_existing(new, make_existing(new, phase="Failed", conditions=failed))


def test_the_digest_depends_on_the_spec_only() -> None:
    job = build_job(SCRIPT)
    marked = mark(job)["metadata"]["annotations"][CONTENT]
    assert mark({**job, "metadata": {"name": "other"}})["metadata"]["annotations"][CONTENT] == marked
    assert mark({**job, "spec": {}})["metadata"]["annotations"][CONTENT] != marked


@pytest.mark.parametrize(
    ("scaling", "pods", "per_worker", "devices"),
    [
        ({"numWorkers": 2}, "1 head, 2 worker pods with 2 workers", "the defaults", "none"),
        ({"useGPU": True}, "1 head, 1 worker pods with 1 workers", "nvidia.com/gpu 1", "1 nvidia.com/gpu"),
        (
            {"numWorkers": 8, "workersPerPod": 4, "useGPU": True, "resourcesPerWorker": {"nvidia.com/gpu": "2"}},
            "1 head, 2 worker pods with 8 workers",
            "nvidia.com/gpu 2",
            "16 nvidia.com/gpu",
        ),
        (
            {"minWorkers": 2, "maxWorkers": 8, "workersPerPod": 2, "useGPU": True},
            "1 head, 1 to 4 worker pods with 2 to 8 workers",
            "nvidia.com/gpu 1",
            "8 nvidia.com/gpu at most",
        ),
        ({"resourcesPerWorker": {"a.b/c": "1k"}}, "1 head, 1 worker pods with 1 workers", "a.b/c 1k", "1000 a.b/c"),
        (
            {"useGPU": True, "gpuResourceName": "amd.com/gpu", "resourcesPerWorker": {"memory": "8Gi"}},
            "1 head, 1 worker pods with 1 workers",
            "memory 8Gi, amd.com/gpu 1",
            "1 amd.com/gpu",
        ),
    ],
)
def test_the_plan_has_pods_and_devices(scaling: Object, pods: str, per_worker: str, devices: str) -> None:
    plan = dict(describe_plan({**build_job(SCRIPT), "spec": {"scaling": scaling}}, "team-a"))
    assert (plan["Pods"], plan["Per worker"], plan["Devices"]) == (pods, per_worker, devices)
    assert (plan["Job"], plan["Code"]) == ("team-a/my-train", "in the image")
