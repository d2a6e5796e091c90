"""Times and lines of text as both sides write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.text import clean_line, clean_text, write_ranks
from railhead.contract.times import format_time, parse_time


def test_a_time_is_read_as_it_was_written() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert parse_time(format_time(moment)) == parse_time("2026-01-02T03:04:05") == moment


def test_a_time_of_another_zone_is_the_same_moment_in_utc() -> None:
    moment = parse_time("2026-01-02T03:04:05+02:00")
    assert moment is not None and moment == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert format_time(moment) == "2026-01-02T01:04:05Z"


@pytest.mark.parametrize(
    "text", ["", "now", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", None]
)
def test_other_texts_and_times_too_far_off_to_compute_with_are_none(text: str | None) -> None:
    assert parse_time(text) is None


@given(st.text(st.characters()))
def test_any_text_becomes_printable_and_no_longer(text: str) -> None:
    assert clean_line(text).isprintable()
    assert clean_text(text).replace("\n", "").isprintable()
    assert len(clean_line(text)) == len(clean_text(text)) == len(text)
    assert clean_text(text).encode().decode() == clean_text(text)


@pytest.mark.parametrize("text", ["", "loss 0.5", "Größe 学習 🚀", "<script>&amp;", "a\nb", "\n"])
def test_ordinary_text_is_kept(text: str) -> None:
    assert clean_text(text) == text
    assert clean_line(text) == text.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        pytest.param("\x1b[2Ja", "\ufffd[2Ja", id="an escape sequence"),
        pytest.param("\x9b31ma", "\ufffd31ma", id="its 8-bit form"),
        pytest.param("\x1b]0;t\x07a", "\ufffd]0;t\ufffda", id="a title"),
        pytest.param("a\rb\tc", "a b c", id="white space"),
        pytest.param("a\x00\x7f\x08", "a\ufffd\ufffd\ufffd", id="control characters"),
        pytest.param("a\u202eb\u2066c", "a\ufffdb\ufffdc", id="the writing direction"),
        pytest.param("a\u2028b\u0085c", "a b c", id="other line separators"),
        pytest.param("a\ud800b", "a\ufffdb", id="half a surrogate pair"),
    ],
)
def test_everything_else_is_replaced(text: str, clean: str) -> None:
    assert clean_line(text) == clean_text(text) == clean


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "rank 3"),
        ([41, 37], "ranks 37 and 41"),
        ([3, 4], "ranks 3-4"),
        (range(512), "ranks 0-511"),
        ([rank for rank in range(512) if rank != 37], "ranks 0-36 and 38-511"),
        (range(0, 16, 2), "ranks 0, 2, 4, 6, 8, 10, 12 and 14"),
        ([*range(0, 18, 2), 17], "ranks 0, 2, 4 and 7 more"),
    ],
)
def test_many_ranks_are_spans_or_counted(ranks: list[int], text: str) -> None:
    assert write_ranks(ranks) == text
