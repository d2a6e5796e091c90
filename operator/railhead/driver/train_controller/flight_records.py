"""After a hang: collects the records of torch's flight recorder, compares them and keeps them in the run's folder.

They are JSON by then: each rank's own pod has read its pickle (`node.flight_dump`).
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Optional

from railhead.contract import environment as e
from railhead.driver.describe import describe_exception
from railhead.driver.rank.flight_recorder import read_own_record
from railhead.driver.storage.run_folder import OWN_FOLDER, RunFolder
from railhead.driver.train_controller.collectives import Finding, compare_records, parse_record
from railhead.driver.train_controller.deaths import find_deaths
from railhead.driver.train_controller.fence import log
from railhead.driver.train_controller.group import Group, Process, call_ranks

FOLDER = f"{OWN_FOLDER}/dumps"
ANSWER_TIMEOUT = 15.0  # seconds, for all ranks that still live
STORE_PATIENCE = 5.0  # seconds by which a restart may wait for the storage
KEPT_FAILURES, KEPT_RANKS = 3, 64
_WRITERS = 8
_NAME = re.compile(r"(\d+)-(\d+)")


def find_difference(of_dead: Mapping[int, bytes], processes: Mapping[int, Process], group: Group) -> Optional[Finding]:
    """`of_dead`: records by rank; all others of the group's ranks are asked for theirs. Never raises."""
    try:
        records = {**of_dead, **ask_living(processes.keys() - of_dead.keys(), group)}
        left = {rank: each for rank, each in processes.items() if rank not in records}
        died_meanwhile = find_deaths(left) if left else {}
        records.update({rank: death.record for rank, death in died_meanwhile.items() if death.record})
        parsed = {rank: parse_record(data) for rank, data in sorted(records.items())}
        finding = compare_records({rank: each for rank, each in parsed.items() if each}, size=len(processes))
        keep_in_thread(records, group, first=finding.ranks if finding else ())
        return finding
    except Exception as error:
        log(f"cannot compare the ranks' collectives: {describe_exception(error)}")
        return None


def ask_living(ranks: Collection[int], group: Group) -> dict[int, bytes]:
    """Returns the records of those that answer in time."""
    if group.worker_group is None:
        return {}
    answers = call_ranks(group.worker_group, ranks, read_own_record, timeout=ANSWER_TIMEOUT)
    return {rank: answer.value for rank, answer in answers.items() if answer.value}


def keep_in_thread(records: Mapping[int, bytes], group: Group, *, first: Collection[int]) -> None:
    """Behind the fence. Waits for STORE_PATIENCE at most, and keeps writing after that."""
    folder, check_fence = group.folder, group.check_fence
    if not records or folder is None:
        return

    def run(folder: RunFolder) -> None:
        try:
            check_fence()
            name = keep_records(folder, records, attempt=int(os.environ.get(e.ATTEMPT) or 1), first=first)
            log(f"the collectives of {min(len(records), KEPT_RANKS)} ranks are in {folder.find(name)}")
        except Exception as error:
            log(f"cannot keep the ranks' collectives: {describe_exception(error)}")

    thread = threading.Thread(target=run, args=(folder,), name="railhead-flight-records", daemon=True)
    thread.start()
    thread.join(STORE_PATIENCE)


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
