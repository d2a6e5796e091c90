"""Reads the log of one pod, and resumes after each break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from railhead.api import names
from railhead.client.cluster.connection import Cluster
from railhead.client.cluster.job_snapshot import PodState
from railhead.client.run.log_lines import LogPosition, read_rank
from railhead.kube.client import STREAM_SILENT
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter

RETRY_SECONDS = 1.0
# In a row, of a log that was read before: an API server that starts does not know all rights yet.
MOST_REFUSALS = 10
MOST_TRIES_AFTER_THE_END = 5  # of a log that cannot be read, for example of a node that is lost
THROWN_AWAY = "its node keeps only the end of a long log"
Echo = Callable[[str], None]


async def _continue() -> None:
    """Needs no pause: what is printed is gone at once."""


@dataclass(frozen=True)
class Wanted:
    """The lines that a user wants.

    Attributes:
        rank: those of this rank, from the worker pods; None = those of the head pod.
        is_all: those of all pods.
        tail: at most that many of each pod that has run before the command; None = all.
        since: those of the last seconds of each such pod; None = all.
    """

    rank: int | None = None
    is_all: bool = False
    tail: int | None = None
    since: int | None = None

    def list_limits(self) -> dict[str, str]:
        """Returns the API server's options for a pod that has run before the command."""
        limits = {"tailLines": self.tail, "sinceSeconds": self.since or None}
        return {name: str(limit) for name, limit in limits.items() if limit is not None}

    def is_pod(self, pod: PodState) -> bool:
        """Returns whether the pod may have such lines."""
        return self.is_all or pod.role == (names.HEAD if self.rank is None else names.WORKER)

    def choose(self, text: str, pod: PodState) -> str | None:
        """Returns the line as it is shown, None if it is not wanted."""
        if self.rank is not None and read_rank(text) != self.rank:
            return None
        place = names.HEAD if pod.slot < 0 else f"w{pod.slot}"
        if self.is_all:
            return f"[{place}] {text}"
        return text


@dataclass(frozen=True)
class Printer:
    """Where lines and remarks go.

    Attributes:
        drain: awaited after each line; returns when the next one may come.
    """

    line: Echo
    remark: Echo
    drain: Callable[[], Awaitable[object]] = _continue


class LogReader:
    """Reads the log of one pod; `limits`: options of the first request."""

    def __init__(
        self, cluster: Cluster, wanted: Wanted, printer: Printer, pod: PodState, limits: dict[str, str]
    ) -> None:
        self.pod = pod
        self.changed = asyncio.Event()
        self._cluster = cluster
        self._wanted = wanted
        self._printer = printer
        self._limits = limits
        self._position = LogPosition()
        self._remark = ""

    async def read_once(self, *, follow: bool = False, with_rest: bool = True) -> int:
        """Prints new lines up to the end of the log as it is, or as it grows; `with_rest`: also one without its end.

        Returns:
            How many lines were new.

        Raises:
            KubeError: the log cannot be read, or the connection is lost.
        """
        query = {"container": names.CONTAINER, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        query |= {"sinceTime": self._position.since} if self._position.since else self._limits
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods/{self.pod.name}/log?{urlencode(query)}"
        self._position.begin()
        new = 0
        async for line in self._cluster.client.stream_lines(path, with_rest=with_rest and not follow):
            before = self._position.since
            text = self._position.take(line)
            if text is None:
                continue
            new += 1
            if "sinceSeconds" in self._limits and not self._position.since:
                self._say(f"the node of pod {self.pod.name} sends no times, so all lines are shown")
            if self._position.is_torn:
                self._printer.remark(f"lines of pod {self.pod.name} after {before} may be missing: {THROWN_AWAY}")
            shown = self._wanted.choose(text, self.pod)
            if shown is not None:
                self._printer.line(shown)
                await self._printer.drain()
        return new

    async def _read_to_the_end(self) -> None:
        """Prints the rest of a log that does not grow. An API server ends its answer as usual where that of the node
        breaks off, so that only an answer without news shows the end."""
        while await self.read_once(with_rest=False):
            pass
        await self.read_once()

    async def follow(self, is_over: Callable[[], bool]) -> None:
        """Prints lines until the pod's container has ended or the pod is gone, `is_over`: the job has finished.

        A log that cannot be read, for example of a lost node, is given up soon after the job has finished.

        Raises:
            Denied: the user has no right to read the log.
        """
        tries = refusals = 0
        is_interrupted = False
        while True:
            has_ended = self.pod.phase in ("Succeeded", "Failed")
            self.changed.clear()
            try:
                if has_ended:
                    await self._read_to_the_end()
                    return
                await self.read_once(follow=True)
                refusals = 0
                is_interrupted = False
            except Gone:
                if is_interrupted:
                    self._printer.remark(f"pod {self.pod.name} is gone, and the end of its log was not read")
                return
            except Denied as error:
                if error.status == 400:
                    # Its container has never started.
                    if has_ended:
                        return
                    self._say(f"pod {self.pod.name} waits: {self.pod.reason or error.message}")
                else:
                    refusals += 1
                    if not self._position.since or refusals > MOST_REFUSALS:
                        raise
                    self._say_interrupted(error)
            except RetryAfter as error:
                tries = tries + 1 if is_over() else 0
                if tries > MOST_TRIES_AFTER_THE_END:
                    self._say(f"the end of the log of pod {self.pod.name} cannot be read ({error.message})")
                    return
                # Usual for a rank that prints nothing. The connection may be dead, so a new one reads on at once.
                if error.reason == STREAM_SILENT:
                    continue
                is_interrupted = True
                self._say_interrupted(error)
            await self._pause()

    async def _pause(self) -> None:
        """Waits for news of the pod, for a moment at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), RETRY_SECONDS)

    def _say_interrupted(self, error: KubeError) -> None:
        self._say(f"the log of pod {self.pod.name} is interrupted ({error.message}); trying again")

    def _say(self, text: str) -> None:
        if text != self._remark:
            self._remark = text
            self._printer.remark(text)
