"""Which cases a test run tries: a few in each run, 6,000 of each kind with the slow tests.

`RAILHEAD_SEED=n` replays one of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CASES, QUICK, BATCH = 6000, 100, 985


def find_seeds() -> list[Any]:
    """Ranges of seeds as parameters of a test."""
    only = os.environ.get("RAILHEAD_SEED")
    if only:
        return [pytest.param(range(int(only), int(only) + 1), id=f"only {only}")]
    rest = (range(first, min(first + BATCH, CASES)) for first in range(QUICK, CASES, BATCH))
    first = pytest.param(range(QUICK), id="from 0")
    return [first, *(pytest.param(seeds, id=f"from {seeds.start}", marks=pytest.mark.slow) for seeds in rest)]


@contextmanager
def replayed_by(seed: int) -> Iterator[None]:
    """An error names the seed that repeats it."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"replay with RAILHEAD_SEED={seed}: {type(error).__name__}: {error}"[:3000]) from error
