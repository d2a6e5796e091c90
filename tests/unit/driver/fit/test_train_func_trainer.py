"""The job's input -> the arguments of Ray Train's classes, which Ray accepts; and the table of frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from railhead.api.trainer import Backend, Framework
from railhead.contract.job_input import BackendInput, CheckpointInput, DatasetInput, ScalingInput
from railhead.driver.fit import train_func_trainer
from railhead.driver.fit.train_func_trainer import (
    FRAMEWORKS,
    build_framework_trainer,
    build_trainer,
    plan_configs,
    plan_options,
    require_package,
)
from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.rank.run_rank import run_train_func
from tests.ray.pods import make_job


def test_defaults_are_left_to_ray() -> None:
    plan = plan_configs(make_job(), storage_path="/runs")
    assert plan.checkpoint == {}
    assert plan.failure == {}
    assert plan.run == {"name": "test-0a1b2c3d", "storage_path": "/runs"}
    assert plan.scaling == {"num_workers": 2, "use_gpu": False, "resources_per_worker": {"CPU": 1}}


def test_passes_on_every_option() -> None:
    job = make_job(
        scaling=ScalingInput(
            num_workers=4,
            use_gpu=True,
            resources_per_worker={"CPU": 2.0, "GPU": 1.0},
            placement_strategy="SPREAD",
            accelerator_type="H100",
            ray_label_selector={"pool": "a"},
        ),
        checkpoint=CheckpointInput(num_to_keep=3, score_attribute="loss", score_order="min"),
        max_failures=2,
        log_level="WARNING",
    )
    plan = plan_configs(job, storage_path="s3://bucket/x")
    assert plan.scaling == {
        "num_workers": 4,
        "use_gpu": True,
        "resources_per_worker": {"CPU": 2.0, "GPU": 1.0},
        "placement_strategy": "SPREAD",
        "accelerator_type": "H100",
        "label_selector": {"pool": "a"},
    }
    assert plan.checkpoint == {
        "num_to_keep": 3,
        "checkpoint_score_attribute": "loss",
        "checkpoint_score_order": "min",
    }
    assert plan.failure == {"max_failures": 2}
    assert plan.logging == {"log_level": "WARNING"}


def test_whole_numbers_are_integers() -> None:
    """JaxTrainer makes a list of a worker's devices by `range(GPU)`."""
    scaling = ScalingInput(1, use_gpu=True, resources_per_worker={"CPU": 0.5, "GPU": 2.0})
    planned = plan_configs(make_job(scaling=scaling), storage_path="/r").scaling["resources_per_worker"]
    assert planned == {"CPU": 0.5, "GPU": 2}
    assert isinstance(planned["GPU"], int)


def test_ray_keeps_at_least_two_checkpoints() -> None:
    assert plan_configs(make_job(checkpoint=CheckpointInput(num_to_keep=1)), storage_path="/r").checkpoint == {
        "num_to_keep": 2
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "backend"),
    [  # TensorFlow takes seconds to import; tests/e2e/test_examples.py has it
        ("Torch", BackendInput("gloo", 60, "tcp")),
        ("XGBoost", BackendInput("rabit")),
        ("LightGBM", BackendInput()),
        ("JAX", BackendInput()),
        ("Python", BackendInput()),
    ],
)
def test_ray_accepts_the_arguments(framework: str, backend: BackendInput, tmp_path: Path) -> None:
    job = make_job(
        framework=framework,
        backend=backend,
        checkpoint=CheckpointInput(num_to_keep=3, score_attribute="loss"),
        train_loop_config={"lr": 0.1},
        log_level="ERROR",
    )
    trainer: Any = build_trainer(job, storage_path=str(tmp_path))
    function = trainer.train_loop_per_worker
    assert (function.func, function.args) == (run_train_func, ("user:train_func", {"lr": 0.1}, ""))
    assert trainer.run_config.checkpoint_config.num_to_keep == 3
    assert trainer.run_config.logging_config.log_level == "ERROR"


