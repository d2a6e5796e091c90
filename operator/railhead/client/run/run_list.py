"""The runs of a storage, from the records that their drivers have left there: without a cluster and their jobs.

One small object is read per run, many at once. A record is trusted in nothing but its types.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal

from pydantic.alias_generators import to_camel

from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.run_files import is_plain
from railhead.client.run.run_storage import READS_AT_ONCE, RunStorage
from railhead.contract.checkpoint_uri import read_path
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import SUCCEEDED
from railhead.contract.report import NO_CHECKPOINT, CommittedCheckpoint
from railhead.contract.run_folder import RECORD, is_of_job
from railhead.contract.run_record import LIMIT_BYTES, OtherVersion, RecordedAttempt, RunRecord, parse_record
from railhead.contract.spent import Spent
from railhead.contract.text import clean_line
from railhead.contract.times import parse_time
from railhead.contract.trackers import is_link

# A driver gives a sign of life each minute; the storage may take long, and clocks differ.
LOST_AFTER = timedelta(minutes=5)
MOST_NAMED = 3  # folders in a note
# As status.goodput has the causes.
CAUSES = {each.name: to_camel(each.name) for each in fields(Spent)}
State = Literal["Running", "Lost", "Succeeded", "Failed", "Stopped"]


@dataclass(frozen=True)
class RunGoodput:
    """What the time of a run was spent on, as its drivers have counted it.

    Attributes:
        wall_seconds: from the start of the first driver to the last sign of life.
        lost_seconds: all but the productive ones, by cause, as in status.goodput; `other` is what no driver has
            counted, such as the time between attempts.
        percent: productive_seconds of wall_seconds; None at the start.
    """

    wall_seconds: int
    productive_seconds: int
    lost_seconds: Mapping[str, int]
    percent: float | None


@dataclass(frozen=True)
class RunRow:
    """A run of a storage.

    Attributes:
        name: of its folder.
        namespace, job: of the TrainJob that has continued it last.
        state: of its newest attempt. Running: its driver has given a sign of life; Lost: it has not for five minutes,
            and has not said how it ended; Stopped: it was suspended, evicted or preempted; Failed: it has failed, which
            the job may have tried again.
        reason: why it ended; empty otherwise.
        started: of its first driver (RFC 3339, UTC).
        seen: the last sign of life, or its end.
        seconds: between these two.
        attempts: the number of the newest one, by the last TrainJob.
        goodput: percent; None = not known yet.
        best_metric: name and value of the metric by which checkpoints are compared; empty without one.
        checkpoint: number of the newest one; None = none yet.
        checkpoint_time: when that was committed.
        image: of the newest attempt.
        tracker_url: the run's page in a tracker; empty if none is known.
    """

    name: str
    namespace: str
    job: str
    state: State
    reason: str
    started: str
    seen: str
    seconds: int
    attempts: int
    workers: int
    goodput: float | None
    best_metric: str
    checkpoint: int | None
    checkpoint_time: str
    image: str
    tracker_url: str


@dataclass(frozen=True)
class RunRecords:
    """The records of a storage, by the names of the folders. `notes`: which folders have none, as sentences."""

    records: Mapping[str, RunRecord]
    notes: tuple[str, ...]


async def read_records(storage: RunStorage) -> RunRecords:
    """Returns the records of all runs of the storage. Raises ClientError if its folders cannot be listed."""
    with ThreadPoolExecutor(READS_AT_ONCE, "railhead-runs") as pool:
        loop = asyncio.get_running_loop()
        folders = await loop.run_in_executor(pool, storage.list_folders)
        names = sorted(filter(is_plain, folders))
        reads = (loop.run_in_executor(pool, _read, storage, name) for name in names)
        found = dict(zip(names, await asyncio.gather(*reads), strict=True))
    records = {name: each for name, each in found.items() if isinstance(each, RunRecord)}
    problems = {name: each for name, each in found.items() if isinstance(each, str)}
    return RunRecords(records, tuple(_describe_problems(problems)))


async def read_record(storage: RunStorage, name: str) -> RunRecord:
    """Returns the record of one run. Raises ClientError if it has none that can be read."""
    found = None
    if is_plain(name):
        found = await asyncio.to_thread(_read, storage, name)
    if isinstance(found, RunRecord):
        return found
    reason = "there is none"
    if found:
        reason = found
    where = f"{clean_line(storage.place)} has no record of a run {clean_line(name)[:100]}"
    raise ClientError(f"{where}: {reason}; `railhead runs {clean_line(storage.place)}` lists them", ExitCode.NOT_FOUND)


def _read(storage: RunStorage, name: str) -> RunRecord | str | None:
    """Returns the record, why it cannot be read, or None if there is none."""
    try:
        data = storage.read(f"{name}/{RECORD}", LIMIT_BYTES + 1)
        if data is None:
            return None
        return parse_record(data) or "it is damaged, or another program's"
    except OtherVersion as error:
        return f"it has {error}; upgrade railhead"
    except OSError as error:
        return clean_line(str(error))


def _describe_problems(problems: Mapping[str, str]) -> Iterable[str]:
    """Yields a sentence for each reason why records cannot be read, with some of the folders."""
    reasons: dict[str, list[str]] = {}
    for name, reason in problems.items():
        reasons.setdefault(reason.replace(name, "..."), []).append(name)
    for reason, names in reasons.items():
        shown = ", ".join(names[:MOST_NAMED])
        more = ""
        if len(names) > MOST_NAMED:
            more = f" and {len(names) - MOST_NAMED} more"
        yield f"The record of {shown}{more} cannot be read: {reason}."


def list_runs(records: Mapping[str, RunRecord], *, now: datetime) -> list[RunRow]:
    """Returns a row per run, the one that started last first."""
    rows = [build_row(name, record, now=now) for name, record in records.items()]
    return sorted(rows, key=lambda row: (row.started, row.name), reverse=True)


def build_row(name: str, record: RunRecord, *, now: datetime) -> RunRow:
    """Returns the row of a run."""
    goodput = count_goodput(record)
    state: State = "Lost"
    last = RecordedAttempt("", 0, "", "", "")
    first = last
    if record.attempts:
        first = record.attempts[0]
        last = record.attempts[-1]
        state = judge_state(last, now=now)
    newest = record.checkpoint
    index = None
    committed = ""
    if newest is not None and newest != NO_CHECKPOINT:
        index = newest.index
        committed = newest.time
    return RunRow(
        name=name,
        namespace=record.namespace,
        job=record.name,
        state=state,
        reason=_find_reason(last),
        started=first.started,
        seen=last.seen,
        seconds=goodput.wall_seconds,
        attempts=last.number,
        workers=last.workers,
        goodput=goodput.percent,
        best_metric=_describe_best(record),
        checkpoint=index,
        checkpoint_time=committed,
        image=record.environment.image,
        tracker_url=_find_link(record),
    )


def _find_link(record: RunRecord) -> str:
    """Returns the link, if it is one: a person is going to open it."""
    if is_link(record.tracker_url):
        return record.tracker_url
    return ""


def _find_reason(attempt: RecordedAttempt) -> str:
    if attempt.outcome == SUCCEEDED:
        return ""
    return attempt.reason


def judge_state(attempt: RecordedAttempt, *, now: datetime) -> State:
    """Returns what a run does whose newest attempt this is."""
    if attempt.outcome == SUCCEEDED:
        return "Succeeded"
    if attempt.outcome == FailureClass.PREEMPTION.value:
        return "Stopped"
    if attempt.outcome:
        return "Failed"
    seen = parse_time(attempt.seen)
    if seen is None or now - seen > LOST_AFTER:
        return "Lost"
    return "Running"


def count_goodput(record: RunRecord) -> RunGoodput:
    """Returns what the run's time was spent on."""
    causes = Counter[str]()
    for attempt in record.attempts:
        causes.update(_count_attempt(attempt, is_last=attempt is record.attempts[-1]))
    times = [time for each in record.attempts for time in (parse_time(each.started), parse_time(each.seen)) if time]
    wall = 0
    if times:
        wall = int((max(times) - min(times)).total_seconds())
    productive = min(causes.pop("productive", 0) // 1000, wall)
    lost = {cause: milliseconds // 1000 for cause, milliseconds in causes.items() if milliseconds >= 1000}
    rest = wall - productive - sum(lost.values())
    if rest > 0:
        lost["other"] = rest
    percent = None
    if wall:
        percent = round(100 * productive / wall, 1)
    return RunGoodput(wall, productive, lost, percent)


def _count_attempt(attempt: RecordedAttempt, *, is_last: bool) -> Mapping[str, int]:
    """Returns the milliseconds by cause; what no checkpoint has kept when an attempt ends is trained again."""
    spent = {cause: max(getattr(attempt.spent, cause), 0) for cause in CAUSES}
    uncommitted = min(spent.pop("uncommitted"), spent["productive"])
    has_failed = attempt.outcome not in ("", SUCCEEDED)
    if has_failed or not (attempt.outcome or is_last):
        spent["productive"] -= uncommitted
        spent["retrained"] += uncommitted
    return {CAUSES[cause]: milliseconds for cause, milliseconds in spent.items()}


def _describe_best(record: RunRecord) -> str:
    name = record.spec.score_attribute
    best: CommittedCheckpoint | None = record.best_checkpoint
    if not name or best is None or name not in best.metrics:
        return ""
    return f"{name} {best.metrics[name]}"


def choose_run_folder(name: str, record: RunRecord) -> str:
    """Returns the folder, in the storage, of the newest fit(): the run's own, or one that the user's code has named.

    `name`: of the run's own folder.
    """
    parts: Sequence[str] = read_path(record.run_uri).rstrip("/").split("/")
    last = parts[-1]
    if len(parts) > 1 and parts[-2] == name and is_plain(last):
        return f"{name}/{last}"
    if is_of_job(last, name):
        return last
    return name


def list_uids_of_run(record: RunRecord) -> list[str]:
    """Returns the uids of the last TrainJob and of those that it was restored from: their attempts have other numbers.

    Another job that has continued the run begins with attempt 1 again.
    """
    uids = [record.uid]
    lowest = None
    for attempt in reversed(record.attempts):
        if lowest is not None and attempt.number >= lowest:
            break
        lowest = attempt.number
        if attempt.job not in uids:
            uids.append(attempt.job)
    return uids
