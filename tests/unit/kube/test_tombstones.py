"""Deleted objects stay deleted for late responses, but not for newer versions."""

from __future__ import annotations

from railhead.kube.tombstones import Tombstones


def test_versions_up_to_the_deletion_are_covered_and_newer_ones_are_not() -> None:
    tombstones = Tombstones()
    tombstones.add("a", 7)
    assert [tombstones.is_deleted_since("a", version) for version in (0, 6, 7, 8)] == [True, True, True, False]


def test_an_object_that_was_never_deleted_is_not_covered() -> None:
    assert not Tombstones().is_deleted_since("a", 0)


def test_the_newest_deletion_counts_in_any_order() -> None:
    tombstones = Tombstones()
    tombstones.add("a", 9)
    tombstones.add("a", 4)
    assert tombstones.is_deleted_since("a", 9)


def test_the_oldest_are_forgotten_and_a_repeated_one_counts_as_new() -> None:
    tombstones = Tombstones(keep=2)
    for uid in ("a", "b", "a", "c"):
        tombstones.add(uid, 1)
    assert [tombstones.is_deleted_since(uid, 1) for uid in ("a", "b", "c")] == [True, False, True]
