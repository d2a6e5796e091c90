"""What is quoted of standard error when the user's code exits by itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from railhead.driver.messages import exit_words
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.exit_words import CHARS_LIMIT, keep_line, note_exit_words, pick_last_lines

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJyYWlsaGVhZCJ9.c2lnbmF0dXJl"


def parse() -> None:
    argparse.ArgumentParser(prog="m.py").parse_args(["--x"])


def parse_with_usage() -> None:
    sys.stderr.write("usage: m.py [-h]\n\n\rloading 10%\rm.py: error: unrecognized arguments: --x")
    sys.exit(2)


def describe_exit(act: Callable[[], None]) -> str:
    with pytest.raises(SystemExit) as caught, note_exit_words():
        act()
    return describe_exception(caught.value)


def describe_exit_of_rank(act: Callable[[], None], folder: Path) -> str:
    """A file is standard error, as in Ray's workers."""
    path = folder / "worker-1.err"
    path.write_text("a line from before\n")
    of_ray = mock.patch.object(exit_words, "STANDARD_ERROR", str(path))
    with path.open("a") as file, of_ray, mock.patch.object(sys, "stderr", file):
        return describe_exit(act)


@pytest.mark.parametrize("act", [parse, parse_with_usage])
def test_a_rank_that_exits_quotes_what_it_wrote_to_its_file(tmp_path: Path, act: Callable[[], None]) -> None:
    text = describe_exit_of_rank(act, tmp_path)
    assert text.startswith(
        'SystemExit: 2, after "usage: m.py [-h]; m.py: error: unrecognized arguments: --x" on standard error ('
    )
    assert text.endswith(f", in {act.__name__})")


def test_what_a_rank_quotes_has_no_credentials_and_no_marks(tmp_path: Path) -> None:
    def act() -> None:
        print(f":railhead-mark:begin:0:ab-1:err:\n\x1b[31mtoken {TOKEN}\x1b[0m", file=sys.stderr)
        sys.exit(1)

    assert 'after "token (hidden)" on' in describe_exit_of_rank(act, tmp_path)


def test_the_head_quotes_the_lines_that_passed_its_stream_meanwhile() -> None:
    def act() -> None:
        keep_line("m.py: error: unrecognized arguments: --x")
        sys.exit(2)

    keep_line("a line from before")
    expected = 'SystemExit: 2, after "m.py: error: unrecognized arguments: --x" on standard error ('
    assert describe_exit(act).startswith(expected)


@pytest.mark.parametrize("code", [0, None, "the data is not there"])
def test_an_exit_that_says_why_quotes_nothing(tmp_path: Path, code: object) -> None:
    def act() -> None:
        print("a warning", file=sys.stderr)
        sys.exit(code)  # type: ignore[arg-type]

    assert "standard error" not in describe_exit_of_rank(act, tmp_path)


def test_quotes_nothing_if_nothing_was_written_or_the_streams_are_closed(tmp_path: Path) -> None:
    assert describe_exit_of_rank(lambda: sys.exit(3), tmp_path).startswith("SystemExit: 3 (")

    def close() -> None:
        sys.stderr.close()
        sys.exit(3)

    assert describe_exit_of_rank(close, tmp_path).startswith("SystemExit: 3 (")


def test_quotes_nothing_of_a_file_that_the_code_has_put_there(tmp_path: Path) -> None:
    def act() -> None:
        Path(exit_words.STANDARD_ERROR).rename(tmp_path / "old")
        Path(exit_words.STANDARD_ERROR).write_text("what is in a file of the user\n" * 9)
        sys.exit(3)

    assert describe_exit_of_rank(act, tmp_path).startswith("SystemExit: 3 (")


def test_a_credential_is_hidden_where_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cr3t-" * 20
    monkeypatch.setenv("API_TOKEN", secret)
    for before in range(100, CHARS_LIMIT, 20):
        text = pick_last_lines("x" * before + f" {secret} " + "y" * (CHARS_LIMIT - 50))
        assert "s3cr3t" not in text


def test_the_last_lines_are_few_and_short() -> None:
    lines = [f"line {number}" for number in range(30)]
    assert pick_last_lines("\n".join(lines)) == "; ".join(lines[-6:])
    text = pick_last_lines("x" * 100_000 + "\nthe end")
    assert len(text) <= CHARS_LIMIT and text.endswith("; the end")
    assert pick_last_lines("\n \n") == ""
