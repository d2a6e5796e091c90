"""What the provenance of a release says of its source, its inputs and its builder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.oci import digest_file
from tools.provenance import BY_HAND, INPUTS, describe_build, find_provenance, write_provenance

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GITHUB = {
    "GITHUB_SERVER_URL": "https://github.test",
    "GITHUB_REPOSITORY": "a/railhead",
    "GITHUB_WORKFLOW_REF": "a/railhead/.github/workflows/release.yml@refs/tags/v0.1.0",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in INPUTS:
        (tmp_path / name).write_text(name)
    return tmp_path


def describe(project: Path, environment: Mapping[str, str], revision: str = COMMIT) -> dict[str, object]:
    return describe_build(
        project, version="0.1.0", revision=revision, image_arguments=["--pull"], environment=environment
    )


def test_the_workflow_is_the_builder_and_its_repository_the_source(project: Path) -> None:
    predicate = describe(project, GITHUB)
    assert predicate["buildDefinition"] == {
        "buildType": "https://railhead.dev/make-release/v1",
        "externalParameters": {"version": "0.1.0", "imageArguments": ["--pull"]},
        "resolvedDependencies": [
            {"uri": "git+https://github.test/a/railhead", "digest": {"gitCommit": COMMIT}},
            *({"name": name, "digest": {"sha256": digest_file(project / name)}} for name in INPUTS),
        ],
    }
    assert predicate["runDetails"] == {
        "builder": {"id": "https://github.test/a/railhead/.github/workflows/release.yml@refs/tags/v0.1.0"}
    }


def test_a_build_by_hand_says_so_and_claims_no_address(project: Path) -> None:
    predicate = describe(project, {}, revision="unknown")
    assert predicate["runDetails"] == {"builder": {"id": BY_HAND}}
    definition = predicate["buildDefinition"]
    assert isinstance(definition, dict)
    assert definition["resolvedDependencies"][0] == {"name": "railhead"}


def test_one_commit_gives_the_same_bytes(project: Path) -> None:
    first, second = find_provenance(project, "1"), find_provenance(project, "2")
    write_provenance(first, describe(project, GITHUB))
    write_provenance(second, describe(project, dict(reversed(GITHUB.items()))))
    assert first.name == "railhead-1.provenance.json"
    assert first.read_bytes() == second.read_bytes()
