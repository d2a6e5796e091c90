"""Over lost connections no line of a log is shown twice, and none is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.client.run.log_lines import LogPosition, read_rank

# Nanoseconds from one line to the next: often none, as in a burst.
STEPS = st.lists(st.sampled_from([0, 0, 1, 1000, 400_000_000, 1_000_000_000]), max_size=30)
CUTS = st.lists(st.integers(0, 30), max_size=6)


def stamp(nanoseconds: int) -> str:
    return f"2026-11-25T12:00:{nanoseconds // 10**9:02d}.{nanoseconds % 10**9:09d}Z"


def make_log(steps: list[int]) -> list[tuple[str, bytes]]:
    """Returns lines with their second; their texts are their numbers."""
    now, lines = 0, []
    for number, step in enumerate(steps):
        now += step
        lines.append((stamp(now)[:19] + "Z", f"{stamp(now)} {number}".encode()))
    return lines


@given(STEPS, CUTS)
def test_every_line_is_shown_once_and_in_order(steps: list[int], cuts: list[int]) -> None:
    log, shown, position = make_log(steps), [], LogPosition()
    for cut in [*cuts, len(log)]:
        position.begin()
        sent = [line for second, line in log if second >= position.since]
        shown += [text for line in sent[:cut] if (text := position.take(line)) is not None]
    position.begin()
    sent = [line for second, line in log if second >= position.since]
    shown += [text for line in sent if (text := position.take(line)) is not None]
    assert shown == [str(number) for number in range(len(log))]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4))
def test_a_log_that_lacks_the_last_line_that_was_shown_is_torn(shown: int, kept_from: int, per_second: int) -> None:
    log, position, torn = make_log([10**9 // per_second] * 10), LogPosition(), []
    for _, line in log[:shown]:
        position.take(line)
        assert not position.is_torn
    position.begin()
    for second, line in log[kept_from:]:
        if second >= position.since and position.take(line) is not None:
            torn.append(position.is_torn)
    assert torn[:1] == [kept_from >= shown > 0]
    assert not any(torn[1:])


@given(st.integers(0, 10), CUTS)
def test_lines_without_a_time_are_counted(number: int, cuts: list[int]) -> None:
    log, shown, position = [str(each).encode() for each in range(number)], [], LogPosition()
    for cut in [*cuts, number]:
        position.begin()
        shown += [text for line in log[:cut] if (text := position.take(line)) is not None]
    assert shown == [str(each) for each in range(number)]


def test_a_time_has_nine_digits_or_fewer() -> None:
    position = LogPosition()
    assert position.take(b"2026-11-25T12:00:00.5Z a") == "a"
    position.begin()
    assert position.since == "2026-11-25T12:00:00Z"
    assert position.take(b"2026-11-25T12:00:00.5Z a") is None
    assert position.take(b"2026-11-25T12:00:00.50000001Z b\r") == "b"
    assert position.take(b"2026-11-25T12:00:01Z ") == ""


@pytest.mark.parametrize(
    ("text", "rank"), [("(rank 3) epoch 1", 3), ("railhead 1.0s up", None), ("x (rank 3) y", None)]
)
def test_the_rank_is_the_beginning_of_a_line(text: str, rank: int | None) -> None:
    assert read_rank(text) == rank
