"""Bounds on files and functions: split by topic what outgrows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "operator" / "railhead"
FILE_LINES = 500  # a backstop: the rule is one job, said in the docstring's first sentence
FUNCTION_LINES = 50
FILES = sorted(PACKAGE.rglob("*.py"))


def find_faults(path: Path) -> Iterator[str]:
    name = path.relative_to(PACKAGE)
    text = path.read_text()
    tree = ast.parse(text)
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{name} has {lines} lines"
    if not ast.get_docstring(tree):
        yield f"{name}: a module starts with a docstring: its one job"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{name}: {node.name} has {length} lines"


def test_files_and_their_functions_stay_small() -> None:
    assert [fault for path in FILES for fault in find_faults(path)] == []
