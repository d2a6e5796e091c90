"""Versions of an image's packages, as their metadata has them."""

from __future__ import annotations

import pytest

import ray
from railhead.driver.container.packages import Version, find_version, parse_version, write_version


def test_the_version_is_that_of_the_image() -> None:
    assert find_version() == ray.__version__
    assert find_version("no-such-package") == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.60.1", (2, 60)), ("3.0.0.dev0", (3, 0)), ("2", None), ("", None), ("nightly.1", None)],
)
def test_a_version_without_two_numbers_is_unknown(text: str, version: Version | None) -> None:
    assert parse_version(text) == version


def test_a_version_is_written_as_ray_writes_it() -> None:
    assert write_version((2, 60)) == "2.60"
