"""Compares the ranks' records of torch's collectives: who keeps the others waiting, and in what. Pure.

torch numbers the collectives of each process group. A collective that has ended on all ranks tells nothing, so only
those from the first unfinished one on are compared. Sends and receives have numbers that do not match between ranks:
a rank in one of them counts as waiting, and no more.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from operator import itemgetter
from typing import Any, Optional

from railhead.contract.text import write_ranks
from railhead.driver.rank.flight_dump import OUTPUT_BYTES

_DEFAULT = "default_pg"  # torch's description of the group of all ranks
_TENSORS = 3
_FINISHED = 100  # by how many calls of a group a rank may be ahead of another
# Operations whose tensors are as large on all ranks.
_EQUAL = re.compile(r"_?(all_reduce|broadcast|reduce|all_gather_base|reduce_scatter_base)(_coalesced|_oop|_barrier)?$")


@dataclass(frozen=True)
class CollectiveCall:
    """One collective in the record of a rank.

    Attributes:
        group: name, and description for people.
        number: torch's, within the group.
        tensors: elements and type of each input, for comparison; empty if they may differ between ranks.
    """

    group: tuple[str, str]
    number: int
    name: str
    is_finished: bool
    is_p2p: bool = False
    tensors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """Of one rank. `members`: by a group's name its ranks, as far as the record has them; entries in their order."""

    entries: tuple[CollectiveCall, ...]
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class CollectiveMismatch:
    """`ranks`: those that differ from all others; `is_clear`: that they are to blame, rather than the others."""

    message: str
    ranks: tuple[int, ...] = ()
    is_clear: bool = False


class _Finding(IntEnum):
    """What is found of a process group; causes come before what they lead to in other groups."""

    DIFFERS = 0
    NEVER_ENTERED = 1
    SILENT = 2
    ALL_ENTERED = 3
    CROSSED = 4


@dataclass
class _Group:
    """One process group: what each of its ranks has entered."""

    name: str
    members: frozenset[int]
    calls: dict[int, dict[int, list[CollectiveCall]]] = field(
        default_factory=partial(defaultdict, partial(defaultdict, list))
    )

    def find_unfinished(self, rank: int) -> Optional[int]:
        calls = self.calls.get(rank, {})
        return min((number for number, each in calls.items() if not all(e.is_finished for e in each)), default=None)


def parse_record(data: bytes) -> Optional[Record]:
    """Returns what `flight_dump` has made; None if it is not that."""
    try:
        values = json.loads(zlib.decompressobj().decompress(data, OUTPUT_BYTES))
        groups = values["pg_config"].items()
        members = {name: tuple(map(int, re.findall(r"\d+", config["ranks"]))) for name, config in groups}
        return Record(_select(reversed(values["entries"])), members)
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return None


def _select(newest_first: Iterable[Mapping[str, Any]]) -> tuple[CollectiveCall, ...]:
    """Returns in their order what may be compared, since the records of all ranks are in memory at once."""
    finished: Counter[tuple[str, str]] = Counter()
    kept = []
    for values in newest_first:
        name, description = values["process_group"]
        group = (str(name), str(description))
        library, _, operation = values["profiling_name"].rpartition(":")
        # Only with NCCL torch learns that a collective has ended from the GPU; with others it drops what has ended.
        is_finished = values["state"] == "completed" or (bool(values["retired"]) and library != "nccl")
        finished[group] += is_finished
        if not is_finished or finished[group] <= _FINISHED:
            kept.append(_parse_entry(values, group, operation, is_finished=is_finished))
    return tuple(kept[::-1])


def _parse_entry(values: Mapping[str, Any], group: tuple[str, str], name: str, *, is_finished: bool) -> CollectiveCall:
    tensors = zip(values["input_sizes"], values["input_dtypes"])
    return CollectiveCall(
        group,
        int(values["collective_seq_id"]),
        name,
        is_finished,
        bool(values["is_p2p"]),
        tuple(f"{math.prod(sizes)} {kind}" for sizes, kind in tensors) if _EQUAL.match(name) else (),
    )


def compare_records(records: Mapping[int, Record], *, size: int) -> Optional[CollectiveMismatch]:
    """Returns the first call in which the ranks differ; None if no rank waits in a collective.

    `records`: by rank, of those that have one; `size`: of the whole worker group.
    """
    waiting = {rank for rank, record in records.items() if not all(each.is_finished for each in record.entries)}
    found = [_examine(group, records, waiting) for group in _build_groups(records, size)]
    return min(filter(None, found), key=itemgetter(0), default=(0, None))[1]


