"""The import rules of pyproject.toml, as a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "operator" / "railhead"
ROOM = PACKAGE / "driver" / "ray"
# Local mode's callback travels by itself, into pods without the bundle.
OTHERS = (PACKAGE / "local" / "in_pods" / "lightgbm_loopback.py",)


def test_imports_follow_the_layers() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([str(tool), "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def find_internals(file: Path) -> list[str]:
    """Ray's modules that a file imports and whose path has a part with a leading underscore, or that are generated."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            found += [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            found += [each.name for each in node.names]
    return [
        name
        for name in found
        if name.split(".")[0] == "ray"
        and (".generated" in name or any(part.startswith("_") for part in name.split(".")))
    ]


def test_only_one_room_imports_rays_internals() -> None:
    """import-linter knows other packages by their first name only."""
    files = [file for file in PACKAGE.rglob("*.py") if ROOM not in file.parents and file not in OTHERS]
    imports = {str(file.relative_to(PACKAGE)): found for file in files if (found := find_internals(file))}
    assert imports == {}
    assert any(map(find_internals, ROOM.glob("*.py"))), "the test would find them"
