"""When the next loss of a run is expected: by what is published at first, and by its own losses later."""

from __future__ import annotations

import pytest

from railhead.contract.loss_rate import LossHistory

HOUR = 3600.0
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("history", "ranks", "expected"),
    [
        (LossHistory(), 1, DAY),
        (LossHistory(), 337, DAY),
        (LossHistory(), 1024, 7.9 * HOUR),
        (LossHistory(), 2048, 7.9 * HOUR / 2),
        (LossHistory(1, 8 * HOUR), 8, 16 * HOUR),
        (LossHistory(99, 26 * HOUR), 8, HOUR / 2),
        (LossHistory(9, 2.1 * HOUR), 1024, HOUR),
        (LossHistory(0, 6 * DAY), 8, 7 * DAY),
        (LossHistory(-1, -5.0), 1, DAY),
    ],
)
def test_what_is_assumed_counts_as_much_as_one_loss(history: LossHistory, ranks: int, expected: float) -> None:
    assert history.expect_seconds(ranks) == pytest.approx(expected)
