"""The lines of a job's logs on their way to one viewer: a bounded number, the newest where there are too many."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from railhead.client.exit_codes import ClientError
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.open_run import ReaderNeeded
from railhead.client.run.read_archive import find_archive, read_archive
from railhead.client.ui.look import show
from railhead.client.ui.page_source import PageSource, TrainJobName
from railhead.json_object import Object

# Lines that the browser has not taken, while more are being read.
MOST_WAITING = 2000
MOST_LINES = 20_000  # that are shown, the newest ones
MOST_CHARACTERS = 4000  # of a line
FIRST_LINES = 5000  # of each pod that has run before
TOGETHER_SECONDS = 0.3
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?)"
)  # colours, and orders to a terminal


@dataclass(frozen=True)
class LogWish:
    """Which lines a viewer wants.

    Attributes:
        rank: None = those of the head pod.
        is_all: those of all pods.
        attempt: of the archive; None = the pods' own logs, live.
    """

    rank: int | None = None
    is_all: bool = False
    attempt: int | None = None


@dataclass(frozen=True)
class LogBatch:
    """Lines that follow those before.

    Attributes:
        first: the number of the first of them.
    """

    first: int
    lines: tuple[str, ...]


Send = Callable[[LogBatch], Awaitable[None]]


class LogFeed:
    """Reads lines as fast as they are taken.

    Attributes:
        remark: what the reader says, such as that a pod waits; the newest one.
        needs_reader: whether only a reader's pod could read the archive.
    """

    def __init__(self, source: PageSource, key: TrainJobName, wish: LogWish, send: Send) -> None:
        self.remark = ""
        self.needs_reader = False
        self.is_over = False
        self._source = source
        self._key = key
        self._wish = wish
        self._send = send
        self._waiting: deque[str] = deque()
        self._taken = 0
        self._has_room = asyncio.Event()
        self._has_lines = asyncio.Event()

    async def run(self, job: Object, *, may_start_reader: bool = False) -> None:
        """Sends lines until there are no more. Raises nothing that a viewer could cause: errors are remarks."""
        sender = asyncio.create_task(self._send_lines())
        try:
            if self._wish.attempt is None:
                wanted = Wanted(self._wish.rank, self._wish.is_all, FIRST_LINES)
                await self._source.follow_logs(self._key, wanted, Printer(self._put, self._say, self._make_room))
                self._say_over()
            else:
                await self._read_archive(job, self._wish.attempt, may_start_reader)
        except ReaderNeeded as error:
            self.needs_reader = True
            self._say(str(error))
        except ClientError as error:
            self._say(str(error))
        finally:
            self.is_over = True
            self._has_lines.set()
            await sender

    async def _read_archive(self, job: Object, attempt: int, may_start_reader: bool) -> None:
        wanted = Wanted(self._wish.rank, self._wish.is_all)
        opened = self._source.open_files(job, is_own=True, may_start_reader=may_start_reader, say=self._say)
        last: deque[str] = deque(maxlen=MOST_LINES)
        count = 0
        async with opened as files:
            archive = await find_archive(files, job, attempt)
            async for line in read_archive(archive, wanted):
                last.append(line.text[:MOST_CHARACTERS])
                count += 1
                if count % MOST_WAITING == 0:
                    await asyncio.sleep(0)
        if count > len(last):
            self._say(f"these are the last {len(last)} of {count} lines; `railhead logs --attempt {attempt}` has all")
        for text in last:
            self._put(text)
            await self._make_room()

    def _put(self, text: str) -> None:
        self._waiting.append(show(_ESCAPES.sub("", text[:MOST_CHARACTERS])))
        self._has_lines.set()

    def _say(self, text: str) -> None:
        self.remark = show(text)
        self._has_lines.set()

    def _say_over(self) -> None:
        if not self._taken and not self._waiting:
            self._say("the job is over, and no pod of it has a log any more; choose an attempt of the archive")

    async def _make_room(self) -> None:
        while len(self._waiting) >= MOST_WAITING:
            self._has_room.clear()
            await self._has_room.wait()

    async def _send_lines(self) -> None:
        while True:
            await self._has_lines.wait()
            self._has_lines.clear()
            lines = tuple(self._waiting)
            self._waiting.clear()
            self._has_room.set()
            await self._send(LogBatch(self._taken, lines))
            self._taken += len(lines)
            if self.is_over and not self._waiting:
                return
            await asyncio.sleep(TOGETHER_SECONDS)
