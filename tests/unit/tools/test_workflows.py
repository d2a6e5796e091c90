"""The workflows call make, run pinned actions with few permissions, and are valid to actionlint."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TypedDict, cast

import pytest
import yaml
from tools.go_program import resolve_program
from tools.publish import PUSHED

from railhead.local.control_plane.binaries import GoModule

PROJECT = Path(__file__).resolve().parents[3]
FILES = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = GoModule("actionlint", package="github.com/rhysd/actionlint/cmd/actionlint")
ACTIONLINT_VERSION = "1.7.12"
PINNED = re.compile(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
# Of the first job of a release.
ORDER = ("make setup", "make audit", "make test", "make release", "actions/upload-artifact")
MAKE = re.compile(r"make ([a-z-]+)")


class Step(TypedDict, total=False):
    """What the tests read of a step."""

    name: str
    run: str


class Job(TypedDict):
    """What the tests read of a job."""

    steps: list[Step]


def test_each_action_is_pinned_by_hash_and_names_its_version() -> None:
    assert [file.name for file in FILES] == ["ci.yml", "release.yml"]
    for file in FILES:
        uses = [line for line in file.read_text().splitlines() if "uses:" in line]
        assert uses
        assert not [line for line in uses if not PINNED.search(line)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_workflow_may_only_read_and_calls_make(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"^([a-z-]+): ", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    for job in cast("dict[str, Job]", workflow["jobs"]).values():
        commands = [
            step["run"] for step in job["steps"] if "run" in step and step.get("name") != "Log in to the registry"
        ]
        called = [MAKE.match(command) for command in commands]
        assert all(called), commands
        assert {match[1] for match in called if match} <= targets


def test_what_is_published_is_what_was_built_and_compared() -> None:
    """A second build would run all dependencies of the build beside the right to push."""
    jobs = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    kept = [step["with"] for step in jobs["build"]["steps"] if "upload-artifact" in step.get("uses", "")]
    taken = [step["with"] for step in jobs["publish"]["steps"] if "download-artifact" in step.get("uses", "")]
    assert [(each["name"], each["path"]) for each in taken] == [(each["name"], each["path"]) for each in kept]
    assert not [step for step in jobs["publish"]["steps"] if "make release" in step.get("run", "")]


def test_what_is_published_is_attested() -> None:
    job = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["publish"]
    attested = [step["with"] for step in job["steps"] if "actions/attest@" in step.get("uses", "")]
    assert attested == [{"subject-checksums": f"build/{name}"} for name in ("release/SHA256SUMS", PUSHED)]
    steps = [step.get("run", step.get("uses", "")).partition("@")[0] for step in job["steps"]]
    assert next(i for i, step in enumerate(steps) if step.startswith("make publish")) < steps.index("actions/attest")
    assert job["permissions"]["id-token"] == job["permissions"]["attestations"] == "write"


def test_a_release_is_audited_and_tested_before_its_files_are_kept() -> None:
    jobs = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    steps = [step.get("run", step.get("uses", "").partition("@")[0]) for step in jobs["build"]["steps"]]
    order = [next(i for i, step in enumerate(steps) if step.startswith(wanted)) for wanted in ORDER]
    assert order == sorted(order)
    assert not [step for step in jobs["build"]["steps"] if "if" in step or "continue-on-error" in step]
    assert jobs["publish"]["needs"] == "build"
    assert "permissions" not in jobs["build"], "what runs the tests' packages may not push"


def test_the_image_of_a_release_has_a_base_with_a_digest() -> None:
    """`make release` refuses another one: test_release.py."""
    jobs = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    [step] = [step for step in jobs["build"]["steps"] if step.get("run", "").startswith("make release")]
    assert 'IMAGE_ARGS="--build-arg BUILD_IMAGE=$BASE_IMAGE"' in step["run"]
    assert step["env"] == {"BASE_IMAGE": "${{ vars.BASE_IMAGE }}"}


def test_the_job_that_may_push_installs_nothing_of_the_tests() -> None:
    jobs = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    made = [step["run"].split()[1] for step in jobs["publish"]["steps"] if step.get("run", "").startswith("make ")]
    assert made == ["setup-publish", "publish"]
    recipe = read_recipe("setup-publish")
    assert re.findall(r"--extra (\w+)", recipe) == ["local"]
    assert "--constraint constraints.txt" in recipe
    assert "--require-hashes --requirement uv.txt" in recipe


def test_the_audit_looks_up_every_pinned_package() -> None:
    """Without --strict pip-audit accepts packages that its service does not know."""
    recipe = read_recipe("audit")
    for argument in ("--strict", "--requirement constraints.txt", "--requirement uv.txt"):
        assert argument in recipe
    assert re.search(r"^PIP_AUDIT_VERSION := \d+\.\d+\.\d+$", (PROJECT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("file", ["Makefile", "Dockerfile", "manifests/examples/Dockerfile"])
def test_pip_installs_only_what_it_compares_with_a_hash(file: str) -> None:
    text = (PROJECT / file).read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if re.search(r"(?<!uv )pip install", line)]
    assert installs
    assert not [line for line in installs if "--require-hashes" not in line]


def read_recipe(target: str) -> str:
    """Returns the commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert found, target
    return found[1]


@pytest.mark.slow
def test_actionlint_accepts_the_workflows() -> None:
    actionlint = resolve_program(ACTIONLINT, ACTIONLINT_VERSION, print) / "actionlint"
    done = subprocess.run([actionlint, *FILES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
