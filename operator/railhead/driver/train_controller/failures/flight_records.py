"""Keeps the flight records of a hang in the run's folder."""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from railhead.contract import environment
from railhead.contract.run_folder import OWN_FOLDER
from railhead.driver.messages.log import log, never_raises
from railhead.driver.storage.run_folder_files import RunFolder
from railhead.driver.train_controller.worker_group import Group

FOLDER = f"{OWN_FOLDER}/dumps"
STORE_PATIENCE_SECONDS = 5.0  # by which a restart may wait for the storage
KEPT_FAILURES = 3
KEPT_RANKS = 64
_WRITERS = 8
_NAME = re.compile(r"(\d+)-(\d+)")


def keep_in_thread(records: Mapping[int, bytes], group: Group, *, first: Collection[int]) -> None:
    """Keeps them behind the fence. Waits for STORE_PATIENCE_SECONDS at most, and keeps writing after that."""
    folder = group.folder
    check_fence = group.check_fence
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
    others = sorted(rank for rank in records if rank not in first)
    chosen = [*sorted(rank for rank in records if rank in first), *others][:KEPT_RANKS]
    with ThreadPoolExecutor(_WRITERS) as pool:
        writes = [pool.submit(folder.write, f"{path}/rank-{r}.json", zlib.decompress(records[r])) for r in chosen]
    for write in writes:
        write.result()
    for old in numbers[: max(0, len(numbers) + 1 - KEPT_FAILURES)]:
        folder.delete_folder(f"{FOLDER}/{old[0]}-{old[1]}")
    return path
