"""Which interruptions of a job are losses of its cluster, and in how much training they happened."""

from __future__ import annotations

import pytest

from railhead.api.goodput import GoodputStatus, LostSeconds
from railhead.contract.loss_rate import NO_LOSSES, LossHistory


@pytest.mark.parametrize(
    ("interruptions", "number"),
    [
        ({}, 0),
        ({"Infrastructure": 1, "Hardware": 2, "Hang": 3, "Preemption": 4}, 10),
        ({"Hardware": 1, "Application": 7, "OutOfMemory": 3, "Configuration": 1}, 1),
    ],
)
def test_losses_by_the_users_code_do_not_count(interruptions: dict[str, int], number: int) -> None:
    assert GoodputStatus(interruptions=interruptions).losses.number == number


def test_only_time_with_a_worker_group_counts() -> None:
    lost = LostSeconds(retrained=100, checkpointing=10, hanging=1, queued=9000, restoring=9000, suspended=9000)
    assert GoodputStatus(productive_seconds=1000, lost_seconds=lost).losses == LossHistory(0, 1111)
    assert GoodputStatus().losses == NO_LOSSES
