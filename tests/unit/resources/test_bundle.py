"""The driver bundle, and the command that starts it."""

from __future__ import annotations

import ast
import base64
import dataclasses
import io
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import railhead.driver
from railhead.contract.digest import digest
from railhead.driver.pod.ray_start import build_ray_environment
from railhead.resources.bundle import (
    BUNDLE_FILE,
    BUNDLE_PATH,
    TERMINATION_LOG,
    build_bundle,
    build_bundle_config_map,
    build_start,
    bundle_name,
)
from tests.ray.pods import make_job
from tests.unit.builders import SETTINGS
from tests.unit.driver.pod.test_ray_start import POD

CONFIG_MAP_BYTES = 2**20
INSIDE_RAY = {
    "railhead.driver.ray.steps_callback",
    "railhead.driver.train_controller.railhead_callback",
    "railhead.driver.train_controller.elastic",
    "railhead.driver.train_controller.failures.failure_policy",
    "railhead.driver.train_controller.fence_step",
    "railhead.driver.train_controller.worker_group",
    "railhead.driver.train_controller.shared_storage_step",
    "railhead.driver.train_controller.history_step",
    "railhead.driver.train_controller.metric_rules_step",
    "railhead.driver.train_controller.heartbeat_thread",
    "railhead.driver.train_controller.end_notice_step",
    "railhead.driver.train_controller.old_processes_step",
    "railhead.driver.train_controller.returns_step",
    "railhead.driver.train_controller.stacks_step",
    "railhead.driver.train_controller.validations_step",
    "railhead.driver.train_controller.failures.flight_records",
    "railhead.driver.train_controller.failures.ray_exceptions",
    "railhead.driver.train_controller.failures.post_mortem",
    "railhead.driver.train_controller.progress_step",
    "railhead.driver.fit.user_callbacks",
}
FRAMEWORKS = (
    "_paced_saves",
    "_sections",
    "_state_copy",
    "_storage_files",
    "accelerate",
    "dcp",
    "lightning",
    "mlflow",
    "transformers",
    "trl",
)
OF_A_FRAMEWORK = {f"railhead.training.{name}" for name in FRAMEWORKS}
IMPORT_ALL = """
import pkgutil, sys
sys.path.insert(0, sys.argv[1])
import railhead, railhead.contract, railhead.driver, railhead.training
assert (railhead.training.attempt(), railhead.training.end_notice()) == (1, None)
for package in (railhead.contract, railhead.driver, railhead.training):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            try:
                __import__(module.name)
            except ModuleNotFoundError as error:
                print(module.name, error.name)
            else:
                print(module.name)
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / BUNDLE_FILE
    path.write_bytes(build_bundle())
    return path


def run_bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Without site-packages, environment and working directory."""
    command = [sys.executable, "-I", "-S", "-B", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={})


def read_files() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(build_bundle())) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_the_same_sources_give_the_same_bytes_and_name() -> None:
    again = build_bundle.__wrapped__()
    assert again == build_bundle()
    assert bundle_name(again) == bundle_name(build_bundle())


def test_different_bytes_have_different_names() -> None:
    name = bundle_name(build_bundle())
    assert name != bundle_name(build_bundle() + b" ")
    assert name == name.lower() and len(name) <= 63 and "." not in name


def test_help_explains_what_the_bundle_is(bundle: Path) -> None:
    done = run_bare(str(bundle), "--help")
    assert done.returncode == 1
    assert "this is the entry point of a TrainJob's pods" in done.stderr


def test_a_pod_starts_without_installed_packages(bundle: Path) -> None:
    """Only modules that run inside Ray or are of a framework import it on top, so that an image without Ray gets
    a clear message, and one without the framework can train.
    """
    done = run_bare("-c", IMPORT_ALL, str(bundle))
    assert done.returncode == 0, done.stderr
    found = dict([*line.split(), ""][:2] for line in done.stdout.splitlines())
    assert OF_A_FRAMEWORK <= {name for name, missing in found.items() if missing} <= INSIDE_RAY | OF_A_FRAMEWORK
    assert {missing for name, missing in found.items() if name not in OF_A_FRAMEWORK} <= {"", "ray"}
    assert {
        "railhead.driver.head.run_head",
        "railhead.driver.pod.worker",
        "railhead.contract.job_input",
    } <= found.keys()


