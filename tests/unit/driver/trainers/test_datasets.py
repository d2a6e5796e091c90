"""The job's datasets before Ray reads them: options, CPUs, and which errors may pass."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import ray.data
import ray.exceptions

from railhead.contract import environment as e
from railhead.driver.errors import JobRefused, Unreachable
from railhead.driver.storage.error_messages import is_passing
from railhead.driver.trainers.dataset_options import build_options, check_cpus
from railhead.driver.trainers.datasets import (
    READERS,
    build_data_config,
    build_datasets,
    find_free_cpus,
    read_paths,
)
from railhead.driver.trainers.trainer import build_trainer
from tests.ray.pods import make_job

CODE = """
def raises(): raise ValueError("no table")
def leaves(): raise SystemExit(3)
def waits(): raise TimeoutError("the table does not answer")
def returns(config): return config["rows"]
"""


def make_data_job(datasets: dict[str, Any], *, cpus: int = 2, **changes: Any) -> Any:
    worker = {"cpus": cpus, "gpus": 0, "resources": {}, "objectStoreBytes": 0}
    return make_job(datasets=datasets, ray_node={"head": {}, "worker": worker}, **changes)


@pytest.mark.parametrize("format", READERS)
def test_every_format_has_a_reader_that_takes_common_options(format: str) -> None:
    reader = getattr(ray.data, READERS[format])
    options = {"override_num_blocks": 4, "include_paths": True, "num_cpus": 0.5, "shuffle": "files"}
    assert build_options("d", format, reader, options) == options


@pytest.mark.parametrize(
    ("format", "given", "expected"),
    [
        ("csv", {"delimiter": ";"}, r"delimiter: ray\.data\.read_csv has no such option; its options are .*parse_op"),
        ("parquet", {"colums": ["a"]}, "colums: .* did you mean columns?"),
        ("text", {"paths": "/other"}, "paths: .* no such option"),
        (
            "csv",
            {"parse_options": {"delimitr": ";"}},
            r"parse_options: pyarrow\.csv\.ParseOptions rejects it: .*",
        ),
        ("images", {"shuffle": {"seed": "x"}}, "shuffle: .*FileShuffleConfig rejects it: Seed must be an integer"),
    ],
)
def test_rejects_an_option_that_the_reader_does_not_have(format: str, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(JobRefused, match=rf"datasets\.d\.options\.{expected}"):
        build_options("d", format, getattr(ray.data, READERS[format]), given)


def test_builds_object_options_from_their_arguments() -> None:
    built = build_options("d", "csv", ray.data.read_csv, {"parse_options": {"delimiter": ";"}, "shuffle": {"seed": 3}})
    assert built["parse_options"].delimiter == ";"
    assert built["shuffle"] == ray.data.FileShuffleConfig(seed=3)


def test_rejects_a_read_task_larger_than_a_pods_free_cpus() -> None:
    check_cpus("d", {"num_cpus": 1}, free=1.0)
    check_cpus("d", {}, free=0.5)
    with pytest.raises(
        JobRefused, match=r"^datasets\.d\.options\.num_cpus: a read task requests 2 CPUs, but a worker pod"
    ):
        check_cpus("d", {"num_cpus": 2}, free=1.0)


def test_free_cpus_are_those_that_workers_do_not_use() -> None:
    scaling = {"numWorkers": 4, "useGPU": False, "resourcesPerWorker": {"CPU": 1.5}}
    assert find_free_cpus(make_data_job({}, cpus=5, scaling=scaling, worker_pods=2)) == 2
    assert find_free_cpus(make_data_job({}, cpus=3, scaling=scaling, worker_pods=2)) == 0


def test_rejects_a_job_without_free_cpus_for_its_datasets() -> None:
    with pytest.raises(JobRefused, match=r"a worker pod has 0 CPUs left besides its workers"):
        build_datasets(make_data_job({"train": {"function": "user:returns"}}, cpus=1), paths={})


@pytest.mark.parametrize(
    ("function", "kind", "expected"),
    [
        ("raises", JobRefused, "ValueError: no table .dataset_code.py, line 2, in raises"),
        ("leaves", JobRefused, "SystemExit: 3"),
        ("waits", Unreachable, "TimeoutError: the table does not answer"),
        ("returns", JobRefused, "returned int; it must return a ray.data.Dataset"),
        ("absent", JobRefused, "has no attribute 'absent'"),
    ],
)
def test_names_a_function_that_returns_no_dataset(
    function: str, kind: type[Exception], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset_code.py").write_text(CODE)
    monkeypatch.setenv(e.SOURCE, str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "dataset_code", raising=False)
    job = make_data_job({"train": {"function": f"dataset_code:{function}"}}, train_loop_config={"rows": 3})
    with pytest.raises(kind, match=rf"datasets\.train\.function dataset_code:{function}: .*{expected}"):
        build_datasets(job, paths={})


def test_network_errors_are_temporary_and_user_errors_are_not() -> None:
    temporary = [
        ConnectionResetError("x"),
        TimeoutError("x"),
        OSError("When listing: AWS Error NETWORK_CONNECTION during ListObjects"),
        ray.exceptions.WorkerCrashedError(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.ESTALE, "odd words"),
    ]
    permanent = [ValueError("x"), PermissionError("x"), OSError("AWS Error ACCESS_DENIED"), SystemExit(1)]
    permanent.append(ray.exceptions.RayTaskError("f", "text", ValueError("x")))
    assert [is_passing(error) for error in (*temporary, *permanent)] == [True] * 6 + [False] * 5
    assert is_passing(ray.exceptions.RayTaskError("f", "text", ConnectionResetError("x")))


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_gets_the_datasets_and_which_of_them_are_split(tmp_path: Path) -> None:
    job = make_job(datasets={"a": {"function": "m:f", "split": True}, "b": {"function": "m:f", "split": False}})
    assert build_data_config(job)._datasets_to_split == ["a"]
    datasets = {"a": object(), "b": object()}
    trainer: Any = build_trainer(job, storage_path=str(tmp_path), datasets=datasets)
    assert trainer.datasets == datasets
    assert trainer.data_config._datasets_to_split == ["a"]


def test_an_empty_environment_has_no_paths() -> None:
    assert read_paths("") == {}
    assert read_paths('{"train": "/data"}') == {"train": "/data"}
