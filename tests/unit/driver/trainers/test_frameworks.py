"""The table of frameworks: the same as in the API, and the message when an image cannot run one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from railhead.api.trainer import Backend, Framework
from railhead.driver.errors import JobRefused
from railhead.driver.trainers.frameworks import (
    FRAMEWORKS,
    build_framework_trainer,
    plan_options,
    require_package,
)


def test_the_api_has_the_same_frameworks_and_options() -> None:
    assert set(get_args(Framework)) == set(FRAMEWORKS)
    options = {option for framework in FRAMEWORKS.values() for option in framework.options}
    assert options == {info.alias for info in Backend.model_fields.values()}


def test_options_have_the_names_of_their_framework() -> None:
    torch = {"name": "nccl", "timeoutSeconds": 60, "initMethod": "tcp"}
    assert plan_options("Torch", torch) == {"backend": "nccl", "timeout_s": 60, "init_method": "tcp"}
    assert plan_options("XGBoost", {"name": "rabit"}) == {"xgboost_communicator": "rabit"}


@pytest.mark.parametrize(("framework", "options"), [("JAX", {"use_gpu": True}), ("Torch", {}), ("TensorFlow", {})])
def test_only_jax_needs_the_gpu_option(framework: str, options: dict[str, Any]) -> None:
    assert plan_options(framework, {}, use_gpu=True) == options
    assert plan_options(framework, {}, use_gpu=False) == {}


def test_rejects_unknown_options_by_field() -> None:
    with pytest.raises(ValueError, match=r"trainer\.framework"):
        plan_options("Other", {})
    for framework in ("TensorFlow", "LightGBM", "JAX", "Python"):
        with pytest.raises(ValueError, match=rf"trainer\.backend\.name: {framework} has no such option"):
            plan_options(framework, {"name": "gloo"})
    with pytest.raises(ValueError, match=r"trainer\.backend\.timeoutSeconds: XGBoost has no such option"):
        plan_options("XGBoost", {"timeoutSeconds": 60})


def test_a_package_that_the_image_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*FRAMEWORKS, ""):  # a script, or a trainer that the user builds, has no framework
        require_package(name)
    monkeypatch.setitem(FRAMEWORKS, "JAX", replace(FRAMEWORKS["JAX"], package="absent_package"))
    with pytest.raises(JobRefused) as caught:
        require_package("JAX")
    assert str(caught.value) == (
        "trainer.framework: JAX needs the Python package absent_package, which spec.image does not have; "
        "use an image with absent_package"
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "raise OSError('libnccl.so.2: cannot open\\nshared object file')",
            "OSError: libnccl.so.2: cannot open shared",
        ),
        ("import absent_library", "ModuleNotFoundError: No module named 'absent_library'"),
        ("", "has no attribute 'Trainer'"),
    ],
    ids=["a library that does not load", "a missing dependency", "another version"],
)
def test_reports_a_package_that_does_not_load_in_one_line(
    code: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"broken_{abs(hash(code))}"
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(FRAMEWORKS, "JAX", replace(FRAMEWORKS["JAX"], trainer=f"{module}:Trainer"))
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
