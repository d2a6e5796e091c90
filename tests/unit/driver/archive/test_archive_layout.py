"""The names of the archive's files, what is kept of them, and when they are uploaded."""

from __future__ import annotations

import pytest

from railhead.contract.run_folder import name_attempt
from railhead.driver.archive.archive_layout import (
    FIRST_SEGMENTS,
    HEAD,
    SEGMENTS,
    WORKER,
    find_dropped,
    list_surplus,
    name_segment,
    name_writer,
    plan_wait,
)
from railhead.driver.storage.path_folder import Stored

UID = "0a1b2c3d-1111-2222-3333-444444444444"
OTHER = "ffffffff-1111-2222-3333-444444444444"


def test_names_have_nothing_from_the_user() -> None:
    """A job may be named as a worker pod ends, or as a path."""
    assert name_attempt(UID, 3) == "0a1b2c3d-3"
    assert name_writer(WORKER, pod="a-w1-2-0a1b2c-3-w14-2", uid="") == "r2-w14"
    assert name_writer(WORKER, pod="../../w1-2/x", uid="") == "worker"
    assert name_writer(HEAD, pod="w1-2", uid=OTHER) == "head-ffffffff"
    assert name_writer(HEAD, pod="", uid="../..") == "head"
    assert name_segment("511", "r0-w0", 12) == "511/r0-w0-000012.log.gz"


def test_the_files_of_a_rank_that_moved_are_sorted_by_time() -> None:
    writers = [name_writer(WORKER, pod=f"j-0a1b2c-1-w{slot}-{round_}", uid="") for slot, round_ in [(9, 0), (3, 1)]]
    names = [name_segment("0", writer, number) for writer in writers for number in (2, 100)]
    assert sorted(names) == names


def test_the_first_and_the_newest_segments_stay() -> None:
    kept: set[int] = set()
    for number in range(100):
        kept.add(number)
        kept.discard(-1 if (dropped := find_dropped(number)) is None else dropped)
        assert len(kept) <= SEGMENTS
    assert sorted(kept) == [*range(FIRST_SEGMENTS), *range(100 - SEGMENTS + FIRST_SEGMENTS, 100)]


@pytest.mark.parametrize(
    ("has_rank_0", "failures", "least", "most"),
    [(False, 0, 45, 75), (True, 0, 7.5, 12.5), (True, 1, 45, 75), (False, 2, 90, 150), (False, 900, 450, 750)],
)
def test_pods_upload_at_different_times_and_rarely_while_the_storage_refuses(
    has_rank_0: bool, failures: int, least: float, most: float
) -> None:
    waits = [plan_wait(has_rank_0=has_rank_0, failures=failures, chance=chance) for chance in (0.0, 0.5, 1.0)]
    assert waits == [least, (least + most) / 2, most]


def test_512_ranks_write_fewer_than_10_files_per_second() -> None:
    """One file for each rank that prints, in each interval."""
    waits = [plan_wait(has_rank_0=rank == 0, failures=0, chance=rank / 511) for rank in range(512)]
    assert sum(1 / wait for wait in waits) < 10


def test_the_oldest_attempts_go_first() -> None:
    files = [
        Stored("0a1b2c3d-10/0/a", 10, time=5.0),
        Stored("0a1b2c3d-2/0/b", 10, time=7.0),  # a clock that is wrong
        Stored("0a1b2c3d-10/0/c", 10, time=6.0),
        Stored("ffffffff-30/0/d", 10, time=9.0),
        Stored("what else", 10, time=0.0),
    ]
    order = ["what else", "ffffffff-30/0/d", "0a1b2c3d-2/0/b", "0a1b2c3d-10/0/a", "0a1b2c3d-10/0/c"]
    for kept in range(6):
        assert list_surplus(files, limit=10 * kept, uid=UID, attempt=10) == order[: 5 - kept]
    assert list_surplus(files, limit=49, uid=UID, attempt=10) == order[:1]


def test_an_older_head_removes_nothing_of_a_later_attempt() -> None:
    files = [Stored("0a1b2c3d-2/0/b", 10, time=1.0), Stored("0a1b2c3d-1/0/a", 10, time=1.0)]
    assert list_surplus(files, limit=0, uid=UID, attempt=1) == ["0a1b2c3d-1/0/a"]
