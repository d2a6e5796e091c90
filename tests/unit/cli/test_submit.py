"""What `submit` accepts as its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.cli.parser import build_parser
from railhead.cli.submit import Submission, read_submission, read_target
from railhead.client.exit_codes import ClientError

JOB = "apiVersion: railhead.dev/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"


def read(*arguments: str) -> str:
    return str(read_target(build_parser().parse_args(["submit", *arguments]))["metadata"]["name"])


def test_a_yaml_file_and_a_python_file_are_targets(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("def main(): ...")
    assert read(str(tmp_path / "job.yaml")) == "a"
    options = ["--image", "i", "--storage", "s3://b", "--name", "mine"]
    assert read(f"{tmp_path}/train.py:main", *options) == "mine"


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("two.yaml", [], "has 2 TrainJobs"),
        ("two.yaml", ["--gpus", "2"], "are for a Python file"),
        ("train.py:main", ["--image", "i"], "needs --storage as well$"),
        ("train.py:main", ["--storage", "s"], "needs --image as well; the variable RAILHEAD_IMAGE"),
        ("train.py:main", [], "needs --image and --storage as well"),
        ("train.py", ["--image", "i", "--storage", "s"], "a Python file and its function"),
        ("none.py:main", ["--image", "i", "--storage", "s"], "none.py cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(
    target: str, options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two.yaml").write_text(f"{JOB}---\n{JOB}")
    (tmp_path / "train.py").write_text("def main(): ...")
    monkeypatch.delenv("RAILHEAD_IMAGE", raising=False)
    with pytest.raises(ClientError, match=message):
        read(str(tmp_path / target), *options)


def test_the_environment_may_name_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("def main(): ...")
    monkeypatch.setenv("RAILHEAD_IMAGE", "registry.example/train:1")
    arguments = ["submit", f"{tmp_path}/train.py:main", "--storage", "s3://b"]
    assert read_target(build_parser().parse_args(arguments))["spec"]["image"] == "registry.example/train:1"
    named = build_parser().parse_args([*arguments, "--image", "other"])
    assert read_target(named)["spec"]["image"] == "other"


def test_hyperparameters_have_the_types_of_yaml_and_join_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"{JOB}spec: {{trainer: {{trainLoopConfig: {{lr: 1, epochs: 2}}}}}}\n")
    values = ["lr=0.05", "layers=[1, 2]", "name=cnn", "is_deep=true", "path=a=b"]
    options = [word for value in values for word in ("--config", value)]
    job = read_submission(build_parser().parse_args(["submit", str(tmp_path / "job.yaml"), *options])).job
    wanted = {"lr": 0.05, "epochs": 2, "layers": [1, 2], "name": "cnn", "is_deep": True, "path": "a=b"}
    assert job["spec"]["trainer"]["trainLoopConfig"] == wanted


def test_a_date_in_yaml_stays_a_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{JOB}spec: {{env: [{{name: DAY, value: 2026-11-25}}]}}\n")
    job = read_target(build_parser().parse_args(["submit", str(path)]))
    assert job["spec"]["env"][0]["value"] == "2026-11-25"


def submit(*arguments: str) -> Submission:
    options = ["--image", "i", "--storage", "s3://b"]
    return read_submission(build_parser().parse_args(["submit", *arguments, *options]))


def test_a_folder_becomes_the_source_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("def main(): ...")
    (tmp_path / "model.py").write_text("")
    wanted = submit(
        f"{tmp_path}/pkg/train.py:main", "--code", str(tmp_path), "--env-from-secret", "s3", "--set", "image=j"
    )
    spec = wanted.job["spec"]
    assert wanted.code is not None
    assert spec["trainer"]["trainFunc"] == "pkg.train:main"
    assert [item["path"] for item in spec["source"]["configMap"]["items"]] == ["model.py", "pkg/train.py"]
    assert (spec["image"], spec["envFrom"]) == ("j", [{"secretRef": {"name": "s3"}}])


def test_a_folder_becomes_the_source_of_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "model.py").write_text("")
    wanted = read_submission(build_parser().parse_args(["submit", f"{tmp_path}/job.yaml", "--code", str(tmp_path)]))
    assert wanted.code is not None
    assert wanted.job["spec"]["source"]["configMap"]["name"] == wanted.code.name


def test_the_content_of_the_code_is_part_of_what_recognises_a_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main(): ...")
    arguments = [f"{tmp_path}/train.py:main", "--code", str(tmp_path)]
    first, again = submit(*arguments), submit(*arguments)
    (tmp_path / "train.py").write_text("def main(): pass")
    assert first.job == again.job != submit(*arguments).job


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--code", "{}", "--include", "*.pem"], "matches no file"),
        (["--include", "*.pem"], "--include is for the files of --code"),
        (["--code", "{}/pkg"], "is not in the folder of --code"),
        (["--code", "{}", "--set", "image"], "write it as PATH=VALUE"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main(): ...")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "model.py").write_text("")
    with pytest.raises(ClientError, match=message):
        submit(f"{tmp_path}/train.py:main", *(each.format(tmp_path) for each in options))


def test_a_script_that_git_ignores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def main(): ...")
    (tmp_path / ".gitignore").write_text("train.py")
    with pytest.raises(ClientError, match=r"train.py is not sent with --code, because it is ignored"):
        submit(f"{tmp_path}/train.py:main", "--code", str(tmp_path))
