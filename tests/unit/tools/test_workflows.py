"""The workflows call make, run pinned actions with few permissions, and are valid to actionlint."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TypedDict, cast

import pytest
import yaml
from tools.go_program import resolve_program

from railhead.local.control_plane.binaries import GoModule

PROJECT = Path(__file__).resolve().parents[3]
FILES = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = GoModule("actionlint", package="github.com/rhysd/actionlint/cmd/actionlint")
ACTIONLINT_VERSION = "1.7.12"
PINNED = re.compile(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
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


@pytest.mark.slow
def test_actionlint_accepts_the_workflows() -> None:
    actionlint = resolve_program(ACTIONLINT, ACTIONLINT_VERSION, print) / "actionlint"
    done = subprocess.run([actionlint, *FILES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
