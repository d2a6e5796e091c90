"""Tables that fit the terminal, and text that does not act on it."""

from __future__ import annotations

import io
import sys

import pytest

from railhead.cli.output import Column, Console, layout, prepare_output

COLUMNS = (Column("NAME", can_be_cut=True), Column("SIZE"), Column("NOTE", drop=1))
ROWS = [("a-long-name", "12", "of no interest")]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (None, ["NAME         SIZE  NOTE", "a-long-name  12    of no interest"]),
        (33, ["NAME         SIZE  NOTE", "a-long-name  12    of no interest"]),
        (32, ["NAME         SIZE", "a-long-name  12"]),
        (14, ["NAME      SIZE", "a-long-…  12"]),
        (5, ["NAME    SIZE", "a-lon…  12"]),
    ],
)
def test_a_table_leaves_out_columns_then_cuts_one(width: int | None, lines: list[str]) -> None:
    assert layout(COLUMNS, ROWS, width) == lines


def test_a_cell_stays_on_its_line() -> None:
    assert layout((Column("A"), Column("B")), [("x\ny\tz", "\x1b[31m\u202e")], None, has_header=False) == [
        "x y z  \ufffd[31m\ufffd"
    ]


@pytest.mark.parametrize(
    ("is_terminal", "no_colour", "shown"),
    [
        (False, "", "\x1b[31mred\x1b[2J\x07\n"),
        (True, "", "\x1b[31mred\ufffd[2J\ufffd\x1b[0m\n"),
        (True, "1", "red\ufffd[2J\ufffd\n"),
    ],
)
def test_a_log_line_keeps_only_colours_on_a_terminal(
    is_terminal: bool, no_colour: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    Console(stream, width=80, is_terminal=is_terminal).log_line("\x1b[31mred\x1b[2J\x07")
    assert stream.getvalue() == shown


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b]0;title\x1b\\",
        "\x9d8;;http://evil\x9c",
        "\x1bP+q\x1b\\",
        "\x1b_x\x1b\\",
        "\x1b]52;c;Z",
    ],
)
def test_a_log_line_commands_no_terminal_not_even_behind_a_pipe(command: str, is_terminal: bool) -> None:
    stream = io.StringIO()
    Console(stream, width=80, is_terminal=is_terminal).log_line(f"loss 1{command}")
    assert stream.getvalue() == "loss 1\n"


def test_a_paragraph_is_wrapped_on_a_terminal_only() -> None:
    for width, shown in ((None, "  one two three\n  four\n"), (10, "  one two\n  three\n  four\n")):
        stream = io.StringIO()
        Console(stream, width=width).paragraph("one two three\nfour", "  ")
        assert stream.getvalue() == shown


def test_windows_gets_the_bytes_of_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="cp1252", newline="\r\n"))
    prepare_output()
    print("\u2588", flush=True)
    assert raw.getvalue() == "\u2588\n".encode()
