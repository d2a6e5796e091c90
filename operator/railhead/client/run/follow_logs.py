"""Follows the logs of a job's pods: of pods that wait, of pods that come later, and over lost connections."""

from __future__ import annotations

import asyncio
import time
from operator import attrgetter

from railhead.api import names
from railhead.api.status import parse_status
from railhead.client.cluster.connection import Cluster, explain_error, explaining
from railhead.client.cluster.job_snapshot import PodState
from railhead.client.exit_codes import ClientError, ExitCode
from railhead.client.run.log_reader import THROWN_AWAY, LogReader, Printer, Wanted
from railhead.json_object import Object
from railhead.kube.errors import KubeError
from railhead.together import run_together

# About as often a kubelet checks the size of a log.
STALL_SECONDS = 10.0


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
    for pod in sorted(chosen, key=attrgetter("slot", "name")):
        try:
            await LogReader(cluster, wanted, printer, pod, wanted.list_limits()).read_once()
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


class _Follower:
    """Starts a reader for each pod, and ends when the job has."""

    def __init__(self, cluster: Cluster, wanted: Wanted, printer: Printer, job: Object) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._printer = printer
        self._job = job
        self._name = str(job["metadata"]["name"])
        self._uid = str(job["metadata"]["uid"])
        self._readers: dict[str, tuple[LogReader, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()
        self._is_over = False
        self._phase = ""

    async def run(self) -> None:
        for pod in await self._cluster.list_pods(self._uid):
            limits = self._wanted.list_limits() if pod.phase != "Pending" else {}
            # Before the watch of the job may say that it has finished.
            self._on_pod(None, pod, limits=limits)
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
        reader = LogReader(self._cluster, self._wanted, self._printer, new, limits or {})
        task = asyncio.ensure_future(reader.follow(lambda: self._is_over))
        task.add_done_callback(lambda _: self._news.set())
        self._readers[new.name] = (reader, task)
