"""spec.runtimeEnv with a real Ray: what pip installs, and the failure of a job if Ray cannot create it.

Its variables, modules and working directory are in test_placement.py.
"""

from __future__ import annotations

import site
import venv
import zipfile
from pathlib import Path

import pytest

from railhead.contract.failure import SUCCEEDED_CODE, FailureClass
from tests.ray.pods import Pods, make_job, make_single_job


def write_wheel(folder: Path) -> Path:
    """A minimal package: one module, installed from a file, so that pip queries no index."""
    info = "bricks-1.0.dist-info"
    files = {
        "bricks.py": "NAME = 'installed-by-pip'",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: bricks\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / "bricks-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
    return path


INSTALLED = """
import ray.train
import bricks

def train_func():
    print(f"rank {ray.train.get_context().get_world_rank()} has {bricks.NAME}")
"""


def make_python(folder: Path) -> str:
    """Returns the interpreter of a virtual environment that only refers to the packages of this one.

    Ray copies the virtual environment that it runs in for each node, with all of its packages: 17 GB from this one.
    """
    venv.create(folder)
    [packages] = (folder / "lib").glob("python*/site-packages")
    lines = (f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages / "packages.pth").write_text("".join(lines))
    return str(folder / "bin" / "python")


@pytest.mark.slow
def test_pip_installs_for_the_ranks(tmp_path: Path) -> None:
    python = make_python(tmp_path / "image")
    runtime_env = {"pip": {"packages": [str(write_wheel(tmp_path))], "pip_install_options": ["--no-index"]}}
    job = make_job(framework="Python", runtime_env=runtime_env)
    with Pods(tmp_path, job, source={"user.py": INSTALLED}, python=python) as pods:
        pods.start()
        assert pods.wait_ended(timeout=240) == SUCCEEDED_CODE, pods.read_log()
        log = pods.read_log()
    for rank in (0, 1):
        assert f"rank {rank} has installed-by-pip" in log


@pytest.mark.slow
def test_an_environment_that_ray_cannot_create_is_a_configuration_error(tmp_path: Path) -> None:
    job = make_single_job(runtime_env={"conda": "no-such-environment"})
    with Pods(tmp_path, job, source={"user.py": "def train_func(): ..."}) as pods:
        pods.start(workers=1)
        assert pods.wait_ended(timeout=180) == FailureClass.CONFIGURATION.exit_code, pods.read_log()
        outcome = pods.read_outcome()
    assert outcome.reason == "RuntimeEnvNotUsable"
    assert outcome.message.startswith("spec.runtimeEnv: Ray cannot set it up: ValueError: ")
    assert "conda" in outcome.message, "Ray's message, whether the machine has conda or not"
