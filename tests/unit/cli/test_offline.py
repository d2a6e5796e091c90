"""`explain` and `render` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from railhead.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "digits.yaml"


def test_explain_prints_the_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "scaling.numWorkers"]) == 0
    assert capsys.readouterr().out.startswith("spec.scaling.numWorkers (integer)\n  Number of Ray Train workers")
    assert main(["explain", "scaling.workers"]) == 3
    assert capsys.readouterr().err.startswith("railhead: there is no field spec.scaling.workers; did you mean")


def test_render_prints_documents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["render", str(EXAMPLE)]) == 0
    kinds = [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out) if each]
    assert {"Pod", "Secret", "NetworkPolicy", "Service", "ConfigMap"} == set(kinds)
    assert main(["render", str(tmp_path / "none.yaml")]) == 2
