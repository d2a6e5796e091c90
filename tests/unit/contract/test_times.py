"""Times in texts of others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from railhead.contract.times import format_time, parse_time


def test_a_time_is_read_as_it_was_written() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert parse_time(format_time(moment)) == parse_time("2026-01-02T03:04:05") == moment


@pytest.mark.parametrize(
    "text", ["", "now", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", None]
)
def test_other_texts_and_times_too_far_off_to_compute_with_are_none(text: str | None) -> None:
    assert parse_time(text) is None
