"""The seeded defects still have their places; `make mutants` runs the tests that must catch them."""

from __future__ import annotations

import pytest
from tools.mutants import MUTANTS, PACKAGE, PROJECT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.what)
def test_a_seeded_defect_has_exactly_one_place(mutant: Mutant) -> None:
    assert (PROJECT / PACKAGE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((PROJECT / test).exists() for test in mutant.tests)


def test_there_are_as_many_as_the_project_promises() -> None:
    assert len({mutant.what for mutant in MUTANTS}) == len(MUTANTS) >= 15
