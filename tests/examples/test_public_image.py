"""The example with Ray's own image, in an environment that has Ray and no torch: runtimeEnv brings it to the ranks."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from railhead.contract.job_input import RayNodes
from railhead.resources.base import JobRef
from railhead.resources.mounts import build_job_input
from tests.ray.pods import OBJECT_STORE, RAY_VERSION, Pods
from tests.unit.builders import make_spec

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLE = PROJECT / "manifests" / "examples" / "digits-public-image.yaml"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the Python of a new environment with Ray and virtualenv, as in Ray's images, and without torch."""
    folder = tmp_path_factory.mktemp("image")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, folder], check=True)
    packages = [f"ray[train]=={RAY_VERSION}", "grpcio", "virtualenv"]
    made = folder / "bin" / "python"
    target = ["--quiet", "--python", str(made), "--constraint", str(PROJECT / "constraints.txt")]
    subprocess.run([uv, "pip", "install", *target, *packages], check=True)
    assert subprocess.run([made, "-c", "import torch"], capture_output=True, check=False).returncode == 1
    return made


def write_wheel(folder: Path, *, content: str) -> Path:
    """Returns a wheel that adds one folder to sys.path, so that a package comes without a download."""
    info = "packages-1.0.dist-info"
    files = {
        "packages.pth": content,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: packages\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / "packages-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
    return path


def load_pods(folder: Path, python: Path, runtime_env: dict[str, Any]) -> Pods:
    """The example's pods with another runtimeEnv: both workers in one pod, which installs it once."""
    _, document = yaml.safe_load_all(EXAMPLE.read_text())
    fields = document["spec"]
    assert fields["runtimeEnv"].keys() == {"pip"}
    fields |= {
        "runtimeEnv": runtime_env,
        "scaling": {"numWorkers": 2, "workersPerPod": 2, "resourcesPerWorker": {"cpu": "1"}},
    }
    job = build_job_input(JobRef("default", "digits", "0a1b2c3d-0000-0000-0000-000000000000"), make_spec(**fields))
    sizes = RayNodes(
        head=replace(job.ray_node.head, object_store_bytes=OBJECT_STORE),
        worker=replace(job.ray_node.worker, object_store_bytes=OBJECT_STORE),
    )
    return Pods(folder, replace(job, ray_node=sizes), source=fields["source"]["inline"], python=str(python))


def install(wheel: Path) -> dict[str, Any]:
    return {"pip": {"packages": [str(wheel)], "pip_install_options": ["--no-index"]}}


@pytest.mark.slow
def test_ranks_train_with_a_torch_that_runtime_env_installs(tmp_path: Path, python: Path) -> None:
    wheel = write_wheel(tmp_path, content=sysconfig.get_path("purelib"))  # that of the tests, with torch
    with load_pods(tmp_path / "job", python, install(wheel)) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == SUCCEEDED_CODE, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.metrics is not None and float(outcome.metrics["accuracy"]) >= 0.94


@pytest.mark.slow
def test_ranks_report_that_runtime_env_brings_no_torch(tmp_path: Path, python: Path) -> None:
    wheel = write_wheel(tmp_path, content="")
    with load_pods(tmp_path / "job", python, install(wheel)) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=300) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "FrameworkMissing"
    assert "PyTorch isn't installed" in outcome.message


@pytest.mark.slow
def test_without_runtime_env_the_head_reports_the_missing_torch(tmp_path: Path, python: Path) -> None:
    with load_pods(tmp_path / "job", python, {}) as pods:
        pods.start_head()
        assert pods.wait_ended() == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        assert pods.read_outcome().reason == "FrameworkMissing"
