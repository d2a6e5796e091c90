"""The only TrainJob of a file, or an error that explains its absence."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.local.jobs import BadFile, JobName, find_job

JOB = "apiVersion: railhead.dev/v1alpha1\nkind: TrainJob\nmetadata: {name: digits}\n"
OTHERS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n# nothing\n---\n"
# Another project's kind with the same name is not ours.
FOREIGN = "apiVersion: trainer.example.org/v1\nkind: TrainJob\nmetadata: {name: other}\n---\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def test_finds_the_job_among_other_documents(tmp_path: Path) -> None:
    assert find_job(write(tmp_path, OTHERS + FOREIGN + JOB)) == JobName("default", "digits")


def test_namespace_is_taken_from_the_job(tmp_path: Path) -> None:
    text = JOB.replace("{name: digits}", "{name: digits, namespace: team}")
    assert find_job(write(tmp_path, text)) == JobName("team", "digits")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains 0 TrainJobs"),
        (FOREIGN, "contains 0 TrainJobs"),
        ("just text", "contains 0 TrainJobs"),
        (f"{JOB}---\n{JOB}", "contains 2 TrainJobs"),
        (JOB.replace("name: digits", "generateName: digits-"), "no metadata.name"),
        ("a: [", "is not YAML"),
    ],
)
def test_rejects_bad_files_with_a_clear_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        find_job(write(tmp_path, text))


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"none\.yaml cannot be read: No such file"):
        find_job(tmp_path / "none.yaml")
