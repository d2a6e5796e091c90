"""`railhead.Client` is imported when it is used, and the same file can be imported in a pod, which lacks it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import railhead
from railhead.client.session import Client
from railhead.resources.bundle import build_bundle


def run_python(code: str, *options: str, path: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_names_are_those_of_the_client() -> None:
    assert railhead.Client is Client
    with pytest.raises(AttributeError, match="module 'railhead' has no attribute 'Other'"):
        _ = railhead.Other


def test_importing_railhead_imports_nothing_else() -> None:
    folder = str(Path(railhead.__file__).parents[1])
    code = "import railhead; print([name for name in sys.modules if name.startswith(('railhead.', 'pydantic', 'aio'))])"
    assert run_python(code, path=folder) == "[]\n"


def test_a_file_with_the_client_can_be_imported_in_a_pod(tmp_path: Path) -> None:
    (tmp_path / "railhead.pyz").write_bytes(build_bundle())
    code = """
from railhead import Client, ClientError, Job
import railhead
assert "railhead.pyz" in railhead.__file__, railhead.__file__
try:
    raise ValueError
except ClientError:
    pass
except ValueError:
    pass
try:
    Client(namespace="a")
except ModuleNotFoundError as error:
    print(error)
"""
    said = run_python(f"exec({code!r})", path=str(tmp_path / "railhead.pyz"))
    assert "railhead.Client needs pip install 'railhead-train[client]' (No module named 'railhead.client')" in said
    assert "below `if __name__ == '__main__':`" in said
