"""Shared children are remembered for moments only, and per namespace."""

from __future__ import annotations

from datetime import timedelta

from railhead.controller.recent import VALID, RecentChildren
from tests.unit.builders import NOW


def test_a_child_is_recent_for_two_seconds_in_its_namespace() -> None:
    now = NOW
    recent = RecentChildren(lambda: now)
    assert not recent.has("a", "driver")
    recent.note("a", "driver")
    assert recent.has("a", "driver") and not recent.has("b", "driver")
    now = NOW + VALID
    assert not recent.has("a", "driver")


def test_a_clock_that_is_set_back_makes_nothing_recent() -> None:
    now = NOW
    recent = RecentChildren(lambda: now)
    recent.note("a", "driver")
    now = NOW - timedelta(hours=1)
    assert not recent.has("a", "driver")
