"""Entries end after their time, and the oldest when there are too many; nothing is kept of them."""

from __future__ import annotations

from railhead.controller.expiring import Expiring


def test_an_entry_ends_after_its_seconds() -> None:
    entries = Expiring[str, int](2.0)
    assert entries.get("a", 0.0) is None
    entries.put("a", 1, 10.0)
    assert (entries.get("a", 11.9), entries.get("b", 11.9)) == (1, None)
    assert entries.get("a", 12.0) is None


def test_an_entry_that_is_put_again_is_the_newest() -> None:
    entries = Expiring[str, int](10.0, most=2)
    for number, name in enumerate("abac"):
        entries.put(name, number, float(number))
    assert [entries.get(name, 4.0) for name in "abc"] == [2, None, 3]
    assert entries.count(11.9) == 2 and entries.count(12.0) == 1


def test_an_entry_can_be_ended_before() -> None:
    entries = Expiring[str, int](10.0)
    entries.put("a", 1, 0.0)
    entries.pop("a")
    entries.pop("a")
    assert entries.get("a", 0.0) is None
    assert entries.count(0.0) == 0
