"""Reads the lines that the archive in the run's folder has of an attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from railhead.api.run_status import list_uids
from railhead.api.status import parse_status
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.archived_logs import choose_files, list_attempts, list_writers, read_lines
from railhead.client.run.log_reader import Wanted
from railhead.client.run.run_files import RunFile, RunFiles, read_each
from railhead.client.run.run_list import list_uids_of_run
from railhead.client.run.run_results import read_run_record
from railhead.contract.run_folder import LOGS
from railhead.json_object import Object


@dataclass(frozen=True)
class ArchivedLine:
    """A line, and the rank that printed it, or `head`, `worker` or `train`.

    Attributes:
        text: as it is shown, with its source where lines of several are.
    """

    source: str
    text: str


@dataclass(frozen=True)
class AttemptArchive:
    """What the archive of a run has, and which attempt of it is wanted.

    Attributes:
        found: all files of the archive.
        uids: of the job, and of those that it was restored from.
        nothing: begins the message that there are no such lines.
    """

    files: RunFiles
    found: Sequence[RunFile]
    uids: Sequence[str]
    attempt: int
    nothing: str


async def find_archive(files: RunFiles, job: Object, attempt: int | None) -> AttemptArchive:
    """Returns the archive in the job's own folder; of the newest attempt if `attempt` is None."""
    status = parse_status(job.get("status"))
    uids = list_uids(str(job["metadata"]["uid"]), status.run)
    found = await files.find([LOGS])
    nothing = f"{job['metadata']['name']} has no such pod, and the archive"
    return AttemptArchive(files, found, uids, attempt or status.attempt, nothing)


async def find_archive_of_folder(files: RunFiles, attempt: int | None) -> AttemptArchive:
    """Returns the archive in a run's folder, for a reader who has no job."""
    found = await files.find([LOGS])
    record = await read_run_record(files)
    if record is None:
        uids = list_writers(found)
    else:
        uids = list_uids_of_run(record)
    if attempt is None:
        attempt = max(list_attempts(found, uids), default=1)
    return AttemptArchive(files, found, uids, attempt, f"{files.place}: the archive")


async def read_archive(archive: AttemptArchive, wanted: Wanted, since: str = "") -> AsyncIterator[ArchivedLine]:
    """Yields the lines of the attempt, from `since` on (RFC 3339). `wanted.tail` is up to the caller.

    Raises:
        ClientError: the archive has no such lines; names the attempts that it has.
    """
    sources = choose_files(archive.found, archive.uids, archive.attempt, rank=wanted.rank, is_all=wanted.is_all)
    if not sources:
        kept = ", ".join(map(str, list_attempts(archive.found, archive.uids))) or "none"
        message = (
            f"{archive.nothing} has no such lines of attempt {archive.attempt}; it has attempts: {kept}. "
            "spec.logs.archive decides what it keeps"
        )
        raise ClientError(message, ExitCode.NOT_FOUND)
    async for file, data in read_each(archive.files, list(sources)):
        source = sources[file]
        place = source
        if source.isdigit():
            place = f"rank {source}"
        for text in read_lines(data, since):
            if wanted.is_all:
                text = f"[{place}] {text}"
            yield ArchivedLine(source, text)
