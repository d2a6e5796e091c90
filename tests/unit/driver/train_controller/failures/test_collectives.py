"""Who keeps the others waiting, from the records of 2 to 512 ranks that do not exist."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence

import pytest

from railhead.contract.text import write_ranks
from railhead.driver.train_controller.failures.collectives import CollectiveMismatch, compare_records, parse_record
from tests.unit.driver.flight_dumps import Call, convert, make_dump, run

Calls = Mapping[int, Sequence[Call]]
WAITING = [*run(3, first=1201), Call("all_reduce", 1204, "scheduled")]
LEFT_OUT = run(3, first=1201)


def compare(
    calls: Calls, *, size: int, groups: dict[str, tuple[str, Sequence[int]]] | None = None
) -> CollectiveMismatch | None:
    dumps = {rank: make_dump(each, groups=groups) for rank, each in calls.items()}
    found = {rank: parse_record(convert(dump)) for rank, dump in dumps.items()}
    return compare_records({rank: record for rank, record in found.items() if record}, size=size)


@pytest.mark.parametrize(("size", "count"), [(2, 1), (8, 1), (8, 5), (64, 2), (512, 1), (512, 5)])
def test_names_the_ranks_that_never_entered(size: int, count: int) -> None:
    missing = [(37 * number + 1) % size for number in range(count)]
    finding = compare({rank: LEFT_OUT if rank in missing else WAITING for rank in range(size)}, size=size)
    assert finding is not None and finding.is_clear and finding.ranks == tuple(sorted(missing))
    assert finding.message.startswith(f"{write_ranks(sorted(missing))} never entered ALLREDUCE #1204 of default_pg")


def test_a_rank_whose_record_is_empty_of_this_group_never_entered() -> None:
    other = Call("all_gather", 9, group=("3", "data"))
    finding = compare({0: WAITING, 1: [other], 2: WAITING}, size=3, groups={"0": ("default_pg", [0, 1, 2])})
    assert finding is not None and finding.ranks == (1,)


@pytest.mark.parametrize("size", [2, 8, 512])
def test_two_orders(size: int) -> None:
    other = [*LEFT_OUT, Call("broadcast", 1204, "scheduled"), Call("all_reduce", 1205, "scheduled")]
    usual = [*WAITING, Call("broadcast", 1205, "scheduled")]
    finding = compare({rank: other if rank == size - 1 else usual for rank in range(size)}, size=size)
    assert finding is not None and finding.is_clear == (size > 2)
    if size > 2:
        assert finding.ranks == (size - 1,)
        text = f"rank {size - 1} entered BROADCAST #1204 of default_pg while the others entered ALLREDUCE"
        assert finding.message == text


def test_a_broadcast_that_has_ended_on_its_root_only_is_another_order() -> None:
    calls = {0: [*LEFT_OUT, Call("broadcast", 1204)], 1: WAITING, 2: WAITING}
    finding = compare(calls, size=3)
    assert finding is not None and finding.ranks == (0,)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            Call("all_reduce", 1204, "scheduled", sizes=((512, 8),)),
            "with 4096 Float while the others entered 8192 Float",
        ),
        (Call("all_reduce", 1204, "scheduled", dtype="Half"), "with 8192 Half while the others entered 8192 Float"),
    ],
)
def test_other_tensors(change: Call, text: str) -> None:
    finding = compare({rank: [*LEFT_OUT, change] if rank == 5 else WAITING for rank in range(8)}, size=8)
    assert finding is not None and (finding.ranks, finding.is_clear) == ((5,), True)
    assert finding.message == f"rank 5 entered ALLREDUCE #1204 of default_pg {text}"


def test_tensors_that_may_differ_are_not_compared() -> None:
    calls = {rank: [Call("all_to_all", 4, "scheduled", sizes=((rank, 3),))] for rank in range(4)}
    finding = compare(calls, size=4)
    assert finding is not None and finding.message.startswith("all ranks entered ALLTOALL #4 of default_pg")
    assert not finding.is_clear and not finding.ranks


def test_who_waits_in_another_group_is_not_to_blame() -> None:
    """Rank 1 is missing in the group of 0 and 1; rank 0 waits there, and so do those that wait for rank 0."""
    groups: dict[str, tuple[str, Sequence[int]]] = {"7": ("tensor", [0, 1])}
    tensor = Call("_all_gather_base", 5, "scheduled", group=("7", "tensor"))
    calls = {0: [*LEFT_OUT, tensor], 1: LEFT_OUT, 2: WAITING, 3: WAITING}
    finding = compare({**calls, 1: WAITING}, size=4, groups=groups)
    assert finding is not None and not finding.is_clear and "in different orders" in finding.message
    finding = compare(calls, size=4, groups=groups)
    assert finding is not None and finding.ranks == (1,)


def test_a_rank_in_a_receive_waits_too() -> None:
    receive = Call("recv 1<-0", 3, "scheduled", is_p2p=True)
    finding = compare({0: LEFT_OUT, 1: [*LEFT_OUT, receive], 2: WAITING}, size=3)
    assert finding is not None and finding.ranks == (0,)


def test_groups_of_other_ranks_may_have_the_same_name() -> None:
    calls = {rank: [Call("all_reduce", 3, "scheduled", group=("4", "data"))] for rank in (0, 1)}
    calls[2] = [Call("all_reduce", 8, "scheduled", group=("4", "data"))]
    calls[3] = run(4)
    dumps = {
        rank: make_dump(each, groups={"4": ("data", [0, 1] if rank < 2 else [2, 3])}) for rank, each in calls.items()
    }
    records = {rank: parse_record(convert(dump)) for rank, dump in dumps.items()}
    finding = compare_records({rank: each for rank, each in records.items() if each}, size=4)
    assert finding is not None
    assert finding.message == "rank 3 never entered ALLREDUCE #8 of data, in which rank 2 waits"


@pytest.mark.parametrize(("without", "is_clear"), [((3,), True), ((3, 4), False)])
def test_ranks_without_a_record_matter_if_all_others_wait(without: tuple[int, ...], is_clear: bool) -> None:
    finding = compare({rank: WAITING for rank in range(8) if rank not in without}, size=8)
    assert finding is not None and (finding.ranks, finding.is_clear) == (without, is_clear)
    assert finding.message.endswith(f"wait in ALLREDUCE #1204 of default_pg, and {write_ranks(without)} left no record")
    calls = {rank: LEFT_OUT if rank == 0 else WAITING for rank in range(8) if rank not in without}
    finding = compare(calls, size=8)
    assert finding is not None and finding.ranks == (0,) and "record" not in finding.message


@pytest.mark.parametrize(
    "calls",
    [
        {},
        {0: run(5), 1: run(4)},
        {rank: [Call("all_reduce", 1, library="gloo", state="scheduled", retired=True)] for rank in (0, 1)},
    ],
    ids=["no records", "nothing unfinished", "gloo"],
)
def test_without_a_rank_that_waits_there_is_no_finding(calls: Calls) -> None:
    assert compare(calls, size=2) is None


def test_a_collective_that_timed_out_has_not_ended() -> None:
    """torch's watchdog retires it."""
    finding = compare({0: [Call("all_reduce", 1, "scheduled", retired=True)], 1: []}, size=2)
    assert finding is not None and "rank 1" in finding.message


MALFORMED: list[Callable[[bytes], bytes]] = [
    lambda data: data[:-9],
    lambda data: b"",
    lambda data: zlib.compress(b"[]"),
    lambda data: zlib.compress(json.dumps({"pg_config": {}, "entries": [{}]}).encode()),
    lambda data: zlib.compress(b'{"pg_config": {}, "entries": [' + b" " * 2**21 + b"]}"),
]


@pytest.mark.parametrize("change", MALFORMED)
def test_a_malformed_record_is_none(change: Callable[[bytes], bytes]) -> None:
    assert parse_record(change(convert(make_dump(WAITING)))) is None


def test_of_what_has_ended_the_newest_is_enough() -> None:
    """The records of all ranks are in the controller's memory at once."""
    record = parse_record(convert(make_dump([*run(999), Call("all_reduce", 1000, "scheduled")])))
    assert record is not None and [each.number for each in record.entries] == list(range(900, 1001))
