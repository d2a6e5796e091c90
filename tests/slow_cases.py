"""Which cases of a parametrized test `make test` runs: the first ones. `make test-all` runs the others too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")


def slow_after(first: int, cases: Iterable[Case]) -> list[Case | ParameterSet]:
    """Returns the cases as parameters of a test, of which those after the first ones are slow."""
    return [case if place < first else pytest.param(case, marks=pytest.mark.slow) for place, case in enumerate(cases)]
