"""Runs the digits job and the contract tests of Ray's internals with several versions of Ray.

Each version has its own virtual environment in the cache folder, created once, with the pins
of constraints.txt other than Ray's; the newest version uses the environment of this checkout.
Prints its progress and how long each version took; exits 1 if a version failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
OLDER = ("2.52.1", "2.55.1")  # the oldest that Railhead works with, and the first with elastic jobs and label selectors
PACKAGES = (
    "torch",
    "grpcio",
    "scikit-learn",
    "pytest",
    "pytest-asyncio",
    "pytest-randomly",
    "pytest-xdist",
    "hypothesis",
    "boto3",
)
FAILURES = "tests/ray/test_failures.py"
TESTS = (
    "tests/ray/test_contract.py",
    "tests/ray/test_digits.py",
    f"{FAILURES}::test_lost_worker_pod_is_replaced_in_the_same_fit",
    f"{FAILURES}::test_ray_is_notified_of_a_lost_node_and_schedules_nothing_there",
    f"{FAILURES}::test_new_attempt_resumes_from_the_last_checkpoint_and_sigterm_ends_at_once",
    f"{FAILURES}::test_a_dead_ray_head_is_an_infrastructure_failure",
)
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?==\S+(?: ;[^\\]*)?)", re.MULTILINE)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="+", default=[*OLDER, "newest"], help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=find_cache(), help="where environments are kept: %(default)s")
    options = parser.parse_args(arguments)
    results: list[tuple[str, str, float]] = []
    for version in options.versions:
        began = time.monotonic()
        echo(f"Ray {version}")
        try:
            python = Path(sys.executable) if version == "newest" else make_environment(version, options.cache)
            known = read_version(python)
            is_good = run_tests(python)
            results.append((known, "passed" if is_good else "FAILED", time.monotonic() - began))
        except subprocess.CalledProcessError as error:
            echo(f"Ray {version}: no environment: {' '.join(map(str, error.cmd))} exited with code {error.returncode}")
            results.append((version, "FAILED (no environment)", time.monotonic() - began))
    for version, result, seconds in results:
        echo(f"Ray {version:8} {result} in {seconds:.0f} s")
    return 0 if all(result == "passed" for _, result, _ in results) else 1


def find_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "railhead" / "ray-matrix"


def make_environment(version: str, cache: Path) -> Path:
    """Its Python. An existing environment is only brought up to date, which takes a second."""
    folder = cache / f"{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if not python.exists():
        echo(f"creating {folder} (with torch and Ray: some GB the first time)")
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    constraints = cache / f"{version}-constraints.txt"
    constraints.write_text(build_constraints((PROJECT / "constraints.txt").read_text()))
    wanted = [f"ray[train]=={version}", *PACKAGES, *read_own_requirements()]
    install = [str(uv), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, "--constraint", str(constraints), *wanted], check=True)
    subprocess.run([*install, "--no-deps", "--editable", str(PROJECT)], check=True)
    return python


def build_constraints(text: str) -> str:
    """The pins of constraints.txt without their hashes and without Ray's."""
    pins = [match.strip() for match in _PIN.findall(text)]
    return "\n".join(pin for pin in pins if not pin.startswith(("ray==", "ray["))) + "\n"


def read_own_requirements() -> list[str]:
    """Returns what Railhead itself depends on, with its extras operator and local, but without Ray."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["operator"], *extras["local"]]
    return [each for each in wanted if not each.startswith(f"{project['name']}[")]


def read_version(python: Path) -> str:
    command = [str(python), "-c", "from importlib import metadata; print(metadata.version('ray'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run_tests(python: Path) -> bool:
    command = [str(python), "-m", "pytest", "-q", "--durations=4", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=PROJECT, check=False).returncode == 0


def echo(text: str) -> None:
    print(f"== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
