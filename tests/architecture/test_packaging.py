"""The distribution: its name, what each extra brings, and that no file names another project's distribution."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "operator" / "railhead"
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
# `railhead` on the package index is another project: a reader who installs it runs foreign code.
FOREIGN = re.compile(r"(?:install|add|download)\b[^\n]*?[\s'\"]railhead(?:\[[^]]*\])?(?=[\s'\"`=<>~!;,]|$)")
INSTALLER = re.compile(r"\b(?:pip3?|pipx|uv|uvx|poetry|conda)\b")
# Where a distribution's name and its module's differ
MODULES = {"pyyaml": "yaml", "prometheus-client": "prometheus_client", "grpcio": "grpc"}
FOLDERS = {  # by folder of the package: the extras that it may need
    "api": ("client",),  # its generators write YAML
    "client": ("client", "storage", "plot", "ui"),
    "contract": (),
    "resources": (),
    "kube": ("client",),
    "planning": ("operator",),
    "controller": ("client", "operator"),
    "local": ("client", "operator", "local", "train"),
}


def find_files() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split()
    files = [PROJECT / name for name in names if Path(name).suffix in {".md", ".py", ".yaml", ".toml", ".txt", ""}]
    return [file for file in files if file.is_file() and file != Path(__file__)]


def find_foreign(text: str) -> list[str]:
    return [line for line in text.splitlines() if INSTALLER.search(line) and FOREIGN.search(line)]


def test_no_file_says_to_install_the_other_project() -> None:
    found = {}
    for file in find_files():
        try:
            found[file.name] = find_foreign(file.read_text())
        except UnicodeDecodeError:
            continue
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "is_foreign"),
    [
        ("pip install railhead", True),
        ("RUN pip install --no-cache-dir 'railhead[train]==0.1'", True),
        ("uv pip install torch railhead", True),
        ("uv add railhead", True),
        ("pip install 'railhead-train[local,train]'", False),
        ("pip install railhead_train-0.1.0-py3-none-any.whl", False),
        ("helm install railhead charts/railhead", False),
    ],
)
def test_recognises_the_other_project(line: str, is_foreign: bool) -> None:
    assert bool(find_foreign(line)) == is_foreign


def find_modules(*extras: str) -> set[str]:
    """Returns the modules that the distribution brings with the extras."""
    names = [
        *PYPROJECT["dependencies"],
        *(each for extra in extras for each in PYPROJECT["optional-dependencies"][extra]),
    ]
    distributions = [re.split(r"[\[<>=~! ]", name)[0] for name in names]
    return {MODULES.get(name, name) for name in distributions}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_imports_only_what_its_extras_bring(folder: str) -> None:
    known = find_modules(*FOLDERS[folder]) | {"railhead", "pydantic_core"} | set(sys.stdlib_module_names)
    imported = set()
    for file in (PACKAGE / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    assert imported - known == set()


def test_the_constraints_are_those_of_this_distribution() -> None:
    text = (PROJECT / "constraints.txt").read_text()
    assert f"{PYPROJECT['name']} (pyproject.toml)" in text
    assert " railhead (pyproject.toml)" not in text
