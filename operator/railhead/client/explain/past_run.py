"""One run of a storage, opened without its TrainJob: its record, its checkpoints, and what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railhead.client.exit_codes import ClientError
from railhead.client.explain.timeline import Moment, read_moments, sort_moments
from railhead.client.run.checkpoints import CheckpointRow
from railhead.client.run.run_files import RunFiles, read_folder
from railhead.client.run.run_list import RunGoodput, choose_run_folder, count_goodput
from railhead.client.run.run_results import read_checkpoints
from railhead.client.run.run_storage import RunStorage
from railhead.contract.run_folder import OWN_FOLDER
from railhead.contract.run_record import RecordedAttempt, RecordedEnvironment, RecordedSpec, RunRecord
from railhead.history import JOURNAL, read_history


@dataclass(frozen=True)
class PastRun:
    """What a run has left of itself.

    Attributes:
        folder: the path or URI of its folder, for --folder of other commands.
        spec, environment: of its newest attempt.
        attempts: those that have trained, the oldest first.
        metrics: rank 0's last ones, as text.
        checkpoints: those that exist, the oldest first.
        moments: what happened, in order.
        notes: what could not be read, as sentences.
    """

    folder: str
    spec: RecordedSpec
    environment: RecordedEnvironment
    attempts: tuple[RecordedAttempt, ...]
    goodput: RunGoodput
    metrics: dict[str, str]
    checkpoints: tuple[CheckpointRow, ...]
    moments: tuple[Moment, ...]
    notes: tuple[str, ...]


async def open_past_run(storage: RunStorage, name: str, record: RunRecord) -> PastRun:
    """Returns what the storage has of a run. What cannot be read is in its notes."""
    files = storage.open_folder(choose_run_folder(name, record))
    best = ""
    if record.best_checkpoint is not None:
        best = record.best_checkpoint.uri
    notes: list[str] = []
    checkpoints: list[CheckpointRow] = []
    moments = list(describe_attempts(record))
    try:
        checkpoints = await read_checkpoints(files, best)
    except ClientError as error:
        notes.append(str(error))
    try:
        moments += await _read_journal(files)
    except ClientError as error:
        notes.append(str(error))
    return PastRun(
        folder=files.place,
        spec=record.spec,
        environment=record.environment,
        attempts=record.attempts,
        goodput=count_goodput(record),
        metrics=record.metrics,
        checkpoints=tuple(checkpoints),
        moments=tuple(sort_moments(moments)),
        notes=tuple(notes),
    )


async def _read_journal(files: RunFiles) -> list[Moment]:
    segments = await read_folder(files, f"{OWN_FOLDER}/{JOURNAL}")
    return list(read_moments(read_history(segments)))


def describe_attempts(record: RunRecord) -> Iterator[Moment]:
    """Yields the begin of each attempt, and its end if its head has told that."""
    for attempt in record.attempts:
        name = f"attempt {attempt.number}"
        yield Moment(attempt.started, "AttemptStarted", name, "record")
        if attempt.outcome:
            yield Moment(attempt.seen, "AttemptEnded", f"{name}: {describe_outcome(attempt)}", "record")


def describe_attempt(attempt: RecordedAttempt) -> str:
    """Returns how an attempt went, with its message."""
    text = f"{attempt.number}: {describe_outcome(attempt)}"
    if attempt.restarts:
        text += f", restarts in place {attempt.restarts}"
    if attempt.message:
        text += f": {attempt.message}"
    return text


def describe_outcome(attempt: RecordedAttempt) -> str:
    """Returns how an attempt ended, in a phrase."""
    if not attempt.outcome:
        return "no end is known"
    if attempt.reason in ("", attempt.outcome):
        return attempt.outcome
    return f"{attempt.outcome} {attempt.reason}"
