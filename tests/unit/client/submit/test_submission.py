"""The job that `submit` creates, and when one of its name is the same."""

from __future__ import annotations

import pytest

from railhead.api.parsed_spec import parse_spec
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.reader_job import build_reader
from railhead.client.submit.code_files import CodeFile
from railhead.client.submit.code_map import make_code_map
from railhead.client.submit.rendering import render_job
from railhead.client.submit.submission import (
    CONTENT,
    attach_code,
    build_job,
    change_job,
    check_existing,
    check_functions,
    describe_plan,
    list_claims,
    mark,
    split_target,
)
from railhead.json_object import Object

IMAGE = "registry.example/train:1"
JOB = build_job("src/my_train.py:train_func", "code", image=IMAGE, storage="s3://b/runs", workers=4, gpus=2)


def test_a_script_becomes_a_valid_job() -> None:
    job = JOB
    assert job["metadata"]["name"] == "my-train"
    spec = parse_spec(job["spec"], name="my-train")
    assert spec.trainer.train_func == "my_train:train_func"
    assert job["spec"]["source"] == {"inline": {"my_train.py": "code"}}


@pytest.mark.parametrize(
    ("storage", "path", "mounts"),
    [
        ("s3://b/runs", "s3://b/runs", []),
        ("/runs", "/runs", []),
        ("pvc:team-a", "/mnt/team-a", ["/mnt/team-a"]),
        ("pvc:team-a/llm/v2", "/mnt/team-a/llm/v2", ["/mnt/team-a"]),
    ],
)
def test_a_claim_is_mounted_in_all_pods_and_by_a_reader(storage: str, path: str, mounts: list[str]) -> None:
    job = build_job("a.py:f", "", image="i", storage=storage, workers=2)
    job["metadata"] |= {"namespace": "a", "uid": "0a1b2c3d-0000-0000-0000-000000000000"}
    assert job["spec"]["run"]["storagePath"] == path
    pods = [each["spec"] for each in render_job(job) if each["kind"] == "Pod"]
    assert len(pods) == 3
    for pod in pods:
        claims = {
            each["name"]: each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each
        }
        assert [each["claimName"] for each in claims.values()] == ["team-a"] * len(mounts)
        mounted = pod["containers"][0]["volumeMounts"]
        assert [each["mountPath"] for each in mounted if each["name"] in claims] == mounts
    if mounts:
        reader = build_reader(job, folder=f"{path}/a-run")["spec"]["template"]["spec"]
        assert reader["volumes"][0]["persistentVolumeClaim"]["claimName"] == "team-a"


@pytest.mark.parametrize("target", ["train.py", "train:main", "my-train.py:main", "train.py:a.b", "x.txt"])
def test_another_target_is_refused(target: str) -> None:
    with pytest.raises(ClientError, match=r"as in train.py:train_func") as error:
        build_job(target, "", image="i", storage="s")
    assert error.value.code == ExitCode.USAGE


def test_a_path_of_windows_is_split_at_its_last_colon() -> None:
    assert split_target("C:\\code\\train.py:main") == ("C:\\code\\train.py", "main")


@pytest.mark.parametrize(("size", "is_inline"), [(32_768, True), (32_769, False)])
def test_a_file_that_is_too_long_for_the_spec_needs_a_folder(size: int, is_inline: bool) -> None:
    def build() -> Object:
        return build_job("train.py:main", "x" * size, image="i", storage="s")

    if is_inline:
        assert len(build()["spec"]["source"]["inline"]["train.py"]) == size
    else:
        with pytest.raises(ClientError, match=r"train.py has 32769 bytes.*; add --code FOLDER"):
            build()


def test_a_script_in_a_folder_has_the_module_of_its_path_and_the_folder_as_source() -> None:
    code = make_code_map("train", [CodeFile("src/train.py", b"x" * 40_000)])
    job = attach_code(
        build_job("src/train.py:main", "x" * 40_000, image="i", storage="s3://b", module="src.train"), code
    )
    spec = parse_spec(job["spec"], name="train")
    assert (job["metadata"]["name"], spec.trainer.train_func) == ("train", "src.train:main")
    assert spec.source is not None and spec.source.config_map is not None
    assert describe_plan(job, "team-a", code)[-1] == ("Code", f"1 files, 39.1 KiB, in the ConfigMap {code.name}")
    with pytest.raises(ClientError, match=r"has a spec.source already"):
        attach_code(job, code)


def test_changes_and_secrets_become_part_of_the_spec() -> None:
    job = {**JOB, "spec": {"image": "i", "envFrom": [{"secretRef": {"name": "old"}}]}}
    changed = change_job(job, {"image": "j", "hangPolicy": "Restart"}, ["s3", "wandb"])
    assert changed["spec"]["envFrom"] == [{"secretRef": {"name": name}} for name in ("old", "s3", "wandb")]
    assert (changed["spec"]["image"], changed["spec"]["hangPolicy"]) == ("j", "Restart")
    assert job["spec"]["image"] == "i"
    assert "envFrom" not in change_job(JOB, {}, [])["spec"]