def test_contains_only_contract_driver_and_training() -> None:
    files = read_files()
    inside = {n for n in files if n.startswith(("railhead/contract/", "railhead/driver/", "railhead/training/"))}
    assert set(files) - inside == {
        "__main__.py",
        "sitecustomize.py",
        "railhead/__init__.py",
        "railhead/_version.py",
    }
    package = Path(railhead.driver.__file__).parent
    assert {n.removeprefix("railhead/driver/") for n in inside if n.startswith("railhead/driver/")} == {
        str(path.relative_to(package)) for path in package.rglob("*.py")
    }


def test_ray_processes_import_the_users_code_last_and_run_the_images_sitecustomize(
    bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('of the image')")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "queue.py").write_text("raise RuntimeError('not the standard library')")
    (tmp_path / "source" / "mine.py").write_text("print('of the user')")
    done = subprocess.run(
        [sys.executable, "-c", "import queue, mine"],
        env={"PYTHONPATH": f"{bundle}:{tmp_path / 'site'}", "RAILHEAD_SOURCE": str(tmp_path / "source")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["of the image", "of the user"], done.stderr


def test_a_sitecustomize_on_the_images_path_does_not_take_the_place_of_the_bundles(
    bundle: Path, tmp_path: Path
) -> None:
    """As of agents that trace a program: their `sitecustomize` runs no other one."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "sitecustomize.py").write_text("print('of the image')")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "mine.py").write_text("print('of the user')")
    given = {"PYTHONPATH": str(tmp_path / "agent"), "RAILHEAD_SOURCE": str(tmp_path / "source")}
    pod = replace(POD, bundle=str(bundle))
    environment = build_ray_environment(given, job=make_job(), pod=pod, folder="/")
    command = [sys.executable, "-c", "import mine"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["of the image", "of the user"], done.stderr


def test_its_syntax_suits_the_oldest_supported_python() -> None:
    for name, text in read_files().items():
        ast.parse(text, filename=name, feature_version=(3, 9))


def test_config_map_is_immutable_without_owner_and_holds_the_bytes() -> None:
    bundle = build_bundle()
    settings = dataclasses.replace(SETTINGS, bundle=bundle, bundle_name=bundle_name(bundle))
    made = build_bundle_config_map(settings, namespace="team")
    assert base64.b64decode(made["binaryData"][BUNDLE_FILE]) == bundle
    assert len(made["binaryData"][BUNDLE_FILE]) < CONFIG_MAP_BYTES
    assert made["immutable"] is True
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == (settings.bundle_name, "team")
    assert "ownerReferences" not in made["metadata"]


DRIVER = build_bundle()


def start(tmp_path: Path, role: str, *, wanted: str, driver: bytes = DRIVER) -> subprocess.CompletedProcess[str]:
    mounted = tmp_path / "mounted.pyz"
    mounted.write_bytes(driver)
    folders = {BUNDLE_PATH: str(mounted), TERMINATION_LOG: str(tmp_path / "log")}
    command = [folders.get(part, part) for part in build_start(role, digest=wanted, folder=f"{tmp_path}/temp")]
    assert command[0] == "python3"
    (tmp_path / "hashlib.py").write_text("raise SystemExit('a module of the working directory')")
    return subprocess.run(
        [sys.executable, *command[1:]], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )


def test_the_driver_runs_from_a_copy_that_nobody_else_can_change(tmp_path: Path) -> None:
    run = start(tmp_path, "nothing", wanted=digest(DRIVER))
    assert "unknown role 'nothing'" in run.stderr
    assert (tmp_path / "temp" / "railhead.pyz").read_bytes() == DRIVER


@pytest.mark.parametrize("driver", [b"print('foreign code')", DRIVER + b"x", b""])
def test_a_foreign_driver_does_not_run(tmp_path: Path, driver: bytes) -> None:
    run = start(tmp_path, "head", wanted=digest(DRIVER), driver=driver)
    message = f"railhead: the ConfigMap with the driver, which ends with {digest(DRIVER)}, was replaced; delete it"
    assert (run.returncode, run.stdout, run.stderr.strip()) == (66, "", message)
    assert (tmp_path / "log").read_text() == message
    assert not (tmp_path / "temp").exists()
