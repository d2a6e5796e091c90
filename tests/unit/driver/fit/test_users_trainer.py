"""trainer.build without a cluster: the call, the rejections, and the trainer it returns."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray.train
from ray.train.v2._internal.util import construct_train_func
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from railhead.contract import environment as e
from railhead.driver.container.run_context import RunContext
from railhead.driver.fit.users_trainer import build_users_trainer, find_warning
from railhead.driver.messages.attempt_errors import JobRefused, TrainingError, read_note
from railhead.driver.messages.rank_errors import RankErrorKind
from railhead.driver.messages.rank_marks import find_mark
from railhead.driver.rank import run_rank
from railhead.driver.rank.run_rank import mark_loop
from railhead.driver.train_controller.failures.ray_exceptions import translate_rank_error
from railhead.driver.train_controller.worker_group import Group
from tests.ray.pods import make_job

GOOD = """
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
seen = []
def train(config): pass
def make(scaling_config, run_config, train_loop_config, datasets):
    seen.append((scaling_config, run_config, train_loop_config, datasets))
    return DataParallelTrainer(train, scaling_config=scaling_config, run_config=run_config)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(e.SOURCE, str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("made_here", None)


def build(source: Path, code: str) -> Any:
    (source / "made_here.py").write_text(code)
    job = make_job(train_func="", build="made_here:make", train_loop_config={"lr": 1})
    return build_users_trainer(job, storage_path=str(source), datasets={})


@pytest.mark.filterwarnings("ignore")
def test_the_function_receives_the_jobs_configs_by_name(source: Path) -> None:
    trainer, run = build(source, GOOD)
    assert isinstance(trainer, DataParallelTrainer)
    [(scaling_config, run_config, train_loop_config, datasets)] = sys.modules["made_here"].seen
    assert scaling_config.num_workers == 2 and scaling_config.resources_per_worker == {"CPU": 1.0}
    assert (run_config.name, run_config.storage_path) == ("test-0a1b2c3d", str(source))
    assert (train_loop_config, datasets) == ({"lr": 1}, {})
    assert run == RunContext(f"{source}/test-0a1b2c3d")


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_the_function_names_is_in_the_jobs_own_folder(source: Path) -> None:
    mine = "ray.train.RunConfig(name='mine', storage_path=run_config.storage_path)"
    code = GOOD.replace("run_config=run_config)", f"run_config={mine})") + "import ray.train\n"
    trainer, run = build(source, code)
    assert run == RunContext(f"{source}/test-0a1b2c3d/mine", is_own=False, is_named=True)
    assert (trainer.run_config.name, trainer.run_config.storage_path) == ("mine", f"{source}/test-0a1b2c3d")


@pytest.mark.filterwarnings("ignore")
def test_a_run_at_another_path_is_in_the_jobs_folder_there(source: Path) -> None:
    code = GOOD.replace("run_config=run_config)", "run_config=ray.train.RunConfig(name='mine'))") + "import ray.train\n"
    _, run = build(source, code)
    assert run.run_uri.endswith("/ray_results/test-0a1b2c3d/mine")
    assert run.warning is not None and run.warning.reason == "StoragePathDiffers"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        ("import absent_library", "EntrypointNotUsable", "No module named 'absent_library' (made_here"),
        ("def other(): pass", "EntrypointNotUsable", "has no attribute 'make'"),
        ("make = 3", "EntrypointNotUsable", "is not a function"),
        ("def make(scaling_config): pass", "EntrypointNotUsable", "keyword arguments scaling_config, run_config, "),
        ("def make(**k): return None", "EntrypointNotUsable", "it returned None; it must return one of"),
        ("def make(**k): return make", "EntrypointNotUsable", "it returned a builtins.function"),
        ("def make(**k):\n    raise KeyError('colour')", "BuildRaised", "'colour' (made_here.py, line 2, in make)"),
        ("import sys\ndef make(**k): sys.exit('no')", "BuildRaised", "SystemExit: no"),
        (GOOD.replace("train(config)", "train(a, b)"), "TrainerNotUsable", "train_loop_per_worker: the function takes"),
    ],
)  # fmt: skip
def test_rejects_an_unusable_function_with_the_field(source: Path, code: str, reason: str, expected: str) -> None:
    with pytest.raises(JobRefused) as caught:
        build(source, code)
    assert caught.value.failure.reason == reason
    assert str(caught.value).startswith("trainer.build made_here:make: ")
    assert expected in str(caught.value)


def test_warns_of_another_storage_path() -> None:
    assert find_warning("s3://bucket/runs/", storage_path="s3://bucket/runs") is None
    found = find_warning("/tmp/runs", storage_path="s3://bucket/runs")
    assert found is not None and found.reason == "StoragePathDiffers"
    assert '"/tmp/runs"' in found.message and 'os.environ["RAILHEAD_STORAGE_PATH"]' in found.message


class Odd(Exception):
    """Cannot be unpickled: its constructor takes two values and passes on one."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raise_value_error() -> None:
    raise ValueError("plain")


def raise_odd(config: Any) -> None:
    raise Odd("a", "b")


def test_the_users_own_exception_carries_our_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rank, "read_self", lambda: (3, "ab-1"))
    with pytest.raises(ValueError, match="plain") as caught:
        construct_train_func(mark_loop(raise_value_error), None, ray.train.BackendConfig().train_func_context)()
    unpickled = pickle.loads(pickle.dumps(caught.value))
    assert read_note(unpickled) is not None
    found = translate_rank_error(3, unpickled, Group())
    assert found.kind == RankErrorKind.RAISED
    assert found.text.startswith("ValueError: plain (test_users_trainer.py, line ") and found.text.endswith(
        "in raise_value_error)"
    )


def test_replaces_an_exception_that_cannot_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rank, "read_self", lambda: (3, "ab-1"))
    with pytest.raises(TrainingError, match="Odd: ab"):
        construct_train_func(mark_loop(raise_odd), {}, ray.train.BackendConfig().train_func_context)()


def test_a_marked_loop_keeps_its_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_rank, "read_self", lambda: (1, "ab-1"))
    result = construct_train_func(mark_loop(lambda c: [c]), {"a": 1}, ray.train.BackendConfig().train_func_context)()
    assert result == [{"a": 1}]
    found = [find_mark(line) for line in capsys.readouterr().out.splitlines()]
    assert [mark and (mark.kind, mark.rank) for mark in found] == [("begin", 1), ("end", 1)]
