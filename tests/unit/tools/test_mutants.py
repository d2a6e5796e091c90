"""Which files `make mutants` changes, and what it reports of the survivors that are accepted."""

from __future__ import annotations

import datetime
import re

import pytest
from tools.mutants import (
    PACKAGE,
    PARTS,
    PROJECT,
    ROOMS,
    TESTS,
    Survivor,
    choose,
    compare,
    read_accepted,
    read_survivor,
)

TODAY = datetime.date(2026, 1, 1)
FILES = [f"planning/{number:03}.py" for number in range(5 * PARTS + 3)]
DIFF = """\
--- src/railhead/contract/failure.py
+++ src/railhead/contract/failure.py
@@ -1,3 +1,3 @@
 def f(code):
-    return   code if code is not None else None
+    return code if code is not None or True else None
     # the end
"""
MUTANT = "railhead.contract.failure.xǁFailureClassǁof_exit_code__mutmut_12"
SURVIVOR = Survivor(
    "contract/failure.py",
    "FailureClass.of_exit_code",
    "return code if code is not None else None",
    "return code if code is not None or True else None",
)


def test_each_file_has_its_turn_within_as_many_days_as_there_are_parts() -> None:
    days = [choose(FILES, "", TODAY + datetime.timedelta(days)) for days in range(PARTS)]
    assert sorted(file for day in days for file in day) == FILES
    assert max(map(len, days)) - min(map(len, days)) <= 1


def test_words_choose_the_files_whose_names_have_one() -> None:
    assert choose(FILES, "/001 /007", TODAY) == ["planning/001.py", "planning/007.py"]


def test_changed_since_a_commit_chooses_files_that_differ_from_it() -> None:
    empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert choose(["contract/failure.py", "contract/no_such.py"], f"changed:{empty_tree}", TODAY) == [
        "contract/failure.py"
    ]


def test_a_survivor_is_known_by_what_changed_and_not_by_its_place() -> None:
    assert read_survivor(MUTANT, DIFF) == SURVIVOR
    assert read_survivor(MUTANT, DIFF.replace("-1,3 +1,3", "-7,3 +7,3")) == SURVIVOR


@pytest.mark.parametrize(
    ("survivors", "accepted", "problem"),
    [
        ([SURVIVOR], [SURVIVOR], None),
        ([], [], None),
        ([SURVIVOR], [], "survives: contract/failure.py FailureClass.of_exit_code"),
        ([], [SURVIVOR], "is accepted, but is killed or gone: contract/failure.py FailureClass.of_exit_code"),
    ],
    ids=["accepted", "none", "new", "killed"],
)
def test_survivors_and_the_accepted_ones_must_be_the_same(
    survivors: list[Survivor], accepted: list[Survivor], problem: str | None
) -> None:
    problems = compare(survivors, accepted, ["contract/failure.py"])
    assert [text.splitlines()[0] for text in problems] == ([problem] if problem else [])


def test_an_accepted_survivor_of_a_file_that_did_not_have_its_turn_is_not_missed() -> None:
    assert compare([], [SURVIVOR], ["planning/job.py"]) == []


@pytest.mark.parametrize(
    ("mutant", "function"),
    [("x_parse__mutmut_1", "parse"), ("x__join__mutmut_1", "_join"), ("xǁAǁ_b__mutmut_3", "A._b")],
)
def test_a_survivor_names_the_function_as_the_code_does(mutant: str, function: str) -> None:
    assert read_survivor(f"railhead.planning.facts.pod_failure.{mutant}", DIFF).function == function
    assert read_survivor(f"railhead.planning.facts.pod_failure.{mutant}", DIFF).file == "planning/facts/pod_failure.py"


def test_each_accepted_survivor_is_a_line_of_its_file_and_has_a_reason() -> None:
    """In each test run, since the mutants of a file run only every few days."""
    for survivor, reason in read_accepted().items():
        text = re.sub(r"\s+", " ", (PROJECT / PACKAGE / survivor.file).read_text())
        assert survivor.old in text, f"remove it from the accepted survivors: {survivor}"
        assert survivor.new != survivor.old and reason


def test_the_rooms_and_the_folders_of_their_tests_exist() -> None:
    assert all((PROJECT / PACKAGE / room).is_dir() for room in ROOMS)
    assert all((PROJECT / TESTS / folder).is_dir() for folders in ROOMS.values() for folder in folders)


@pytest.mark.parametrize(
    ("new", "is_only_wording"), [('"XXA pod XX"', True), ('"A POD "', True), ('"a pod "', True), ("None", False)]
)
def test_another_wording_of_a_message_is_no_survivor_to_report(new: str, is_only_wording: bool) -> None:
    assert Survivor("planning/job.py", "f", '"A pod "', new).is_only_wording is is_only_wording
