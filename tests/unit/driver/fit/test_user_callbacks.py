"""run.callbacks without a cluster: how they are created, and how their errors are reported."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.train import RunConfig, UserCallback
from ray.train.v2.api.exceptions import ControllerError

from railhead.contract import environment as e
from railhead.driver.fit.train_func_trainer import build_trainer
from railhead.driver.fit.user_callbacks import GuardedCallback, add_callbacks, validate
from railhead.driver.messages.attempt_errors import CallbackRaised, JobRefused
from railhead.driver.train_controller.failures.classify_failure import RestartHistory, classify_failure, decide_retry
from railhead.driver.train_controller.failures.ray_exceptions import translate_error
from railhead.driver.train_controller.worker_group import Group
from tests.ray.pods import make_job

CODE = """
from ray.train import UserCallback
seen = []
class Good(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        seen.append((run_context, metrics, checkpoint))
class Bad(UserCallback):
    def after_report(self, run_context, metrics, checkpoint):
        raise KeyError("colour")
class Needs(UserCallback):
    def __init__(self, value): pass
class Plain: pass
"""


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(e.SOURCE, str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "callbacks_here.py").write_text(CODE)
    yield tmp_path
    sys.modules.pop("callbacks_here", None)


class Mine(UserCallback):  # type: ignore[misc]
    """One that the user's own RunConfig has."""

    def after_exception(self, run_context: Any, worker_exceptions: Any) -> None:
        raise ValueError("mine")


def test_callbacks_are_appended_once_and_called(tmp_path: Path) -> None:
    config = RunConfig(storage_path=str(tmp_path), callbacks=[Mine()])
    for _ in range(2):
        add_callbacks(config, ["callbacks_here:Good"])
    mine, good = config.callbacks
    assert (mine.who, good.who) == ("RunConfig(callbacks), Mine", "run.callbacks callbacks_here:Good")
    good.after_report(run_context="run", metrics=[{"a": 1}], checkpoint=None)
    assert sys.modules["callbacks_here"].seen == [("run", [{"a": 1}], None)]
    with pytest.raises(
        CallbackRaised, match=r"Mine: after_exception raised ValueError: mine \(test_user_callbacks.py, line"
    ):
        mine.after_exception(run_context="run", worker_exceptions={})


@pytest.mark.filterwarnings("ignore")
def test_the_trainer_of_a_train_func_has_the_callbacks(tmp_path: Path) -> None:
    trainer = build_trainer(make_job(callbacks=["callbacks_here:Good"]), storage_path=str(tmp_path))
    assert [type(callback) for callback in trainer.run_config.callbacks or []] == [GuardedCallback]


def test_a_callback_that_raises_fails_the_run_with_its_own_message(tmp_path: Path) -> None:
    config = RunConfig(storage_path=str(tmp_path))
    add_callbacks(config, ["callbacks_here:Bad"])
    with pytest.raises(CallbackRaised) as caught:
        config.callbacks[0].after_report(run_context=None, metrics=[], checkpoint=None)
    facts = translate_error(ControllerError(pickle.loads(pickle.dumps(caught.value))), Group())
    failure = classify_failure(facts)
    assert (failure.class_, failure.reason) == ("Application", "CallbackRaised")
    assert failure.message == (
        "run.callbacks callbacks_here:Bad: after_report raised KeyError: 'colour' "
        "(callbacks_here.py, line 9, in after_report)"
    )
    assert not decide_retry(facts, failure, RestartHistory(max_failures=5))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("absent_module:Good", "No module named 'absent_module'"),
        ("callbacks_here:Absent", "has no attribute 'Absent'"),
        ("callbacks_here:Plain", "not a subclass of ray.train.UserCallback"),
        ("callbacks_here:seen", "not a subclass of ray.train.UserCallback"),
        ("callbacks_here:Needs", "cannot be instantiated without arguments: TypeError"),
    ],
)
def test_rejects_an_unusable_callback_with_the_field(tmp_path: Path, name: str, expected: str) -> None:
    with pytest.raises(JobRefused) as caught:
        add_callbacks(RunConfig(storage_path=str(tmp_path)), [name])
    assert str(caught.value).startswith(f"run.callbacks {name}: ")
    assert expected in str(caught.value)
    assert caught.value.failure.reason == "CallbackRefused"


def test_a_validations_metrics_are_those_that_ray_can_write(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ray writes them in its controller, where an error would end each attempt."""
    (source / "callbacks_here.py").write_text(
        "import numpy\n"
        "def good(checkpoint): return {'accuracy': numpy.float32(0.5)}\n"
        "def bad(checkpoint): return {'accuracy': 0.5, 'model': object()}\n"
    )
    metrics = validate("callbacks_here:good", None)
    assert metrics == {"accuracy": 0.5} and type(metrics["accuracy"]) is float
    with pytest.raises(TypeError, match="metric 'model' cannot be written"):
        validate("callbacks_here:bad", None)
    assert "trainer.validationFunction callbacks_here:bad: TypeError: the function: metric" in capsys.readouterr().out
