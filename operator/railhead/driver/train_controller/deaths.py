"""Why a rank's process died: what it wrote last, and whether a GPU of its pod is gone.

Ray reports only that it is gone. A short task on each node reads the ends of its ranks' standard errors, where
faulthandler names the signal and torch the collective, how many GPUs answer, and the records of torch's flight
recorder. Out of memory, the kernel ends the entire pod, and the kubelet says why.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from railhead.contract import environment as e
from railhead.driver.node import flight_dump
from railhead.driver.node.hardware import begin_count
from railhead.driver.rank.flight_recorder import find_prefix
from railhead.driver.train_controller import evidence
from railhead.driver.train_controller.evidence import Death
from railhead.driver.train_controller.failure import RankError
from railhead.driver.train_controller.group import Group, Process

ANSWER_TIMEOUT = 15.0  # seconds, for all nodes
RECORDS_PATIENCE = 10.0  # of these, for the flight records of a node
TAIL_BYTES = 256 * 1024  # the stacks of torch, Ray and Python follow the words


@dataclass(frozen=True)
class Explained:
    """`errors`: those of ranks that died with their causes as far as they can be found; `records`: their flight
    recorders', by rank.
    """

    errors: tuple[RankError, ...]
    records: Mapping[int, bytes] = field(default_factory=dict)


def explain_deaths(errors: tuple[RankError, ...], processes: Mapping[int, Process], group: Group) -> Explained:
    """Never raises."""
    asked = {each.rank: processes[each.rank] for each in errors if each.rank in processes and evidence.is_open(each)}
    deaths = find_deaths(asked) if asked else {}
    return Explained(
        evidence.explain_errors(errors, deaths, has_trained=group.has_trained),
        {rank: death.record for rank, death in deaths.items() if death.record},
    )


def find_deaths(processes: Mapping[int, Process]) -> dict[int, Death]:
    """By rank, of those whose node answers in time."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    import ray

    pids: dict[str, list[int]] = defaultdict(list)
    for each in processes.values():
        pids[each.node].append(each.pid)
    found: dict[tuple[str, int], Death] = {}
    with contextlib.suppress(Exception):  # a node that has just left
        task = ray.remote(num_cpus=0, max_retries=0)(read_deaths)
        asked = {
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(wanted): node
            for node, wanted in pids.items()
        }
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_TIMEOUT)
        for reference in ready:
            with contextlib.suppress(Exception):
                found.update({(asked[reference], pid): death for pid, death in ray.get(reference).items()})
    return {rank: found[each.node, each.pid] for rank, each in processes.items() if (each.node, each.pid) in found}


def read_deaths(pids: Collection[int]) -> dict[int, Death]:
    """On the node of processes that are gone, or that CUDA has failed."""
    gpus = int(os.environ.get(e.GPUS) or 0)
    answering = begin_count()() if gpus else None
    lost = 0 if answering is None else max(gpus - answering, 0)
    records = read_records(pids)
    return {pid: Death(read_last_words(pid), lost, gpus, records.get(pid)) for pid in pids}


def read_last_words(pid: int) -> str:
    logs = Path(os.environ[e.TEMP]).glob(f"session_2*/logs/worker-*-{pid}.err")
    return next((evidence.find_last_words(read_tail(log)) for log in logs), "")


def read_records(pids: Iterable[int]) -> dict[int, bytes]:
    """What `flight_dump` makes of their records, of those that have one."""
    found, deadline = {}, time.monotonic() + RECORDS_PATIENCE
    for pid in pids:
        prefix = Path(find_prefix(pid))
        for file in prefix.parent.glob(f"{prefix.name}*"):
            with contextlib.suppress(OSError):
                data = flight_dump.read_file(file, timeout=deadline - time.monotonic())
                file.unlink()
                if data:
                    found[pid] = data
    return found


def read_tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - TAIL_BYTES, 0))
        return file.read().decode(errors="replace")
