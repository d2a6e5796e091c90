"""How a run's ending is classified after SIGTERM."""

from __future__ import annotations

import pytest

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.head.end_attempt import TERMINATED, conclude
from railhead.driver.pod.ending import Ending, Success

RAISED = Failure(FailureClass.APPLICATION, "TrainFunctionRaised", "rank 0: SystemExit")


@pytest.mark.parametrize(
    ("ending", "is_terminating", "expected"),
    [
        (Success(), False, Success()),
        (Success(), True, Success()),
        (RAISED, False, RAISED),
        (RAISED, True, TERMINATED),
        (TERMINATED, True, TERMINATED),
    ],
)
def test_sigterm_replaces_a_failure_but_not_a_success(ending: Ending, is_terminating: bool, expected: Ending) -> None:
    assert conclude(ending, is_terminating=is_terminating) == expected
