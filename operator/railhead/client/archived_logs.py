"""The archive of a job's logs: which files have the lines that are wanted, in which order, and their text. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence

from railhead.api import names
from railhead.client.run_files import RunFile
from railhead.contract.run_folder import LOGS, name_attempt, shorten_uid

SEGMENT_BYTES = 256 << 20  # of text; a segment has about a hundredth of it
_FILE = re.compile(r"([^/]+)/[^/]+-\d{6}\.log\.gz")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ")


def find_attempts(files: Sequence[RunFile], uid: str) -> list[int]:
    """Returns the attempts of the job that have files, in order; `files`: of the whole archive."""
    own = re.compile(rf"{LOGS}/{shorten_uid(uid)}-(\d{{1,9}})/.*")
    return sorted({int(found[1]) for file in files if (found := own.fullmatch(file.name))})


def choose_files(
    files: Sequence[RunFile], uid: str, attempt: int, *, rank: int | None, is_all: bool
) -> dict[RunFile, str]:
    """Returns each file with wanted lines, and its source, in the order of time.

    A source is a rank, `head`, `worker` or `train`; without a rank the head's files are wanted.
    """
    folder = f"{LOGS}/{name_attempt(uid, attempt)}/"
    wanted = names.HEAD if rank is None else str(rank)
    found = [(_FILE.fullmatch(file.name.removeprefix(folder)), file) for file in files if file.name.startswith(folder)]
    chosen = [(match[1], file) for match, file in found if match and (is_all or match[1] == wanted)]
    chosen.sort(key=lambda each: (not each[0].isdigit(), each[0].rjust(9), each[1].name))
    return {file: source for source, file in chosen}


def read_lines(data: bytes, since: str = "") -> Iterator[str]:
    """Yields the lines of a segment from this time on (RFC 3339, UTC), without their times; a last one says so if the
    segment cannot be read to its end."""
    text, rest, problem = bytearray(), data, ""
    while rest and not problem:
        member = zlib.decompressobj(wbits=31)
        try:
            text += member.decompress(rest, SEGMENT_BYTES - len(text) + 1)
        except zlib.error as error:
            problem = str(error)
        if len(text) > SEGMENT_BYTES or member.unconsumed_tail:
            problem = f"more than {SEGMENT_BYTES >> 20} MiB"
        elif not member.eof:
            problem = problem or "its end is missing"
        rest = member.unused_data
    time = ""  # that of a line without one is that of the line before
    for line in bytes(text[:SEGMENT_BYTES]).decode(errors="replace").removesuffix("\n").split("\n") if text else ():
        stamp = _STAMP.match(line)
        time = stamp[1] if stamp else time
        if time >= since:
            yield line[stamp.end() :] if stamp else line
    if problem:
        yield f"railhead: the rest of this segment cannot be read ({problem})"
