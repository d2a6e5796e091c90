"""The manifests of the examples: each can be applied alone, in a cluster with one default StorageClass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.embed_example import embed, find_source

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"
MANIFESTS = sorted(EXAMPLES.rglob("*.yaml"))


@pytest.fixture(params=MANIFESTS, ids=lambda path: path.stem)
def manifest(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def load(manifest: Path) -> dict[str, Any]:
    """Returns its objects, keyed by kind; there is one of each."""
    documents = list(yaml.safe_load_all(manifest.read_text()))
    objects = {document["kind"]: document for document in documents}
    assert len(objects) == len(documents)
    return objects


def test_the_storage_of_an_example_is_in_its_own_file(manifest: Path) -> None:
    objects = load(manifest)
    spec = objects["TrainJob"]["spec"]
    if "storageVolume" in spec["run"]:
        claim = objects["PersistentVolumeClaim"]
        assert spec["run"]["storageVolume"] == {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        assert claim["spec"]["accessModes"] == ["ReadWriteOnce"], "which each default StorageClass offers"
        assert "storageClassName" not in claim["spec"]
        assert "on several nodes ReadWriteMany, or S3 as in digits-s3.yaml" in manifest.read_text()
    else:
        assert spec["run"]["storagePath"].startswith("s3://")
        assert spec["envFrom"] == [{"secretRef": {"name": objects["Secret"]["metadata"]["name"]}}]


def test_the_job_and_its_claim_are_named_as_the_file(manifest: Path) -> None:
    objects = load(manifest)
    assert objects["TrainJob"]["metadata"]["name"] == manifest.stem
    if "PersistentVolumeClaim" in objects:
        assert objects["PersistentVolumeClaim"]["metadata"]["name"] == f"{manifest.stem}-runs"


def test_the_page_of_the_examples_has_a_row_for_each(manifest: Path) -> None:
    path = manifest.relative_to(EXAMPLES)
    assert f"| [{path}]({path}) |" in (EXAMPLES / "README.md").read_text()


def test_each_source_is_in_a_manifest() -> None:
    assert {find_source(manifest) for manifest in MANIFESTS} == set(EXAMPLES.rglob("src/*.py"))


def test_code_is_embedded_between_the_markers_alone() -> None:
    begin, end = "      # begin of src/a.py (copied by `make generate`)\n", "      # end of src/a.py\n"
    manifest = f"before\n{begin}      a.py: |\n        old\n{end}after\n"
    new = embed(manifest, name="a.py", code="if x:\n\n    y\n")
    assert new == f"before\n{begin}      a.py: |\n        if x:\n\n            y\n{end}after\n"
    with pytest.raises(ValueError, match=r"the marker comments for b\.py are missing"):
        embed(manifest, name="b.py", code="")