def make_existing(job: Object, **status: object) -> Object:
    """The job as the API server stores it, with a default."""
    return {**job, "spec": {**job["spec"], "backoffLimit": 3}, "status": status}


def test_the_same_job_is_recognised_also_after_a_change_of_the_stored_one() -> None:
    new = mark(JOB)
    old = make_existing(new, phase="Suspended")
    old["spec"]["suspend"] = True
    assert check_existing(new, old) == "my-train is this job already, in phase Suspended"


def test_a_job_that_another_tool_created_is_compared_by_its_fields() -> None:
    new, old = mark(JOB), make_existing(JOB)
    assert "is this job already" in check_existing(new, old)
    old["spec"]["image"] = "other"
    with pytest.raises(ClientError, match=r'spec.image: "registry.example/train:1" instead of "other"'):
        check_existing(new, old)


@pytest.mark.parametrize("change", [{"image": "other"}, {"suspend": None}])
def test_another_job_of_the_name_is_refused_with_the_difference(change: Object) -> None:
    new = JOB
    old = make_existing(mark({**new, "spec": {**new["spec"], **change}}))
    with pytest.raises(ClientError, match="exists with another spec") as error:
        check_existing(mark(new), old)
    assert error.value.code == ExitCode.REFUSED


def test_other_code_is_refused_with_its_files_instead_of_the_name_of_the_config_map() -> None:
    old, new = (make_code_map("my-train", [CodeFile("a.py", text)]) for text in (b"1", b"2"))
    job = build_job("a.py:f", "", image="i", storage="s", name="my-train", module="a")
    existing = make_existing(mark(attach_code({**job, "spec": {**job["spec"], "image": "j"}}, old)))
    with pytest.raises(ClientError) as error:
        check_existing(mark(attach_code(job, new)), existing, ["code: a.py differs"])
    assert str(error.value).splitlines()[1:] == ['spec.image: "i" instead of "j"', "code: a.py differs"]


def test_a_job_that_is_being_deleted_is_not_the_same() -> None:
    new = mark(JOB)
    old = make_existing(new)
    old["metadata"] = {**old["metadata"], "deletionTimestamp": "2026-11-25T10:00:00Z"}
    with pytest.raises(ClientError, match="my-train is being deleted; submit it again"):
        check_existing(new, old)


def test_a_finished_job_is_not_created_again() -> None:
    new = mark(JOB)
    failed = [{"type": "Failed", "status": "True", "reason": "x"}]
    with pytest.raises(ClientError, match=r"has finished .Failed.; run `railhead retry my-train`"):
        check_existing(new, make_existing(new, phase="Failed", conditions=failed))


def test_the_digest_depends_on_the_spec_only() -> None:
    job = JOB
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
    plan = dict(describe_plan({**JOB, "spec": {"scaling": scaling}}, "team-a"))
    assert (plan["Pods"], plan["Per worker"], plan["Devices"]) == (pods, per_worker, devices)
    assert (plan["Job"], plan["Code"]) == ("team-a/my-train", "in the image")


CODE = "import torch\nfrom m import helper as aid\n\ndef train_func(config):\n    pass\n\nmain = train_func\n"


def call(function: str, code: str) -> Object:
    """A job whose inline code is one file."""
    return {"spec": {"trainer": {"trainFunc": f"train:{function}"}, "source": {"inline": {"train.py": code}}}}


@pytest.mark.parametrize("function", ["train_func", "main", "aid"])
def test_a_function_that_the_file_binds_passes(function: str) -> None:
    check_functions(call(function, CODE), {})


@pytest.mark.parametrize("code", ["def main(:\n", "from training import *\n"])
def test_a_file_that_may_have_the_function_passes(code: str) -> None:
    check_functions(call("train_func", code), {})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (CODE, "train.py has no function trian_func; it has train_func$"),
        ("import torch", "has no function trian_func$"),
    ],
)
def test_a_misspelt_function_is_refused_with_those_that_the_file_has(code: str, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        check_functions(call("trian_func", code), {})


@pytest.mark.parametrize("field", ["trainFunc", "build", "validationFunction"])
def test_each_function_of_a_sent_folder_is_looked_for(field: str) -> None:
    files = {"src/steps.py": CODE.encode(), "train.py": b"import torch"}
    check_functions({"spec": {"trainer": {field: "src.steps:main"}}}, files)
    with pytest.raises(ClientError, match=r"src/steps\.py has no function mian; it has "):
        check_functions({"spec": {"trainer": {field: "src.steps:mian"}}}, files)


def test_a_module_that_is_not_sent_passes() -> None:
    for spec in ({"trainer": {"trainFunc": "other:main"}}, {"trainer": {"entrypoint": ["python", "train.py"]}}, {}):
        check_functions({"spec": {**spec, "source": {"inline": {"train.py": CODE}}}}, {})


def test_the_claims_of_pods_are_named_once() -> None:
    volume = {"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}
    other = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pods = [
        {"spec": {"volumes": [volume, {"name": "tmp", "emptyDir": {}}]}},
        {"spec": {"volumes": [volume, other]}},
        {},
    ]
    assert list_claims(pods) == ["runs", "data"]
