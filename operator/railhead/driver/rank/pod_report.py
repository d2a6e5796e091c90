"""Tells how the processes of this pod ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.driver.container.gpu_count import begin_count_of_gpus
from railhead.driver.rank import failure_words, flight_dump
from railhead.driver.rank.flight_recorder import build_prefix

RECORDS_PATIENCE_SECONDS = 10.0  # of these, for the flight records of a node
# The stacks of torch, Ray and Python follow the words.
TAIL_BYTES = 256 * 1024


def read_pod(pids: Mapping[int, int]) -> dict[int, PodReport]:
    """Tells by rank, on the node, how processes ended that are gone or that CUDA has failed; `pids`: by rank too."""
    gpus = int(os.environ.get(environment.GPUS) or 0)
    answering = begin_count_of_gpus()() if gpus else None
    lost = 0 if answering is None else max(gpus - answering, 0)
    records = read_records(pids.values())
    return {rank: PodReport(read_last_words(pid), lost, gpus, records.get(pid)) for rank, pid in pids.items()}


def read_last_words(pid: int) -> str:
    """Returns what the runtimes of a process have said of its end, on its standard error."""
    for path in Path(os.environ[environment.TEMP]).glob(f"session_2*/logs/worker-*-{pid}.err"):
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - TAIL_BYTES, 0))
            return failure_words.find_last_words(file.read().decode(errors="replace"))
    return ""


def read_records(pids: Iterable[int]) -> dict[int, bytes]:
    """Returns what `flight_dump` makes of their records, of those that have one."""
    found = {}
    deadline = time.monotonic() + RECORDS_PATIENCE_SECONDS
    for pid in pids:
        prefix = Path(build_prefix(pid))
        for file in prefix.parent.glob(f"{prefix.name}*"):
            with contextlib.suppress(OSError):
                data = flight_dump.read_file(file, timeout=deadline - time.monotonic())
                file.unlink()
                if data:
                    found[pid] = data
    return found


@dataclass(frozen=True)
class PodReport:
    """What the pod of a rank's process tells after its end.

    Attributes:
        words: the last ones of its standard error.
        lost_gpus: how many of the pod's `gpus` no longer answer.
        record: its flight recorder's, as JSON that zlib has compressed.
    """

    words: str = ""
    lost_gpus: int = 0
    gpus: int = 0
    record: Optional[bytes] = None