def _build_groups(records: Mapping[int, Record], size: int) -> list[_Group]:
    """Groups of other ranks may have the same name."""
    groups: dict[tuple[str, tuple[int, ...]], _Group] = {}
    for rank, record in sorted(records.items()):
        for entry in record.entries:
            name, description = entry.group
            members = record.members.get(name) or (tuple(range(size)) if description == _DEFAULT else ())
            group = groups.get((name, members))
            if group is None:
                label = name if description in ("", "undefined") else description
                group = groups[name, members] = _Group(label, frozenset(members))
            if not entry.is_p2p:
                group.calls[rank][entry.number].append(entry)
    return list(groups.values())


def _examine(
    group: _Group, records: Mapping[int, Record], waiting: Collection[int]
) -> Optional[tuple[_Finding, CollectiveMismatch]]:
    unfinished = {
        rank: number for rank in group.calls for number in [group.find_unfinished(rank)] if number is not None
    }
    if not unfinished:
        return None
    number = min(unfinished.values())
    differing = _find_difference(group, number)
    if differing:
        return _Finding.DIFFERS, differing
    members = group.members or frozenset(group.calls)
    entered = sorted(rank for rank, each in unfinished.items() if each == number)
    call = f"{_write_name(group.calls[entered[0]][number][0].name)} #{number} of {group.name}"
    known = sorted(members.intersection(records))
    missing = [rank for rank in known if max(group.calls.get(rank, {-1: []})) < number]
    idle = [rank for rank in missing if rank not in waiting]
    silent = sorted(members.difference(records))
    if idle:
        text = f"{write_ranks(idle)} never entered {call}, in which {write_ranks(entered)} {_wait(entered)}"
        return _Finding.NEVER_ENTERED, CollectiveMismatch(text, tuple(idle), is_clear=True)
    if missing:
        text = (
            f"{write_ranks(missing)} {_wait(missing)} in another operation and never entered {call}, in which "
            f"{write_ranks(entered)} {_wait(entered)}; the ranks use these process groups in different orders"
        )
        return _Finding.CROSSED, CollectiveMismatch(text, tuple(missing))
    if silent:
        text = f"{write_ranks(entered)} {_wait(entered)} in {call}, and {write_ranks(silent)} left no record"
        return _Finding.SILENT, CollectiveMismatch(text, tuple(silent), is_clear=len(silent) == 1)
    return _Finding.ALL_ENTERED, CollectiveMismatch(
        f"all ranks entered {call}, and it did not end: check the network and the GPUs"
    )


def _find_difference(group: _Group, first: int) -> Optional[CollectiveMismatch]:
    """Finds, from this number on, the first call that is another operation on some ranks, or has other tensors
    there."""
    numbers = sorted({number for calls in group.calls.values() for number in calls if number >= first})
    for number in numbers:
        entries = {rank: calls[number] for rank, calls in group.calls.items() if number in calls}
        where = f"#{number} of {group.name}"
        names = {rank: " and ".join(_write_name(each.name) for each in call[:3]) for rank, call in entries.items()}
        operations = {rank: (len(call), names[rank]) for rank, call in entries.items()}
        finding = _name_minority(operations, {rank: f"{name} {where}" for rank, name in names.items()}, names)
        if finding is None:
            tensors = {rank: tuple(text for each in call for text in each.tensors) for rank, call in entries.items()}
            texts = {rank: _write_tensors(each) for rank, each in tensors.items()}
            here = {rank: f"{names[rank]} {where} with {text}" for rank, text in texts.items()}
            finding = _name_minority(tensors, here, texts)
        if finding:
            return finding
    return None


def _name_minority(
    values: Mapping[int, object], texts: Mapping[int, str], short: Mapping[int, str]
) -> Optional[CollectiveMismatch]:
    """Names the ranks that did something else than most. `texts`: what each rank did; `short`: as little of it as
    tells it from the other."""
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return None
    usual = counts[0][0]
    odd = sorted(rank for rank, value in values.items() if value != usual)
    other = next(rank for rank, value in values.items() if value == usual)
    same = [rank for rank in odd if values[rank] == values[odd[0]]]
    others = "the others" if len(odd) == len(same) else "most others"
    text = f"{write_ranks(same)} entered {texts[same[0]]} while {others} entered {short[other]}"
    return CollectiveMismatch(text, tuple(odd), is_clear=len(odd) * 2 < len(values))


def _write_name(name: str) -> str:
    """Names a collective as torch's watchdog does: ALLREDUCE, _ALLGATHER_BASE."""
    return name[:64].upper().replace("ALL_TO_ALL", "ALLTOALL").replace("ALL_", "ALL")


def _write_tensors(tensors: tuple[str, ...]) -> str:
    more = f" and {len(tensors) - _TENSORS} more" if len(tensors) > _TENSORS else ""
    return (", ".join(tensors[:_TENSORS]) or "no elements") + more


def _wait(ranks: Collection[int]) -> str:
    if len(ranks) == 1:
        return "waits"
    return "wait"
