"""A job of `railhead local run`: how its file names it, and the lines printed about its changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railhead.client.cluster.job_snapshot import PodState, read_pod
from railhead.local import LocalError
from railhead.local.local_jobs import (
    JobName,
    decide_ending,
    describe_job_change,
    describe_metrics,
    describe_pod_change,
    find_job,
)

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
        ("", "has no TrainJob of railhead.dev/v1alpha1"),
        (FOREIGN, "has no TrainJob of railhead.dev/v1alpha1"),
        ("just text", "has no TrainJob of railhead.dev/v1alpha1"),
        (f"{JOB}---\n{JOB}", "contains 2 TrainJobs"),
        (JOB.replace("name: digits", "generateName: digits-"), "with metadata.name"),
        ("a: [", "is not YAML"),
    ],
)
def test_rejects_bad_files_with_a_clear_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LocalError, match=message):
        find_job(write(tmp_path, text))


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"none\.yaml cannot be read: No such file"):
        find_job(tmp_path / "none.yaml")


METRICS = {"loss": "0.123456", "zeta": "x", "epoch": "3", "alpha": "2"}


def job(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "digits"}, "status": status}


def condition(type_: str, reason: str = "Because", message: str = "because") -> dict[str, str]:
    return {"type": type_, "status": "True", "reason": reason, "message": message}


def progress(reports: int, **metrics: str) -> dict[str, Any]:
    return {"attempt": 1, "state": "RUNNING", "reports": reports, "metrics": metrics}


def checkpoint(index: int) -> dict[str, Any]:
    return {"uri": f"/runs/c{index}", "index": index}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (job(), job(), []),
        (job(), job(phase="Pending", attempt=1), ["phase Pending"]),
        (job(phase="Pending"), job(phase="Pending"), []),
        (
            job(),
            job(phase="Pending", conditions=[condition("Reconciling", "Pending", "pods are started")]),
            ["phase Pending: pods are started"],
        ),
        (
            job(phase="Pending"),
            job(phase="Pending", conditions=[condition("Reconciling", "Unschedulable", "no GPU")]),
            ["waiting: Unschedulable: no GPU"],
        ),
        (
            job(phase="Running", progress=progress(1, loss="1.0")),
            job(phase="Running", progress=progress(2, loss="0.5"), checkpoint=checkpoint(1)),
            ["report 2: loss 0.5", "checkpoint 1: /runs/c1"],
        ),
        (job(checkpoint=checkpoint(1)), job(checkpoint=checkpoint(1)), []),
        (
            job(attempt=1),
            job(attempt=2, failure={"class": "Application", "reason": "TrainFuncRaised", "message": "boom"}),
            ["attempt 2 starts, because TrainFuncRaised: boom"],
        ),
    ],
)
def test_describes_changes_of_a_job(old: dict[str, Any], new: dict[str, Any], lines: list[str]) -> None:
    assert describe_job_change(old, new) == lines


def test_common_metrics_come_first_and_numbers_are_short() -> None:
    assert describe_metrics(METRICS) == "epoch 3, loss 0.1235, alpha 2, zeta x"


def test_success_shows_checkpoint_and_metrics() -> None:
    ending = decide_ending(
        job(conditions=[condition("Complete")], checkpoint=checkpoint(9), progress=progress(10, accuracy="0.97"))
    )
    assert ending is not None
    assert ending.is_success
    text = "\n".join(ending.lines)
    assert "/runs/c9" in text
    assert "accuracy 0.97" in text


def test_failure_shows_the_original_error() -> None:
    failure = {"class": "Application", "reason": "TrainFuncRaised", "message": "ValueError: bad\nat line 3", "pod": "h"}
    ending = decide_ending(job(conditions=[condition("Failed"), condition("Stalled")], failure=failure))
    assert ending is not None
    assert not ending.is_success
    assert "  ValueError: bad" in ending.lines
    assert "  at line 3" in ending.lines


def test_failure_without_details_shows_the_condition() -> None:
    ending = decide_ending(job(conditions=[condition("Failed", "InvalidSpec", "spec.image is empty")]))
    assert ending is not None
    assert "  InvalidSpec: spec.image is empty" in ending.lines


@pytest.mark.parametrize("status", [{}, {"phase": "Succeeded"}, {"phase": "Running"}, {"conditions": "absurd"}])
def test_a_job_ends_only_by_a_condition(status: dict[str, Any]) -> None:
    assert decide_ending(job(**status)) is None


def pod(phase: str = "", *, is_deleting: bool = False) -> PodState:
    metadata = {"name": "p", **({"deletionTimestamp": "now"} if is_deleting else {})}
    return read_pod({"metadata": metadata, "status": {"phase": phase} if phase else {}})


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (None, pod(), ["pod p Pending"]),
        (pod("Pending"), pod("Pending"), []),
        (pod("Pending"), pod("Running"), ["pod p Running"]),
        (pod("Running"), pod("Running", is_deleting=True), ["pod p Terminating"]),
        (pod("Running"), None, ["pod p is gone"]),
    ],
)
def test_describes_changes_of_a_pod(old: PodState | None, new: PodState | None, lines: list[str]) -> None:
    assert describe_pod_change(old, new) == lines
