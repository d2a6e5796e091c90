"""Times as users write them."""

from __future__ import annotations

import argparse

import pytest

from railhead.cli.change import parse_duration


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("2h", 7200), ("1d", 86400)])
def test_a_time_has_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5h", "1w"])
def test_another_text_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="use for example 90s"):
        parse_duration(text)
