"""What options of several commands take."""

from __future__ import annotations

import argparse

import pytest

from railhead.cli.cluster_command import count


def test_a_count_is_a_number_from_zero() -> None:
    assert count("0") == 0
    for text in ("-1", "x", "", "9" * 10):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number from 0"):
            count(text)
