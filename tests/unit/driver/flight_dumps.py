"""Dumps of torch's flight recorder for ranks that do not exist, as torch pickles them.

Source of the fields: torch/csrc/distributed/c10d/FlightRecorder.cpp of torch 2.6 (format 2.4), and FlightRecorder.hpp
of torch 2.4 (2.1) to 2.15 (2.10) for the formats.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from railhead.driver.rank.flight_dump import write_json

FRAMES = [
    {"name": "all_reduce", "filename": "/site-packages/torch/distributed/distributed_c10d.py", "line": 2501},
    {"name": "train_step", "filename": "/opt/app/train.py", "line": 88},
]


@dataclass(frozen=True)
class Call:
    """One collective of a rank; `state` as torch writes it."""

    name: str
    number: int
    state: str = "completed"
    group: tuple[str, str] = ("0", "default_pg")
    sizes: tuple[tuple[int, ...], ...] = ((1024, 8),)
    dtype: str = "Float"
    is_p2p: bool = False
    retired: bool | None = None
    library: str = "nccl"


def run(count: int, *, first: int = 1, state: str = "completed", name: str = "all_reduce") -> list[Call]:
    """Collectives with these numbers."""
    return [Call(name, number, state) for number in range(first, first + count)]


def make_dump(
    calls: Sequence[Call], *, groups: dict[str, tuple[str, Sequence[int]]] | None = None, version: str = "2.4"
) -> dict[str, Any]:
    """`groups`: by name the description and the ranks."""
    return {
        "version": version,
        "nccl_comm_state": {"comm": {"env": "NCCL_SOCKET_IFNAME=eth0"}},
        "pg_config": {
            name: {"name": name, "desc": text, "ranks": str(list(ranks))}
            for name, (text, ranks) in (groups or {}).items()
        },
        "pg_status": {"0": {"last_enqueued_collective": len(calls)}},
        "entries": [_make_entry(number, call, version) for number, call in enumerate(calls)],
    }


def _make_entry(number: int, call: Call, version: str) -> dict[str, Any]:
    sizes = [list(each) for each in call.sizes]
    types = [call.dtype] * len(sizes)
    return {
        "frames": FRAMES,
        "record_id": number,
        "pg_id": int(call.group[0]) if call.group[0].isdigit() else 7,
        "process_group": call.group,
        "collective_seq_id": 0 if call.is_p2p else call.number,
        "p2p_seq_id": call.number if call.is_p2p else 0,
        "op_id": number,
        "profiling_name": f"{call.library}:{call.name}",
        "time_created_ns": 1_795_528_648_793_152_903 + number,
        "input_sizes": sizes,
        "output_sizes": sizes,
        **({} if version == "2.1" else {"input_dtypes": types, "output_dtypes": types}),
        "state": call.state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": call.state == "completed" if call.retired is None else call.retired,
        "timeout_ms": 600_000,
        "is_p2p": call.is_p2p,
    }


def pickle_dump(dump: dict[str, Any]) -> bytes:
    """With the protocol of torch's own pickler."""
    return pickle.dumps(dump, protocol=2)


def convert(dump: dict[str, Any]) -> bytes:
    """As `flight_dump.read_dump`, in this process."""
    return zlib.compress(write_json(dump).encode())
