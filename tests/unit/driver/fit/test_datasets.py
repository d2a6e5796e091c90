"""The job's datasets before Ray reads them: formats, and which errors may pass."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import ray.data
import ray.exceptions

from railhead.contract import environment as e
from railhead.contract.job_input import DatasetInput
from railhead.driver.fit.datasets import READERS, build_data_config, build_datasets
from railhead.driver.fit.train_func_trainer import build_trainer
from railhead.driver.messages.attempt_errors import JobRefused, Unreachable
from railhead.driver.storage.storage_call import is_passing
from tests.ray.pods import make_job

CODE = """
def raises(): raise ValueError("no table")
def leaves(): raise SystemExit(3)
def waits(): raise TimeoutError("the table does not answer")
def returns(config): return config["rows"]
"""


@pytest.mark.parametrize("format", READERS)
def test_every_format_has_a_reader(format: str) -> None:
    assert callable(getattr(ray.data, READERS[format]))


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
    job = make_job(datasets={"train": DatasetInput(function=f"dataset_code:{function}")}, train_loop_config={"rows": 3})
    with pytest.raises(kind, match=rf"datasets\.train\.function dataset_code:{function}: .*{expected}"):
        build_datasets(job)


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
    job = make_job(datasets={"a": DatasetInput("m:f"), "b": DatasetInput("m:f", split=False)})
    config: Any = build_data_config(job)
    assert config._datasets_to_split == ["a"]
    datasets = {"a": object(), "b": object()}
    trainer: Any = build_trainer(job, storage_path=str(tmp_path), datasets=datasets)
    assert trainer.datasets == datasets
    assert trainer.data_config._datasets_to_split == ["a"]
