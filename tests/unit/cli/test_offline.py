"""`render` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from railhead.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "digits.yaml"


def test_render_prints_documents(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["render", str(EXAMPLE)]) == 0
    kinds = [each["kind"] for each in yaml.safe_load_all(capsys.readouterr().out) if each]
    assert {"Pod", "Secret", "NetworkPolicy", "Service", "ConfigMap"} == set(kinds)
    assert main(["render", str(tmp_path / "none.yaml")]) == 2
