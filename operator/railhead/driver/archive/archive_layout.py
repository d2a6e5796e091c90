"""What the archive of a job's logs keeps, under which names, and when it is copied to the storage. Pure.

The files of one attempt are in `.railhead/logs/<uid>-<attempt>/<source>/`, with the first 8 characters of the job's
uid: two jobs may have the same run, one after the other. A source is a rank, `head`, `worker` or `train`. A file
`<writer>-<number>.log.gz` is one segment of what one pod had of a source, and consists of complete gzip members.

A segment is full at 1/16 of the limit of its source. Of each source the first 4 segments are kept, and the newest 12:
how training began, and how it ended. The fifth segment then has only a line that says what is missing.
"""

from __future__ import annotations

import re
from typing import Iterable, Optional

from railhead.contract.run_folder import shorten_uid
from railhead.driver.storage.path_folder import Stored

# sources that are no rank
HEAD = "head"
WORKER = "worker"
TRAIN = "train"
SEGMENTS = 16
FIRST_SEGMENTS = 4
# between two uploads of a pod
INTERVAL_SECONDS = 60.0
RANK_0_INTERVAL_SECONDS = 10.0
LONGEST_INTERVAL_SECONDS = 600.0  # while the storage refuses them
SPREAD = 0.25  # of an interval: the pods of a job start together, and must not upload together
_WORKER_POD = re.compile(r"(?:^|-)w(\d{1,6})-(\d{1,6})$")
_ATTEMPT = re.compile(r"([0-9a-z]{1,8})-(\d{1,9})")


def name_writer(role: str, *, pod: str, uid: str) -> str:
    """Returns the part of a pod in the names of its files. Sorted by name, the files of a rank are in order of time.

    `pod`, `uid`: of the pod. A replacement of a worker pod has a higher round, which comes first. Two heads of one
    attempt differ in their uids.
    """
    if role == HEAD:
        return "-".join(filter(None, (HEAD, shorten_uid(uid))))
    found = _WORKER_POD.search(pod)
    if found:
        return f"r{int(found[2])}-w{int(found[1])}"
    return WORKER


def name_segment(source: str, writer: str, number: int) -> str:
    """Returns the file's name, relative to the folder of the attempt."""
    return f"{source}/{writer}-{number:06d}.log.gz"


def find_dropped(number: int) -> Optional[int]:
    """Returns the number of the segment that is dropped when the segment with this number begins, or None."""
    if number >= SEGMENTS:
        return number - (SEGMENTS - FIRST_SEGMENTS)
    return None


def describe_gap(limit: int) -> str:
    """Returns the line that replaces what was dropped; `limit` in bytes."""
    first = limit * FIRST_SEGMENTS // SEGMENTS
    newest = limit - limit * FIRST_SEGMENTS // SEGMENTS
    return (
        f"railhead: lines are missing here: the archive keeps the first {first} and the newest {newest} bytes "
        "(spec.logs.archivePerRank, compressed)"
    )


def plan_wait(*, has_rank_0: bool, failures: int, chance: float) -> float:
    """Returns the seconds until the next upload; `failures`: of uploads in a row; `chance`: from 0 to 1, at random."""
    interval = RANK_0_INTERVAL_SECONDS if has_rank_0 else INTERVAL_SECONDS
    if failures:
        interval = min(INTERVAL_SECONDS * 2 ** min(failures - 1, 10), LONGEST_INTERVAL_SECONDS)
    return interval * (1 + SPREAD * (2 * chance - 1))


def list_surplus(files: Iterable[Stored], *, limit: int, uid: str, attempt: int) -> list[str]:
    """Returns the names of the files beyond `limit` bytes for all attempts: the oldest attempts go first.

    `files`: with names relative to the folder of all attempts.

    Another job's files are older than this job's. The files of a later attempt stay: its head decides about them.
    """

    def read_place(file: Stored) -> tuple[bool, int, float]:
        found = _ATTEMPT.fullmatch(file.name.partition("/")[0])
        is_own = found is not None and found[1] == shorten_uid(uid)
        return is_own, int(found[2]) if found and is_own else 0, file.time

    ordered = sorted(files, key=read_place)
    surplus = []
    total = sum(file.size for file in ordered)
    for file in ordered:
        if total <= limit or read_place(file)[1] > attempt:
            break
        total -= file.size
        surplus.append(file.name)
    return surplus
