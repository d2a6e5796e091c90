"""After a failure: what the ranks' pods tell of why processes died, and of the collective in which the others hang.

Ray reports only that a process is gone. A short task on each node reads the ends of its ranks' standard errors, where
faulthandler names the signal and torch the collective, how many GPUs answer, and the records of torch's flight
recorder. Out of memory, the kernel ends the entire pod, and the kubelet says why.

After a hang the flight records of all ranks are compared and kept in the run's folder. They are JSON by then: each
rank's own pod has read its pickle (`node.flight_dump`).
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Optional

from railhead.contract import environment
from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.describe import log, never_raises
from railhead.driver.node import flight_dump
from railhead.driver.node.machine import begin_count_of_gpus
from railhead.driver.rank.flight_recorder import find_prefix, read_own_record
from railhead.driver.ray.types import Metadata
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.train_controller import evidence
from railhead.driver.train_controller.collectives import Finding, compare_records, parse_record
from railhead.driver.train_controller.evidence import PodReport
from railhead.driver.train_controller.failure import HANGS, RankError
from railhead.driver.train_controller.group import Group, call_ranks

ANSWER_TIMEOUT_SECONDS = 15.0  # for all nodes, or for all ranks that still live
RECORDS_PATIENCE_SECONDS = 10.0  # of these, for the flight records of a node
TAIL_BYTES = 256 * 1024  # the stacks of torch, Ray and Python follow the words
FOLDER = f"{OWN_FOLDER}/dumps"
STORE_PATIENCE_SECONDS = 5.0  # by which a restart may wait for the storage
KEPT_FAILURES, KEPT_RANKS = 3, 64
_WRITERS = 8
_NAME = re.compile(r"(\d+)-(\d+)")


def find_causes(
    errors: tuple[RankError, ...], processes: Mapping[int, Metadata], group: Group
) -> tuple[tuple[RankError, ...], Optional[Finding]]:
    """Returns the errors, with those of ranks that died as far as their pods know why.

    After a hang also returns what tells some ranks from the others. Never raises.
    """
    asked = {each.rank: processes[each.rank] for each in errors if each.rank in processes and evidence.is_open(each)}
    reports = ask_pods(asked) if asked else {}
    explained = evidence.explain_errors(errors, reports, has_trained=group.has_trained)
    if not any(each.kind in HANGS for each in explained):
        return explained, None
    return explained, find_difference(_find_records(reports), processes, group)


def _find_records(reports: Mapping[int, PodReport]) -> dict[int, bytes]:
    return {rank: report.record for rank, report in reports.items() if report.record}


def ask_pods(processes: Mapping[int, Metadata]) -> dict[int, PodReport]:
    """By rank, of those whose node answers in time."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    import ray

    nodes: dict[str, dict[int, int]] = defaultdict(dict)
    for rank, each in processes.items():
        nodes[each.node_id][rank] = each.pid
    found: dict[int, PodReport] = {}
    with contextlib.suppress(Exception):  # a node that has just left
        task = ray.remote(num_cpus=0, max_retries=0)(read_pod)
        asked = [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(pids)
            for node, pids in nodes.items()
        ]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_TIMEOUT_SECONDS)
        for reference in ready:
            with contextlib.suppress(Exception):
                found.update(ray.get(reference))
    return found


def read_pod(pids: Mapping[int, int]) -> dict[int, PodReport]:
    """By rank, on the node of processes that are gone, or that CUDA has failed; `pids`: by rank too."""
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
            return evidence.find_last_words(file.read().decode(errors="replace"))
    return ""


def read_records(pids: Iterable[int]) -> dict[int, bytes]:
    """What `flight_dump` makes of their records, of those that have one."""
    found, deadline = {}, time.monotonic() + RECORDS_PATIENCE_SECONDS
    for pid in pids:
        prefix = Path(find_prefix(pid))
        for file in prefix.parent.glob(f"{prefix.name}*"):
            with contextlib.suppress(OSError):
                data = flight_dump.read_file(file, timeout=deadline - time.monotonic())
                file.unlink()
                if data:
                    found[pid] = data
    return found


@never_raises("compare the ranks' collectives")
def find_difference(of_dead: Mapping[int, bytes], processes: Mapping[int, Metadata], group: Group) -> Optional[Finding]:
    """`of_dead`: records by rank; all others of the group's ranks are asked for theirs. Never raises."""
    records = {**of_dead, **ask_living(processes.keys() - of_dead.keys(), group)}
    left = {rank: each for rank, each in processes.items() if rank not in records}
    records.update(_find_records(ask_pods(left) if left else {}))
    parsed = {rank: parse_record(data) for rank, data in sorted(records.items())}
    finding = compare_records({rank: each for rank, each in parsed.items() if each}, size=len(processes))
    keep_in_thread(records, group, first=finding.ranks if finding else ())
    return finding


def ask_living(ranks: Collection[int], group: Group) -> dict[int, bytes]:
    """Returns the records of those that answer in time."""
    if group.worker_group is None:
        return {}
    answers = call_ranks(group.worker_group, ranks, read_own_record, timeout=ANSWER_TIMEOUT_SECONDS)
    return {rank: answer.value for rank, answer in answers.items() if answer.value}


def keep_in_thread(records: Mapping[int, bytes], group: Group, *, first: Collection[int]) -> None:
    """Behind the fence. Waits for STORE_PATIENCE_SECONDS at most, and keeps writing after that."""
    folder, check_fence = group.folder, group.check_fence
    if not records or folder is None:
        return

    @never_raises("keep the ranks' collectives")
    def run(folder: RunFolder) -> None:
        check_fence()
        name = keep_records(folder, records, attempt=int(os.environ.get(environment.ATTEMPT) or 1), first=first)
        log(f"the collectives of {min(len(records), KEPT_RANKS)} ranks are in {folder.find(name)}")

    thread = threading.Thread(target=run, args=(folder,), name="railhead-flight-records", daemon=True)
    thread.start()
    thread.join(STORE_PATIENCE_SECONDS)


def keep_records(folder: RunFolder, records: Mapping[int, bytes], *, attempt: int, first: Collection[int]) -> str:
    """Writes those of KEPT_RANKS ranks, `first` first, and returns their folder. Forgets all but the last failures'."""
    names = [name for name in folder.list_names(FOLDER) if _NAME.fullmatch(name)]
    numbers = sorted((int(number), int(index)) for name in names for number, index in [name.split("-")])
    new = (attempt, 1 + max((index for number, index in numbers if number == attempt), default=0))
    path = f"{FOLDER}/{new[0]}-{new[1]}"
    chosen = sorted(records, key=lambda rank: (rank not in first, rank))[:KEPT_RANKS]
    with ThreadPoolExecutor(_WRITERS) as pool:
        writes = [pool.submit(folder.write, f"{path}/rank-{r}.json", zlib.decompress(records[r])) for r in chosen]
    for write in writes:
        write.result()
    for old in numbers[: max(0, len(numbers) + 1 - KEPT_FAILURES)]:
        folder.delete_folder(f"{FOLDER}/{old[0]}-{old[1]}")
    return path
