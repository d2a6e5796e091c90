"""The table of errors that one rank has, or that the driver has found."""

from __future__ import annotations

from itertools import pairwise

import pytest

from railhead.contract.failure import FailureClass
from railhead.driver.messages.rank_errors import (
    FOUND_BY_DRIVER,
    HANGS,
    HANGS_BY_REASON,
    ROWS,
    RankErrorKind,
)
from railhead.driver.train_controller.failures.classify_failure import (
    FailureFacts,
    FailureOrigin,
    RankError,
    classify_failure,
)


def test_every_kind_has_a_row_but_that_of_a_node_that_leaves() -> None:
    assert set(RankErrorKind) - set(ROWS) == {RankErrorKind.PREEMPTED}


@pytest.mark.parametrize("kind", ROWS)
def test_an_error_becomes_the_failure_of_its_row(kind: RankErrorKind) -> None:
    row = ROWS[kind]
    failure = classify_failure(FailureFacts(FailureOrigin.WORKERS, (RankError(1, kind, "it broke", 2.0, pod="w1"),)))
    assert (failure.class_, failure.reason) == (row.class_, row.reason)
    assert failure.message.startswith(row.beginning + ("pod w1: " if row.names_pod else ""))
    assert failure.suspect_pod == ("" if row.is_waiting else "w1")
    assert ("rank 1" in failure.message) == (kind not in FOUND_BY_DRIVER)


def test_a_cause_comes_before_its_consequence() -> None:
    """The first row of several errors is the failure."""
    for cause, consequence in pairwise(ROWS):
        errors = (RankError(0, consequence, "later", 1.0), RankError(1, cause, "earlier", 1.0))
        failure = classify_failure(FailureFacts(FailureOrigin.WORKERS, errors))
        assert (failure.class_, failure.reason) == (ROWS[cause].class_, ROWS[cause].reason)


def test_a_hang_that_the_driver_finds_is_told_by_its_reason() -> None:
    assert {kind for kind in ROWS if ROWS[kind].class_ is FailureClass.HANG} == HANGS
    assert set(HANGS_BY_REASON) == {"NoSteps", "ProgressDeadlineExceeded"}
    assert set(HANGS_BY_REASON.values()) == HANGS & FOUND_BY_DRIVER
