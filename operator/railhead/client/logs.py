"""Follows the logs of a job's pods: of pods that wait, of pods that come later, and over lost connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from railhead.api import names
from railhead.api.base import Object
from railhead.api.status import parse_status
from railhead.client.cluster import Cluster, explain_error, explaining
from railhead.client.errors import ClientError, ExitCode
from railhead.client.log_lines import Position, read_rank
from railhead.client.snapshot import PodState
from railhead.kube.client import STREAM_SILENT
from railhead.kube.errors import Denied, Gone, KubeError, RetryAfter
from railhead.together import run_together

RETRY_SECONDS = 1.0
STALL_SECONDS = 10.0  # about as often a kubelet checks the size of a log
MOST_REFUSALS = 10  # in a row, of a log that was read before: an API server that starts does not know all rights yet
MOST_TRIES_AFTER_THE_END = 5  # of a log that cannot be read, for example of a node that is lost
THROWN_AWAY = "its node keeps only the end of a long log"
Echo = Callable[[str], None]


async def _continue() -> None:
    """What is printed needs no pause."""


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
        """Whether the pod may have such lines."""
        return self.is_all or pod.role == (names.HEAD if self.rank is None else names.WORKER)

    def choose(self, text: str, pod: PodState) -> str | None:
        """Returns the line as it is shown, None if it is not wanted."""
        if self.rank is not None and read_rank(text) != self.rank:
            return None
        place = names.HEAD if pod.slot < 0 else f"w{pod.slot}"
        return f"[{place}] {text}" if self.is_all else text


@dataclass(frozen=True)
class Printer:
    """Where lines and remarks go.

    Attributes:
        drain: awaited after each line; returns when the next one may come.
    """

    line: Echo
    remark: Echo
    drain: Callable[[], Awaitable[object]] = _continue


async def print_logs(
    cluster: Cluster, name: str, wanted: Wanted, printer: Printer, *, attempt: int | None = None
) -> bool:
    """Prints what the logs of an attempt's pods have now, the newest attempt's by default.

    Returns:
        Whether there are such pods.

    Raises:
        ClientError: the user may not read the job, its pods or their logs; or, once all others are printed, a log could
            not be read.
    """
    job = await cluster.get_job(name)
    pods = await cluster.list_pods(job["metadata"]["uid"])
    shown = attempt or max((pod.attempt for pod in pods), default=0)
    chosen = [pod for pod in pods if pod.attempt == shown and wanted.is_pod(pod)]
    failures: list[ClientError] = []
    for pod in sorted(chosen, key=lambda each: (each.slot, each.name)):
        try:
            await _Reader(cluster, wanted, printer, pod, wanted.list_limits()).read_once()
        except KubeError as error:
            if error.status == 400:
                printer.remark(f"pod {pod.name} has no log yet: {error.message}")
                continue
            failure = explain_error(error, f"read the log of pod {pod.name}")
            if failure.code == ExitCode.DENIED:
                raise failure from None
            failures.append(failure)
            if len(chosen) > 1:
                printer.remark(str(failure))
    if wanted.is_all and {pod.role for pod in chosen} == {names.HEAD}:
        printer.remark(f"attempt {shown} has no worker pods now; --rank R reads what the archive has of a rank")
    if failures:
        message = f"{len(failures)} of {len(chosen)} logs could not be read; see the errors above"
        raise failures[0] if len(chosen) == 1 else ClientError(message, failures[0].code)
    return bool(chosen)


async def follow_logs(cluster: Cluster, name: str, wanted: Wanted, printer: Printer) -> None:
    """Prints the logs of the job's pods, and of those to come, until the job has finished or is deleted.

    Raises:
        ClientError: there is no such job, or the user may not read it, its pods or their logs.
    """
    follower = _Follower(cluster, wanted, printer, await cluster.get_job(name))
    await follower.run()


class _Reader:
    """Reads the log of one pod; `limits`: options of the first request."""

    def __init__(
        self, cluster: Cluster, wanted: Wanted, printer: Printer, pod: PodState, limits: dict[str, str]
    ) -> None:
        self.pod = pod
        self.changed = asyncio.Event()
        self._cluster, self._wanted, self._printer, self._limits = cluster, wanted, printer, limits
        self._position = Position()
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
                refusals, is_interrupted = 0, False
            except Gone:
                if is_interrupted:
                    self._printer.remark(f"pod {self.pod.name} is gone, and the end of its log was not read")
                return
            except Denied as error:
                if error.status == 400:
                    if has_ended:  # its container has never started
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


class _Follower:
    """Starts a reader for each pod, and ends when the job has."""

    def __init__(self, cluster: Cluster, wanted: Wanted, printer: Printer, job: Object) -> None:
        self._cluster, self._wanted, self._printer = cluster, wanted, printer
        self._job = job
        self._name, self._uid = str(job["metadata"]["name"]), str(job["metadata"]["uid"])
        self._readers: dict[str, tuple[_Reader, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()
        self._is_over = False
        self._phase = ""

    async def run(self) -> None:
        for pod in await self._cluster.list_pods(self._uid):
            limits = self._wanted.list_limits() if pod.phase != "Pending" else {}
            self._on_pod(None, pod, limits=limits)  # before the watch of the job may say that it has finished
        with explaining(f"follow the logs of {self._name}"):
            await run_together(
                self._cluster.watch_pods(self._uid, self._on_pod),
                self._cluster.watch_job(self._job, self._on_job),
                self._tell_stalls(),
                self._await_readers(),
            )

    async def _await_readers(self) -> None:
        """Returns once the job is over and all logs are read. Raises the error of a reader."""
        try:
            while not self._is_over or any(not task.done() for _, task in self._readers.values()):
                await self._news.wait()
                self._news.clear()
                for _, task in self._readers.values():
                    if task.done():
                        task.result()
        finally:
            tasks = [task for _, task in self._readers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell_stalls(self) -> None:
        """Says that the command was stopped, or that its output was not taken: nodes throw lines away meanwhile."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(1)
            seconds = time.monotonic() - before - 1
            if seconds > STALL_SECONDS:
                stall = f"this command stood still for {seconds:.0f} s"
                self._printer.remark(f"{stall}; lines may be missing: {THROWN_AWAY}")

    def _on_job(self, _: Object | None, new: Object | None) -> None:
        status = parse_status(new.get("status")) if new is not None else None
        is_ours = new is not None and new["metadata"]["uid"] == self._uid
        if status is None or not is_ours:
            self._printer.remark(f"{self._name} was deleted")
            self._is_over = True
        elif status.is_finished:
            self._is_over = True
        elif status.phase != self._phase and not self._readers:
            self._printer.remark(f"{self._name} is {status.phase or 'new'}; waiting for its pods")
        self._phase = status.phase if status is not None else ""
        self._news.set()

    def _on_pod(self, _: PodState | None, new: PodState | None, *, limits: dict[str, str] | None = None) -> None:
        if new is None or not self._wanted.is_pod(new):
            return
        known = self._readers.get(new.name)
        if known is not None:
            known[0].pod = new
            known[0].changed.set()
            return
        reader = _Reader(self._cluster, self._wanted, self._printer, new, limits or {})
        task = asyncio.ensure_future(reader.follow(lambda: self._is_over))
        task.add_done_callback(lambda _: self._news.set())
        self._readers[new.name] = (reader, task)
