"""What `submit` accepts as its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.cli.main import build_parser
from railhead.cli.submit import read_target
from railhead.client.errors import ClientError

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
        ("train.py:main", ["--image", "i"], "needs --image and --storage"),
        ("train.py", ["--image", "i", "--storage", "s"], "a Python file and its function"),
        ("none.py:main", ["--image", "i", "--storage", "s"], "none.py cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(target: str, options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(f"{JOB}---\n{JOB}")
    (tmp_path / "train.py").write_text("def main(): ...")
    with pytest.raises(ClientError, match=message):
        read(str(tmp_path / target), *options)


def test_a_date_in_yaml_stays_a_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{JOB}spec: {{env: [{{name: DAY, value: 2026-11-25}}]}}\n")
    job = read_target(build_parser().parse_args(["submit", str(path)]))
    assert job["spec"]["env"][0]["value"] == "2026-11-25"
