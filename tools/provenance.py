"""The provenance of a release: from which commit, pinned packages and builder its files come, as a SLSA predicate.

`make release` writes it, and `make publish` attests the digests of images and chart with it. It has no times, so
that one commit gives the same bytes each time.

buildx and GitHub's action write one as well, but only for what they build or see: the digests here are those of a
registry, which exist after the push, and a release by hand has neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.oci import digest_file

PREDICATE_TYPE = "slsaprovenance1"  # cosign's name of https://slsa.dev/provenance/v1
BUILD_TYPE = "https://railhead.dev/make-release/v1"
BY_HAND = "https://railhead.dev/make-release/by-hand"
# What pins the packages and their installer, and what names the image's base.
INPUTS = ("constraints.txt", "uv.txt", "Dockerfile")
COMMIT = re.compile(r"[0-9a-f]{40}")


def describe_build(
    project: Path, *, version: str, revision: str, image_arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, object]:
    """Returns the predicate.

    Args:
        revision: the commit; anything else, such as "unknown", is left out.
        image_arguments: what the image's builder got besides the Dockerfile's defaults.
        environment: that of the build. GitHub's variables name repository and workflow; other builds are by hand.
    """
    server = environment.get("GITHUB_SERVER_URL", "https://github.com")
    repository, workflow = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_WORKFLOW_REF", "")
    source: dict[str, object] = {"uri": f"git+{server}/{repository}"} if repository else {"name": "railhead"}
    if COMMIT.fullmatch(revision):
        source["digest"] = {"gitCommit": revision}
    inputs = [{"name": name, "digest": {"sha256": digest_file(project / name)}} for name in INPUTS]
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"version": version, "imageArguments": list(image_arguments)},
            "resolvedDependencies": [source, *inputs],
        },
        "runDetails": {"builder": {"id": f"{server}/{workflow}" if workflow else BY_HAND}},
    }


def find_provenance(folder: Path, version: str) -> Path:
    """Returns where a release's folder has it."""
    return folder / f"railhead-{version}.provenance.json"


def write_provenance(target: Path, predicate: Mapping[str, object]) -> None:
    target.write_text(json.dumps(predicate, indent=2, sort_keys=True) + "\n")
