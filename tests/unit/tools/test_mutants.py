"""A defect is caught by an assertion, matches the code in one place, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants import PACKAGE, PROJECT, BrokenDefect, is_caught
from tools.seeded_defects import DEFECTS, Defect

TESTS = """
import logging

def answer():
    return 42

def test_the_answer():
    assert answer() == 42

def test_that_the_code_logs_its_errors():
    try:
        found = answer()
    except Exception:
        logging.exception("failed")
        found = 0
    assert found == 42
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree whose only module is at the same time its own test."""
    Path(tmp_path, PACKAGE).mkdir(parents=True)
    Path(tmp_path, PACKAGE, "test_it.py").write_text(TESTS)
    Path(tmp_path, "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def make_defect(new: str, *, test: str = "", raises: tuple[str, ...] = ()) -> Defect:
    tests = (f"operator/railhead/test_it.py{test and '::' + test}",)
    return Defect("a wrong answer", "test_it.py", "    return 42\n", new, tests, raises)


def test_a_failed_assertion_catches_a_defect(folder: Path) -> None:
    assert is_caught(make_defect("    return 41\n"), folder)
    assert Path(folder, PACKAGE, "test_it.py").read_text() == TESTS, "the defect must be taken out again"


def test_a_failure_that_pytest_raises_catches_a_defect(folder: Path) -> None:
    assert is_caught(make_defect("    import pytest\n    pytest.fail('none')\n"), folder)


def test_a_defect_that_no_test_notices_is_not_caught(folder: Path) -> None:
    assert not is_caught(make_defect("    return 40 + 2\n"), folder)


@pytest.mark.parametrize(
    ("new", "name", "test"),
    [
        ("    return object().forty_two\n", "AttributeError", "test_the_answer"),
        ("    return object().forty_two\n", "AttributeError", "test_that_the_code_logs_its_errors"),
        ("    raise BaseExceptionGroup('', [AssertionError(), KeyError()])\n", "KeyError", "test_the_answer"),
        ("    return (\n", "SyntaxError", ""),
        ("    pass\nimport forty_two\n", "ModuleNotFoundError", ""),
    ],
)
def test_a_defect_that_breaks_the_code_is_refused(folder: Path, new: str, name: str, test: str) -> None:
    with pytest.raises(BrokenDefect, match=f"a wrong answer: the tests fail with {name}"):
        is_caught(make_defect(new, test=test), folder)


@pytest.mark.parametrize("test", ["test_the_answer", "test_that_the_code_logs_its_errors"])
def test_an_exception_that_the_defect_names_catches_it(folder: Path, test: str) -> None:
    assert is_caught(make_defect("    return {}[0]\n", test=test, raises=("LookupError",)), folder)


def test_a_defect_without_an_end_must_say_so(folder: Path) -> None:
    endless = "    while True: pass\n"
    with pytest.raises(BrokenDefect, match="fail with TimeoutExpired"):
        is_caught(make_defect(endless), folder, timeout=1)
    assert is_caught(make_defect(endless, raises=("TimeoutExpired",)), folder, timeout=1)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_a_defect_matches_exactly_one_place(defect: Defect) -> None:
    assert Path(PROJECT, PACKAGE, defect.file).read_text().count(defect.old) == 1, "adapt the defect to the code"
    assert defect.old != defect.new
    assert defect.tests and all(Path(PROJECT, test.partition("::")[0]).exists() for test in defect.tests)


def test_there_are_at_least_as_many_defects_as_documented() -> None:
    assert len({defect.what for defect in DEFECTS}) == len(DEFECTS) >= 47
