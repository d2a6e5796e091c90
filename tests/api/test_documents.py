"""The API server accepts each TrainJob in the documents and the examples, as `kubectl apply` sends it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from tests.api.server import ApiServer
from tests.api.trainjobs import PATH

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def find_jobs(path: Path) -> list[dict[str, object]]:
    """Returns the TrainJobs in the YAML blocks of a page, or in a file of YAML."""
    text = path.read_text()
    blocks = [text] if path.suffix == ".yaml" else BLOCK.findall(text)
    documents = [document for block in blocks for document in yaml.safe_load_all(block)]
    return [each for each in documents if isinstance(each, dict) and each.get("kind") == "TrainJob"]


PAGES = [PROJECT / "README.md", *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("manifests/examples/*.yaml")]
JOBS = [
    (f"{path.relative_to(PROJECT)}-{number}", job)
    for path in sorted(PAGES)
    for number, job in enumerate(find_jobs(path))
]


@pytest.mark.parametrize("job", [job for _, job in JOBS], ids=[name for name, _ in JOBS])
def test_the_api_server_accepts_the_job(api_server: ApiServer, job: dict[str, object]) -> None:
    metadata = cast(dict[str, object], job["metadata"]) | {"namespace": "default"}
    answer = api_server.request("POST", PATH, job | {"metadata": metadata}, dryRun="All", fieldValidation="Strict")
    assert answer.status == 201, answer.message


def test_the_documents_have_jobs() -> None:
    assert len(JOBS) > 30
