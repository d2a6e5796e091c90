"""What an ending counts for once SIGTERM has arrived."""

from __future__ import annotations

import pytest

from railhead.contract.failure import Failure, FailureClass
from railhead.driver.ending import TERMINATED, Ending, Success, conclude

RAISED = Failure(FailureClass.APPLICATION, "TrainFunctionRaised", "rank 0: SystemExit")


@pytest.mark.parametrize(
    ("ending", "is_terminating", "wanted"),
    [
        (Success(), False, Success()),
        (Success(), True, Success()),
        (RAISED, False, RAISED),
        (RAISED, True, TERMINATED),
        (TERMINATED, True, TERMINATED),
    ],
)
def test_after_sigterm_a_failure_is_the_end_itself_and_a_success_remains_one(
    ending: Ending, is_terminating: bool, wanted: Ending
) -> None:
    assert conclude(ending, is_terminating=is_terminating) == wanted
