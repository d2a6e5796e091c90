"""spec.runtimeEnv before training: paths, the pod's own PYTHONPATH, and rejections that name the field."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

from railhead.driver.messages.attempt_errors import JobRefused
from railhead.driver.ray import runtime_env
from railhead.driver.ray.runtime_env import KEYS, prepare_runtime_env, upload_local_folders


def prepare(values: dict[str, Any], *folders: Path) -> dict[str, Any]:
    return prepare_runtime_env(values, folders=[str(folder) for folder in folders], bundle="/opt/railhead.pyz")


def test_no_environment_stays_none() -> None:
    values = prepare({})
    assert values == {}
    upload_local_folders(values, scratch="/nowhere")  # does not call Ray


def test_resolves_relative_paths_in_the_source_then_in_the_image(tmp_path: Path) -> None:
    source, image = tmp_path / "source", tmp_path / "image"
    for folder in (source / "both", image / "both", image / "own"):
        folder.mkdir(parents=True)
    values = {"working_dir": "both", "py_modules": ["own", "s3://bucket/a.zip", str(image / "both")]}
    assert prepare(values, source, image) == {
        "working_dir": str(source / "both"),
        "py_modules": [str(image / "own"), "s3://bucket/a.zip", str(image / "both")],
    }


def test_the_source_itself_can_be_the_working_dir(tmp_path: Path) -> None:
    assert prepare({"working_dir": "."}, tmp_path) == {"working_dir": str(tmp_path)}


def test_a_users_python_path_follows_the_bundle() -> None:
    values = {"env_vars": {"A": "1", "PYTHONPATH": "/mine:/other"}}
    assert prepare(values)["env_vars"] == {"A": "1", "PYTHONPATH": "/opt/railhead.pyz:/mine:/other"}
    assert values["env_vars"]["PYTHONPATH"] == "/mine:/other"
    assert prepare({"env_vars": {"A": "1"}})["env_vars"] == {"A": "1"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"container": {"image": "x"}}, "spec.runtimeEnv.container: this version of Railhead has no such key"),
        ({"working_dir": "absent"}, "spec.runtimeEnv.working_dir: the head pod has no absent in /.*; set an existing"),
        ({"working_dir": "/absent"}, "spec.runtimeEnv.working_dir: the head pod has no /absent; set an existing"),
        ({"py_modules": ["s3://a/b.zip", "absent"]}, r"spec.runtimeEnv.py_modules\[1\]: the head pod has no absent"),
        ({"conda": "absent.yaml"}, "spec.runtimeEnv.conda: the head pod has no absent.yaml"),
        ({"uv": ["a"], "conda": "b"}, "spec.runtimeEnv: Ray rejects it: .*cannot be specified at the same time"),
        ({"working_dir": "s3://bucket/code.rar"}, "spec.runtimeEnv: Ray rejects it: "),
    ],
)
def test_rejects_invalid_values_with_their_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], expected: str
) -> None:
    monkeypatch.setattr(runtime_env, "_check_tools", lambda values: None)  # so that Ray validates uv
    with pytest.raises(JobRefused, match=expected):
        prepare(values, tmp_path)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_packages_need_virtualenv_in_the_image(monkeypatch: pytest.MonkeyPatch, installer: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "virtualenv" else find(name))
    with pytest.raises(JobRefused, match=f"spec.runtimeEnv.{installer}: spec.image has no virtualenv"):
        prepare({installer: ["a"]})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    assert prepare({installer: ["a"]}) == {installer: ["a"]}


def test_contract_ray_uploads_by_these_functions_and_knows_these_keys() -> None:
    from ray._private.runtime_env.py_modules import upload_py_modules_if_needed
    from ray._private.runtime_env.working_dir import upload_working_dir_if_needed
    from ray.runtime_env import RuntimeEnv
    from ray.train import RunConfig

    for function in (upload_py_modules_if_needed, upload_working_dir_if_needed):
        first, *others = inspect.signature(function).parameters
        assert first == "runtime_env" and "scratch_dir" in others
    assert set(KEYS) <= RuntimeEnv.known_fields
    held = {"env_vars": {"A": "1"}}
    assert RunConfig(worker_runtime_env=held).worker_runtime_env is held, "it is completed after the RunConfig exists"


def test_a_ray_that_uploads_elsewhere_is_refused_with_the_missing_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ray._private.runtime_env import py_modules

    monkeypatch.delattr(py_modules, "upload_py_modules_if_needed")
    with pytest.raises(JobRefused, match=r"spec\.runtimeEnv: Ray cannot upload it: .*upload_py_modules_if_needed"):
        upload_local_folders({"working_dir": str(tmp_path)}, scratch=str(tmp_path))
