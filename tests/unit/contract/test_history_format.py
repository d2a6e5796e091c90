"""The format of segments: names, headers, and what a reader makes of torn and foreign lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.contract.history_format import METRICS, Header, SegmentName, parse_segment, write_line

UID = "1c6f0c8e-0000"
RECORDS = [{"time": "2026-01-01T00:00:00.000Z", "attempt": 1, "n": n} for n in range(4)]
DATA = b"".join([Header(METRICS, UID).to_line(), *map(write_line, RECORDS)])


def test_the_first_line_is_this_one() -> None:
    """Written out: it is a format that other programs read."""
    line = b'{"format":1,"kind":"metrics","job":"1c6f0c8e-0000","every":2,"dropped":7}\n'
    assert Header("metrics", UID, every=2, dropped=7).to_line() == line


@pytest.mark.parametrize("name", [SegmentName(1, "0a1b2c3d", 1), SegmentName(12, "0", 999)])
def test_a_name_says_whose_segment_it_is(name: SegmentName) -> None:
    assert SegmentName.parse(str(name)) == name


@pytest.mark.parametrize("text", ["", "1-0a1b2c3d.jsonl", "1-xyz-1.jsonl", "1-0a-1.jsonl.new", "../1-0a-1.jsonl"])
def test_other_files_are_no_segments(text: str) -> None:
    assert SegmentName.parse(text) is None


def test_segments_are_ordered_as_numbers() -> None:
    assert SegmentName(2, "a", 10) > SegmentName(2, "a", 9)
    assert SegmentName(10, "a", 1) > SegmentName(9, "a", 1)


def test_a_reader_skips_and_counts_what_is_no_record() -> None:
    bad = [
        b"{",
        b"7",
        b"[]",
        b"{}",
        b'{"time": 1, "attempt": 1}',
        b'{"time": "t", "attempt": true}',
        b"\xff",
        b"[" * 9999,
    ]
    segment = parse_segment(DATA + b"\n".join(bad) + b"\n")
    assert (list(segment.records), segment.skipped) == (RECORDS, len(bad))


@pytest.mark.parametrize("size", range(len(DATA)))
def test_half_a_segment_has_all_its_complete_lines(size: int) -> None:
    segment, lines = parse_segment(DATA[:size]), DATA[:size].count(b"\n")
    is_torn = DATA[:size][-1:] not in (b"", b"\n", b"}")
    complete = lines + (DATA[:size][-1:] == b"}")
    if segment.header is None:
        assert (segment.records, segment.skipped) == ((), int(size > 0))
    else:
        assert (len(segment.records), segment.skipped) == (complete - 1, int(is_torn))


@pytest.mark.parametrize(
    "first",
    [
        b'{"format":2,"kind":"metrics","job":"j","every":1,"dropped":0}',
        b'{"format":1,"kind":"metrics","every":1,"dropped":0}',
        b'{"format":1,"kind":"metrics","job":"j","every":true,"dropped":0}',
        b"{}",
        b"x",
    ],
)
def test_a_segment_of_another_format_is_skipped_as_a_whole(first: bytes) -> None:
    segment = parse_segment(first + b"\n" + DATA.partition(b"\n")[2])
    assert (segment.header, segment.records, segment.skipped) == (None, (), 1 + len(RECORDS))


@given(st.binary(max_size=300))
def test_reading_never_fails(data: bytes) -> None:
    parse_segment(data)
    segment = parse_segment(Header(METRICS, UID).to_line() + data)
    assert len(segment.records) + segment.skipped <= data.count(b"\n") + 1
