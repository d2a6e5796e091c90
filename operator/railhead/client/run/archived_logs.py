"""The archive of a job's logs: which files have the lines that are wanted, in which order, and their text. Pure."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Collection, Iterator, Sequence

from railhead.api import names
from railhead.client.run.run_files import RunFile
from railhead.contract.run_folder import LOGS, name_attempt, shorten_uid

SEGMENT_BYTES = 256 << 20  # of text; a segment has about a hundredth of it
PIECE_BYTES = 1 << 20
LINE_CHARACTERS = 1 << 20
_FILE = re.compile(r"([^/]+)/[^/]+-\d{6}\.log\.gz")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) ")


class _Unreadable(Exception):
    """The rest of a segment cannot be read; the message says why."""


def list_attempts(files: Sequence[RunFile], uids: Collection[str]) -> list[int]:
    """Returns the attempts of the job that have files, in order; `files`: of the whole archive.

    `uids`: of the job, and of those that it was restored from.
    """
    own = re.compile(rf"{LOGS}/(?:{'|'.join(map(shorten_uid, uids))})-(\d{{1,9}})/.*")
    return sorted({int(found[1]) for file in files if (found := own.fullmatch(file.name))})


def list_writers(files: Sequence[RunFile]) -> list[str]:
    """Returns the shortened uids of the jobs that have files; `files`: of the whole archive."""
    found = (re.fullmatch(rf"{LOGS}/([0-9a-z]{{1,8}})-\d{{1,9}}/.*", file.name) for file in files)
    return sorted({match[1] for match in found if match})


def choose_files(
    files: Sequence[RunFile], uids: Collection[str], attempt: int, *, rank: int | None, is_all: bool
) -> dict[RunFile, str]:
    """Returns each file with wanted lines, and its source, in the order of time.

    A source is a rank, `head`, `worker` or `train`; without a rank the head's files are wanted. `uids`: as above; the
    attempts of a job and of those that it was restored from have different numbers.
    """
    folders = [f"{LOGS}/{name_attempt(uid, attempt)}/" for uid in uids]
    wanted = names.HEAD if rank is None else str(rank)
    found = [
        (_FILE.fullmatch(file.name.removeprefix(folder)), file)
        for file in files
        for folder in folders
        if file.name.startswith(folder)
    ]
    chosen = [(match[1], file) for match, file in found if match and (is_all or match[1] == wanted)]

    def order(each: tuple[str, RunFile]) -> tuple[bool, str, str]:
        source, file = each
        return not source.isdigit(), source.rjust(9), file.name

    return {file: source for source, file in sorted(chosen, key=order)}


def read_lines(data: bytes, since: str = "") -> Iterator[str]:
    """Yields the lines of a segment from this time on (RFC 3339, UTC), without their times; a last one says so if the
    segment cannot be read to its end.

    A segment may expand to a hundred times its size, or to a thousand times if a job has made it to: it is never whole
    in memory, and a line of more than LINE_CHARACTERS is printed in parts.
    """
    # A line without a time has that of the line before.
    time = ""
    for line in _read_raw_lines(data):
        stamp = _STAMP.match(line)
        if stamp:
            time = stamp[1]
            line = line[stamp.end() :]
        if time >= since:
            yield line


def _read_raw_lines(data: bytes) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    problem = ""
    try:
        for piece in _decompress(data):
            *lines, rest = (rest + decoder.decode(piece)).split("\n")
            yield from lines
            if len(rest) > LINE_CHARACTERS:
                yield rest
                rest = ""
    except _Unreadable as error:
        problem = str(error)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
    if problem:
        yield f"railhead: the rest of this segment cannot be read ({problem})"


def _decompress(data: bytes) -> Iterator[bytes]:
    """Yields the text of all members in pieces. Raises _Unreadable after what can be read."""
    left = SEGMENT_BYTES
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            room = min(PIECE_BYTES, left + 1)
            try:
                piece = member.decompress(data, room)
            except zlib.error as error:
                raise _Unreadable(str(error)) from None
            data = member.unconsumed_tail
            left -= len(piece)
            if left < 0:
                yield piece[:left]
                raise _Unreadable(f"more than {SEGMENT_BYTES >> 20} MiB")
            yield piece
            # A full piece may have left some text in the decompressor.
            if not member.eof and not data and len(piece) < room:
                raise _Unreadable("its end is missing")
        data = member.unused_data