@pytest.mark.parametrize(
    ("fields", "is_left_out"),
    [
        ({}, True),
        ({"validation_function": "user:validate"}, True),
        ({"datasets": {"train": DatasetInput(format="csv", uri="/data")}}, True),
        ({"framework": "XGBoost"}, False),
        ({"callbacks": ["user:Callback"]}, False),
        ({"build": "user:build"}, False),
        ({"datasets": {"train": DatasetInput(function="user:read")}}, False),
    ],
)
def test_torch_is_left_out_only_where_no_code_of_the_user_runs_in_the_head(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fields: dict[str, Any], is_left_out: bool
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(train_func_trainer, "leave_out_torch", lambda: calls.append("torch"))
    monkeypatch.setattr(train_func_trainer, "build_framework_trainer", lambda *_, **__: None)
    monkeypatch.setattr("railhead.driver.fit.user_callbacks.add_callbacks", lambda config, references: None)
    build_trainer(make_job(**fields), storage_path=str(tmp_path))
    assert calls == ["torch"] * is_left_out


def test_the_api_has_the_same_frameworks_and_options() -> None:
    assert set(get_args(Framework)) == set(FRAMEWORKS)
    options = {option for framework in FRAMEWORKS.values() for option in framework.options}
    assert options == {info.alias for info in Backend.model_fields.values()}


def test_options_have_the_names_of_their_framework() -> None:
    torch = BackendInput("nccl", 60, "tcp")
    assert plan_options("Torch", torch) == {"backend": "nccl", "timeout_s": 60, "init_method": "tcp"}
    assert plan_options("XGBoost", BackendInput("rabit")) == {"xgboost_communicator": "rabit"}


@pytest.mark.parametrize(("framework", "options"), [("JAX", {"use_gpu": True}), ("Torch", {}), ("TensorFlow", {})])
def test_only_jax_needs_the_gpu_option(framework: str, options: dict[str, Any]) -> None:
    assert plan_options(framework, BackendInput(), use_gpu=True) == options
    assert plan_options(framework, BackendInput(), use_gpu=False) == {}


def test_rejects_unknown_options_by_field() -> None:
    for framework in ("TensorFlow", "LightGBM", "JAX", "Python"):
        with pytest.raises(ValueError, match=rf"trainer\.backend\.name: {framework} has no such option"):
            plan_options(framework, BackendInput("gloo"))
    with pytest.raises(ValueError, match=r"trainer\.backend\.timeoutSeconds: XGBoost has no such option"):
        plan_options("XGBoost", BackendInput(timeout_seconds=60))


def test_a_package_that_the_image_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FRAMEWORKS:
        require_package(make_job(framework=name))
    monkeypatch.setitem(FRAMEWORKS, "JAX", replace(FRAMEWORKS["JAX"], package="absent_package"))
    with pytest.raises(JobRefused) as caught:
        require_package(make_job(framework="JAX"))
    assert str(caught.value) == (
        "trainer.framework: JAX needs the Python package absent_package, which spec.image does not have; "
        "use an image with absent_package"
    )


def test_runtime_env_may_bring_torch_to_the_ranks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Torch", "JAX"):
        monkeypatch.setitem(FRAMEWORKS, name, replace(FRAMEWORKS[name], package="absent_package"))
    for installer in ("pip", "uv", "conda"):
        require_package(make_job(runtime_env={installer: ["torch"]}))
    for changes in (
        {"runtime_env": {"env_vars": {"A": "1"}}},
        {"runtime_env": {"pip": ["jax"]}, "framework": "JAX"},
        {"runtime_env": {"pip": ["torch"]}, "callbacks": ["user:Callback"]},
    ):
        with pytest.raises(JobRefused, match=r"which spec\.image does not have"):
            require_package(make_job(**changes))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "raise OSError('libnccl.so.2: cannot open\\nshared object file')",
            "OSError: libnccl.so.2: cannot open shared",
        ),
        ("import absent_library", "ModuleNotFoundError: No module named 'absent_library'"),
        ("", "has no attribute 'Config'"),
    ],
    ids=["a library that does not load", "a missing dependency", "another version"],
)
def test_reports_a_package_that_does_not_load_in_one_line(
    code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"broken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FRAMEWORKS, "JAX", replace(FRAMEWORKS["JAX"], config=f"{module}:Config"))
    with pytest.raises(JobRefused, match=r"^trainer\.framework: JAX cannot be imported from spec\.image") as caught:
        build_framework_trainer("JAX", print, options={})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@dataclass
class OlderConfig:
    """Like JaxConfig of Ray 2.52."""

    use_tpu: bool = False


def test_rejects_an_option_that_this_ray_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FRAMEWORKS, "JAX", replace(FRAMEWORKS["JAX"], config=f"{__name__}:OlderConfig"))
    with pytest.raises(ValueError, match=r"in the Ray of spec\.image, OlderConfig has no use_gpu"):
        build_framework_trainer("JAX", print, options={"use_gpu": True})
