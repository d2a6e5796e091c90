"""How the package reads: bounds on what packs several thoughts into a line. Each bound only ever gets stricter."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "operator" / "railhead"
FILES = sorted(PACKAGE.rglob("*.py"))
LINES = sum(path.read_text().count("\n") for path in FILES)

MOST_TUPLES = 2
MOST_CONDITIONALS = 9.0  # per 1,000 lines
MOST_LAMBDAS = 0.9  # per 1,000 lines
MOST_LATE_CONSTANTS = 5
LEAST_COMMENTS = 19.0  # lines of their own that say why, per 1,000 lines; this one only ever goes up
MOST_WITHOUT_VERB = 0  # docstrings of functions that begin with no verb
VERB = re.compile(r"[A-Z][a-z]+s\b")
NO_VERBS = ("This", "Its", "Always", "Pods", "Jobs", "Ours", "Times", "Seconds", "Workers")
# A name that stands for two things, and why it may.
SAME_NAMES = {
    "Job": "what a user of the Python client has, and a job as planning understands it: neither knows the other",
    "TrainJobCallback": "one for each framework, as Ray and the frameworks name theirs",
}


@cache
def parse_all() -> dict[Path, ast.Module]:
    """Once, and not when the tests are collected: each process of pytest collects them all."""
    return {path: ast.parse(path.read_text()) for path in FILES}


def walk() -> Iterator[tuple[Path, ast.AST]]:
    for path, tree in parse_all().items():
        for node in ast.walk(tree):
            yield path, node


def is_unrelated(node: ast.AST) -> bool:
    """Whether a tuple of values is assigned to a tuple of names, and it is not a swap."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple):
        return False
    left = {ast.dump(each).replace("Store", "Load") for each in target.elts}
    right = {ast.dump(each) for each in node.value.elts}
    return not left & right


def list_late_constants(tree: ast.Module) -> list[int]:
    functions = [node.lineno for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        return []
    found = []
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.lineno < functions[0]:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(each, ast.Name) and each.id.lstrip("_").isupper() for each in targets):
            found.append(node.lineno)
    return found


def is_named_after_value(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a property, whose docstring may describe the value, or a constructor, whose one may describe the
    arguments: that of the class says what is made."""
    names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in node.decorator_list}
    return node.name == "__init__" or bool(names & {"property", "cached_property"})


def test_unrelated_values_have_a_line_each() -> None:
    found = [f"{path}:{node.lineno}" for path, node in walk() if is_unrelated(node) and isinstance(node, ast.Assign)]
    assert len(found) <= MOST_TUPLES, found


@pytest.mark.parametrize(("kind", "most"), [(ast.IfExp, MOST_CONDITIONALS), (ast.Lambda, MOST_LAMBDAS)])
def test_expressions_that_pack_a_line_are_rare(kind: type[ast.AST], most: float) -> None:
    found = sum(isinstance(node, kind) for _, node in walk())
    assert 1000 * found / LINES <= most, found


def test_no_conditional_is_inside_another() -> None:
    found = []
    for path, node in walk():
        if not isinstance(node, ast.IfExp):
            continue
        if any(isinstance(each, ast.IfExp) for each in (node.body, node.test, node.orelse)):
            found.append(f"{path}:{node.lineno}")
    assert not found


def test_constants_stand_above_the_functions() -> None:
    found = [f"{path}:{line}" for path, tree in parse_all().items() for line in list_late_constants(tree)]
    assert len(found) <= MOST_LATE_CONSTANTS, found


def test_reasons_stand_above_the_lines_that_surprise() -> None:
    found = sum(line.lstrip().startswith("# ") for path in FILES for line in path.read_text().splitlines())
    assert 1000 * found / LINES >= LEAST_COMMENTS, found


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = []
    for path, node in walk():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or is_named_after_value(node):
            continue
        docstring = ast.get_docstring(node)
        if docstring is None:
            continue
        word = VERB.match(docstring)
        if word is None or word[0] in NO_VERBS:
            found.append(f"{path}:{node.lineno}")
    assert len(found) <= MOST_WITHOUT_VERB, found


def test_a_name_stands_for_one_thing() -> None:
    files = Counter(path.name for path in FILES if path.name not in ("__init__.py", "__main__.py"))
    classes: Counter[str] = Counter()
    for _, node in walk():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes[node.name] += 1
    twice = {name for names in (files, classes) for name, number in names.items() if number > 1}
    assert twice == SAME_NAMES.keys(), "give one of them another name, or say why both keep it"
