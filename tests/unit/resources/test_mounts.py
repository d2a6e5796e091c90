"""The objects that a job's pods mount: their content, their names and their owner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railhead.api import names
from railhead.contract.digest import digest
from railhead.contract.job_input import (
    CA_KEY,
    FILE,
    WORKER_SLOT,
    BackendInput,
    CheckpointInput,
    DatasetInput,
    JobInput,
    ProgressInput,
    ScalingInput,
)
from railhead.contract.log_archive import ArchivePolicy
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_input, build_job_input, build_secret, get_digest
from railhead.resources.sizes import compute_sizes
from tests.unit.builders import SETTINGS, UID, make_mounts, make_spec

JOB = JobRef("team", "digits", UID)


def test_children_have_the_jobs_names_labels_and_owner() -> None:
    own = make_mounts(JOB, make_spec(), SETTINGS)
    secret = build_secret(JOB, SETTINGS, input_name=own.input)
    made = [build_input(JOB, make_spec(), SETTINGS), secret]
    assert [(m["kind"], m["metadata"]["name"]) for m in made] == [
        ("ConfigMap", own.input),
        ("Secret", own.secret),
    ]
    assert "ownerReferences" not in secret["metadata"], "the executor knows the uid of the input"
    for child in made:
        metadata = child["metadata"]
        metadata.setdefault("ownerReferences", made[0]["metadata"]["ownerReferences"])
        assert metadata["namespace"] == "team"
        assert metadata["labels"] == {**names.DEFAULT_LABELS, **names.child_labels("digits", UID)}
        [owner] = metadata["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainJob", UID, True)


def find_token(job: JobRef = JOB, *, key: bytes = b"key", input_name: str = "input") -> str:
    secret = build_secret(job, replace(SETTINGS, token_key=key), input_name=input_name)
    assert secret["immutable"] is True
    token = str(secret["stringData"]["token"])
    assert get_digest(secret["metadata"]["name"]) == digest(token.encode())
    return token


def test_the_token_follows_from_job_input_and_key_and_its_secret_is_named_by_its_digest() -> None:
    other = JobRef("team", "digits", "0f1e2d3c-1111-2222-3333-555555555555")
    tokens = [find_token(), find_token(other), find_token(key=b"other"), find_token(input_name="other")]
    assert len(set(tokens)) == len(tokens)
    assert find_token() == tokens[0], "a create can be sent again"
    assert {len(token) for token in tokens} == {64}
    assert b"key" not in repr(SETTINGS).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"inline": {"train.py": "x = 2"}}},
        {"source": {"inline": {"other.py": "x = 1"}}},
        {"trainer": {"trainFunc": "train:other"}},
    ],
)
def test_the_inputs_name_follows_from_all_of_its_content(changes: dict[str, Any]) -> None:
    spec = {"source": {"inline": {"train.py": "x = 1"}}}
    names_ = {make_mounts(JOB, make_spec(**each), SETTINGS).input for each in (spec, {**spec, **changes})}
    other_ca = make_mounts(JOB, make_spec(**spec), replace(SETTINGS, report_ca="other"))
    assert len({*names_, other_ca.input}) == 3
    assert make_mounts(JOB, make_spec(**spec), SETTINGS).input in names_


def test_input_holds_the_job_the_ca_and_the_code() -> None:
    spec = make_spec(
        source={"inline": {"train.py": "x = 1", "notes.txt": "é"}}, metrics={"port": 9400}, ray={"dashboard": True}
    )
    made = build_input(JOB, spec, SETTINGS)
    assert made["immutable"] is True
    read = JobInput.from_json(made["data"].pop(FILE))
    assert read == build_job_input(JOB, spec)
    assert (read.metrics_port, read.has_dashboard) == (9400, True)
    assert made["data"] == {CA_KEY: "CA", "source.train.py": "x = 1", "source.notes.txt": "é"}


def test_the_input_has_a_framework_only_with_a_train_func() -> None:
    assert build_job_input(JOB, make_spec()).framework == "Torch"
    built = build_job_input(JOB, make_spec(trainer={"build": "train:make", "trainLoopConfig": {"lr": 1}}))
    assert (built.framework, built.train_func, built.build) == ("", "", "train:make")
    assert built.train_loop_config == {"lr": 1}
    script = build_job_input(JOB, make_spec(trainer={"entrypoint": ["python", "train.py"]}))
    assert (script.framework, script.train_func, script.entrypoint) == ("", "", ["python", "train.py"])


def test_input_is_the_spec_in_rays_terms() -> None:
    scaling: dict[str, Any] = {
        "numWorkers": 8,
        "workersPerPod": 4,
        "useGPU": True,
        "resourcesPerWorker": {"cpu": "500m"},
    }
    scaling |= {"acceleratorType": "H100", "rayLabelSelector": {"pool": "a", "zone": "in(a, b)", "x": "!y"}}
    spec = make_spec(
        scaling=scaling,
        trainer={"trainFunc": "m:f", "trainLoopConfig": {"lr": 0.1}, "backend": {"name": "gloo", "timeoutSeconds": 9}},
        run={
            "storagePath": "s3://bucket/x",
            "checkpoint": {"numToKeep": 2},
            "failure": {"maxFailures": 3},
            "logLevel": "DEBUG",
        },
    )
    built = build_job_input(JOB, spec)
    assert built.scaling == ScalingInput(
        num_workers=8,
        use_gpu=True,
        resources_per_worker={"CPU": 0.5, "GPU": 1.0, WORKER_SLOT: 1.0},
        placement_strategy="PACK",
        accelerator_type="H100",
        ray_label_selector={"pool": "a"},
    )
    assert built.worker_pods == 2
    assert built.train_loop_config == {"lr": 0.1}
    assert built.backend == BackendInput("gloo", timeout_seconds=9)
    assert (built.checkpoint, built.max_failures, built.log_level) == (CheckpointInput(num_to_keep=2), 3, "DEBUG")
    assert built.ray_node.worker == compute_sizes(spec).worker.ray


@pytest.mark.parametrize(
    ("wanted", "path", "policy", "chosen"),
    [
        (None, "/runs", ArchivePolicy(), "Failed"),
        (None, "s3://bucket/runs", ArchivePolicy(), "None"),
        (None, "s3://bucket/runs", ArchivePolicy(default="All"), "All"),
        ("All", "s3://bucket/runs", ArchivePolicy(default="None"), "All"),
        ("None", "/runs", ArchivePolicy(default="All"), "None"),
        ("All", "/runs", ArchivePolicy(most="Failed"), "Failed"),
        (None, "/runs", ArchivePolicy(default="All", most="None"), "None"),
    ],
)
def test_the_operator_has_a_default_and_a_limit_for_the_logs_that_are_kept(
    wanted: str | None, path: str, policy: ArchivePolicy, chosen: str
) -> None:
    spec = make_spec(run={"storagePath": path}, **({"logs": {"archive": wanted}} if wanted else {}))
    files = build_input(JOB, spec, replace(SETTINGS, archive_policy=policy))["data"]
    built = JobInput.from_json(files[FILE])
    assert (built.archive_logs, built.archive_per_rank, built.archive_per_run) == (chosen, 4 * 2**20, 2**30)
    assert built.archive_wanted == (wanted or "")


def test_the_bounds_of_the_archive_are_bytes() -> None:
    built = build_job_input(JOB, make_spec(logs={"archivePerRank": "1500k", "archivePerRun": "2Gi"}))
    assert (built.archive_per_rank, built.archive_per_run) == (1_500_000, 2**31)


def test_the_driver_learns_which_metrics_say_how_far_training_is() -> None:
    run = {
        **make_spec().run.model_dump(by_alias=True, exclude_none=True),
        "progress": {"metric": "n", "totalMetric": "m"},
    }
    assert build_job_input(JOB, make_spec(run=run)).progress == ProgressInput("n", "m")
    assert build_job_input(JOB, make_spec()).progress == ProgressInput()


@pytest.mark.parametrize(
    ("scaling", "logs", "forward"),
    [
        ({"numWorkers": 16}, None, "All"),
        ({"numWorkers": 17}, None, "Rank0"),
        ({"minWorkers": 1, "maxWorkers": 16}, {}, "All"),
        ({"minWorkers": 1, "maxWorkers": 17, "desiredWorkers": 1}, {}, "Rank0"),
        ({"numWorkers": 17}, {"forward": "All"}, "All"),
        ({"numWorkers": 1}, {"forward": "None"}, "None"),
    ],
)
def test_the_head_repeats_the_lines_of_all_ranks_of_a_small_job(
    scaling: dict[str, Any], logs: dict[str, Any] | None, forward: str
) -> None:
    spec = make_spec(scaling=scaling, **({} if logs is None else {"logs": logs}))
    assert build_job_input(JOB, spec).forward_logs == forward


@pytest.mark.parametrize(
    ("run", "name", "path"),
    [
        ({"storagePath": "/runs"}, f"digits-{UID[:8]}", "/runs"),
        ({"storagePath": "s3://b/p", "name": "mine"}, "mine", "s3://b/p"),
    ],
)
def test_the_input_has_the_run_and_where_it_is_stored(run: dict[str, Any], name: str, path: str) -> None:
    built = build_job_input(JOB, make_spec(run=run))
    assert (built.run_name, built.storage_path) == (name, path)


def test_the_input_has_the_datasets() -> None:
    spec = make_spec(
        datasets={
            "train": {"format": "csv", "uri": "/data/train"},
            "far": {"format": "parquet", "uri": "s3://bucket/far", "split": False},
            "made": {"function": "data:build"},
        }
    )
    assert build_job_input(JOB, spec).datasets == {
        "train": DatasetInput(format="csv", uri="/data/train"),
        "far": DatasetInput(format="parquet", uri="s3://bucket/far", split=False),
        "made": DatasetInput(function="data:build"),
    }
