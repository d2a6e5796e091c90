"""Records that outlive the pod, in segments: bounded files of JSON lines in the run's folder, as in
`contract.history_format`.

Each record is first a line of a file in the pod, which takes microseconds, so nothing waits for the storage, and what
the storage lacks is still there when Ray's processes are gone: the driver writes it at the end. The newest segment is
open, and written again as it grows; the others never grow any more, and the pod forgets each of them once the storage
has it. If the storage takes none for long, the oldest are dropped and counted.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Callable, Optional

from railhead.contract.history_format import Header, Record, SegmentName, read_line, write_line
from railhead.driver.messages.attempt_errors import AttemptFailed
from railhead.driver.messages.exception_text import describe_exception
from railhead.driver.messages.log import log
from railhead.driver.storage.run_folder_files import PrivateFolder

SEGMENT_BYTES = 4 << 20  # a segment is closed beyond this
MOST_WAITING = 4  # closed segments that the storage lacks
# Per kind, of all attempts of a run.
RUN_BYTES = 256 << 20
# A lost head loses at most the records of this time and of one write.
UPLOAD_SECONDS = 60.0


class Segments:
    """The segments of one kind that one head writes. One thread appends, and one uploads.

    `spool` is the folder of `choose_spool`; `job` and `pod`, both uids, and `attempt` are those of the head.
    """

    def __init__(self, spool: Path, kind: str, *, job: str, attempt: int, pod: str) -> None:
        self.kind = kind
        self._job = job
        self._spool = spool / kind
        self._attempt = attempt
        self._pod = "".join(char for char in pod.lower() if char in "0123456789abcdef")[:8] or "0"
        self._dropped = 0
        self._number = 0  # of the open segment, 0 before there is one
        self._uploaded: dict[SegmentName, int] = {}  # how many bytes of those that the pod still has

    def append(self, record: Record) -> None:
        """Counts the record as dropped if the pod cannot take it. Never raises OSError."""
        line = write_line(record)
        try:
            file = self._ensure_open()
            with open(file, "ab") as stream:
                stream.write(line)
                is_full = stream.tell() >= SEGMENT_BYTES
            if is_full:
                self._drop_oldest()
                self._begin(self._number + 1)
        except OSError as error:
            self._count_dropped(1, f"{type(error).__name__}: {error}")

    def upload(self, run: PrivateFolder) -> None:
        """Writes what the storage lacks. Raises what the storage and the fence raise."""
        files = self._list()
        has_closed = False
        for name, file in files:
            try:
                data = file.read_bytes()
            except FileNotFoundError:  # dropped meanwhile
                continue
            # A line may be in the middle of being written.
            data = data[: data.rfind(b"\n") + 1]
            if len(data) != self._uploaded.get(name):
                run.write(str(name), data)
                self._uploaded[name] = len(data)
            if name != files[-1][0]:
                has_closed = True
                del self._uploaded[name]
                file.unlink(missing_ok=True)
        if has_closed:
            thin_out(run, most=RUN_BYTES, spare={str(files[-1][0])})

    def _ensure_open(self) -> Path:
        if not self._number:
            before = self._list()  # of a process that wrote them before this one
            self._number = before[-1][0].number if before else 0
            if not before:
                self._begin(1)
        return self._spool / str(self._name(self._number))

    def _begin(self, number: int) -> None:
        """Begins a segment right away, so that the pod always has the newest one, and no number is used twice."""
        self._spool.mkdir(parents=True, exist_ok=True)
        header = Header(self.kind, self._job, dropped=self._dropped)
        (self._spool / str(self._name(number))).write_bytes(header.to_line())
        self._number = number

    def _drop_oldest(self) -> None:
        for _, file in self._list()[:-MOST_WAITING]:
            lines = file.read_bytes().count(b"\n") - 1
            file.unlink()
            self._count_dropped(lines, "the storage does not take them")

    def _count_dropped(self, records: int, why: str) -> None:
        if not self._dropped:
            log(f"the run's history: records of {self.kind} are lost, and counted ({why})")
        self._dropped += records

    def _name(self, number: int) -> SegmentName:
        return SegmentName(self._attempt, self._pod, number)

    def _list(self) -> list[tuple[SegmentName, Path]]:
        """Returns the segments in the pod, the open one last."""
        found = ((SegmentName.parse(file.name), file) for file in self._spool.glob("*.jsonl"))
        return sorted((name, file) for name, file in found if name is not None)


class Uploader:
    """A thread that calls `upload` every minute, and once more at the end, until another head has the run.

    `begins_at_once`: it does not wait a minute for the first time.
    """

    def __init__(self, upload: Callable[[], None], *, begins_at_once: bool = False) -> None:
        self._upload = upload
        self._first_wait = 0.0 if begins_at_once else UPLOAD_SECONDS
        self._has_warned = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="railhead-history", daemon=True)
        self._thread.start()

    def end(self, seconds: float) -> None:
        """Waits that long for the last upload."""
        self._ended.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            log(f"the storage has not taken the end of the run's history within {seconds:.0f} s")

    def _run(self) -> None:
        has_ended = False
        wait = self._first_wait
        while not has_ended:
            has_ended = self._ended.wait(wait)
            wait = UPLOAD_SECONDS
            try:
                self._upload()
            except AttemptFailed:
                # The fence: training ends for the same reason.
                return
            except Exception as error:
                if not self._has_warned:
                    log(f"cannot keep the run's history: {describe_exception(error)}; tried again each minute")
                self._has_warned = True


def thin_out(run: PrivateFolder, *, most: int, spare: set[str]) -> None:
    """Makes the segments of a kind fit into `most` bytes, all but those to spare: halves what `choose_dense` names.

    A file that is larger than any segment is another program's; reading it could take all memory.
    """
    found = run.list_sizes().items()
    ours = {name: size for name, size in found if SegmentName.parse(name) and size <= 2 * SEGMENT_BYTES}
    sizes = {name: size for name, size in ours.items() if name not in spare}
    while sum(sizes.values()) > most:
        name = choose_dense(sizes)
        thinned = halve(run.read(name) or b"") if name else None
        if name is None:
            return
        if thinned is None or len(thinned) >= sizes[name]:
            # A segment that cannot be thinned keeps its size, so the others have less room.
            most -= sizes.pop(name)
        else:
            run.write(name, thinned)
            sizes[name] = len(thinned)


def choose_dense(sizes: Mapping[str, int]) -> Optional[str]:
    """Returns the oldest of those that were halved least often, by their size; so the run's curve thins out evenly."""
    parsed = [(name, SegmentName.parse(name), size.bit_length()) for name, size in sizes.items()]
    least = max((length for _, _, length in parsed), default=0)
    found = [(name, text) for text, name, length in parsed if length == least and name is not None]
    if found:
        return min(found)[1]
    return None


def halve(data: bytes) -> Optional[bytes]:
    """Returns the segment with every second of its records, the first one among them; None if it is none of ours."""
    first, *lines = data.split(b"\n")
    header = Header.parse(first)
    if header is None:
        return None
    records = [line for line in lines if read_line(line) is not None]
    kept = [line + b"\n" for line in records[::2]]
    return b"".join([replace(header, every=header.every * 2).to_line(), *kept])


def choose_spool(temp: Path, *, fit: int = 1, is_own: bool = True) -> Path:
    """Returns the pod's folder for the segments of a fit(); what the job's own run lacks, the driver completes."""
    return temp / "history" / ("own" if is_own else f"fit-{fit}")
