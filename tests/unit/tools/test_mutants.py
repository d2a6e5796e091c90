"""Each seeded defect matches the code in one place, and its tests exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants import PACKAGE, PROJECT
from tools.seeded_defects import DEFECTS, Defect


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_a_defect_matches_exactly_one_place(defect: Defect) -> None:
    assert Path(PROJECT, PACKAGE, defect.file).read_text().count(defect.old) == 1, "adapt the defect to the code"
    assert defect.old != defect.new
    assert defect.tests and all(Path(PROJECT, test).exists() for test in defect.tests)


def test_there_are_at_least_as_many_defects_as_documented() -> None:
    assert len({defect.what for defect in DEFECTS}) == len(DEFECTS) >= 47
