"""When the next loss of a run is expected: by what is published at first, and by its own losses later."""

from __future__ import annotations

import pytest

from railhead.contract.loss_rate import PUBLISHED_GPU_SECONDS, Basis, GpuRate, JobLosses, LossHistory

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


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (JobLosses(), GpuRate(PUBLISHED_GPU_SECONDS, Basis.PUBLISHED)),
        (JobLosses(2, 60.0), GpuRate(PUBLISHED_GPU_SECONDS, Basis.PUBLISHED)),
        (JobLosses(3, 60.0), GpuRate(20.0, Basis.SEEN)),
        (JobLosses(9, 9e9), GpuRate(1e9, Basis.SEEN)),
        (JobLosses(0, 9e9), GpuRate(9e9, Basis.PROVEN)),
        (JobLosses(2, 9e9), GpuRate(3e9, Basis.PROVEN)),
        (JobLosses(3, 0.0), GpuRate(PUBLISHED_GPU_SECONDS, Basis.PUBLISHED)),
        (JobLosses(-1, -1.0), GpuRate(PUBLISHED_GPU_SECONDS, Basis.PUBLISHED)),
    ],
)
def test_the_losses_of_jobs_give_a_rate_from_three_on_or_where_few_came_in_much_time(
    losses: JobLosses, expected: GpuRate
) -> None:
    assert losses.find_rate() == expected


@pytest.mark.parametrize(
    ("others", "ranks", "expected"),
    [
        (JobLosses(10, 8 * 50 * HOUR), 8, 5 * HOUR),
        (JobLosses(10, 1024 * 200 * HOUR), 1024, 20 * HOUR),
        (JobLosses(10, 1024 * 200 * HOUR), 8, DAY),
        (JobLosses(0, 1024 * 16 * HOUR), 1024, 16 * HOUR),
        (JobLosses(2, 8 * HOUR), 1024, 7.9 * HOUR),
    ],
)
def test_the_other_jobs_of_the_namespace_say_what_is_assumed_of_a_run_but_no_more_than_a_day(
    others: JobLosses, ranks: int, expected: float
) -> None:
    assert LossHistory(others=others).expect_seconds(ranks) == pytest.approx(expected)
    assert LossHistory(1, 8 * HOUR, others).expect_seconds(ranks) == pytest.approx((expected + 8 * HOUR) / 2)


def test_losses_add_up_and_are_taken_away_again() -> None:
    some = JobLosses(2, 30.0)
    assert some.add(JobLosses(1, 10.0)) == JobLosses(3, 40.0)
    assert some.add(some, times=-1) == JobLosses()
