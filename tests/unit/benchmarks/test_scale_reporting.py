"""The lag from a reported commit to the status."""

from __future__ import annotations

import pytest
from benchmarks.scale.reporting import Lags


def test_a_checkpoint_in_the_status_answers_for_earlier_ones_of_its_job() -> None:
    lags = Lags()
    lags.report("a", 0, at=1.0)
    lags.report("a", 1, at=2.0)
    lags.report("b", 0, at=2.0)
    lags.show("a", 1, at=4.0)
    lags.show("a", 1, at=9.0)  # the next status of the job still has it
    assert (sorted(lags.seconds), lags.missing) == ([2.0, 3.0], 1)


def test_what_the_status_shows_must_have_been_reported() -> None:
    lags = Lags()
    lags.show("a", -1, at=1.0)
    lags.report("a", 0, at=2.0)
    lags.clear()
    lags.show("a", 0, at=3.0)
    assert (lags.seconds, lags.missing) == ([], 0)


def test_quantiles_of_none_one_and_many_lags() -> None:
    lags = Lags()
    assert lags.quantile(99) is None
    lags.seconds = [3.0]
    assert lags.quantile(50) == 3.0
    lags.seconds = [float(n) for n in range(101)]
    assert lags.quantile(99) == pytest.approx(99.0)
