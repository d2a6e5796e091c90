"""The digits example for both ways of starting it: one manifest, one source file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from railhead.api.parsed_spec import parse_spec
from railhead.api.spec import TrainJobSpec

FOLDER = Path(__file__).resolve().parents[1] / "manifests" / "examples"
CODE = FOLDER / "src" / "digits.py"


def build_manifest(name: str) -> str:
    """The example under another name, with its own claim, and so its own storage folder."""
    claim, job = yaml.safe_load_all((FOLDER / "digits.yaml").read_text())
    claim["metadata"]["name"] = job["metadata"]["name"] = name
    job["spec"]["run"]["storageVolume"]["persistentVolumeClaim"]["claimName"] = name
    return yaml.safe_dump_all([claim, job])


def read_spec() -> TrainJobSpec:
    job: Any = list(yaml.safe_load_all((FOLDER / "digits.yaml").read_text()))[1]
    return parse_spec(job["spec"])
