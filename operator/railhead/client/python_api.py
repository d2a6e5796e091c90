"""`Client`: the commands as Python calls, for scripts and notebooks.

Each call opens a connection and closes it, as a command does, so there is nothing to close. Interrupting a call never
changes the job.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from railhead.api.status import JobStatus, parse_status
from railhead.client.cluster.connection import Cluster, Target, open_cluster
from railhead.client.cluster.waiting import wait_for
from railhead.client.event_loop import Drain, Put, iterate_apart, run_apart
from railhead.client.exit_codes import ClientError as ClientError
from railhead.client.exit_codes import ExitCode
from railhead.client.explain.why import Finding, explain_job
from railhead.client.goals import GOALS, Goal
from railhead.client.run.checkpoints import CheckpointRow, choose_checkpoint
from railhead.client.run.curves import Curve, build_curves, drop_repeated
from railhead.client.run.follow_logs import follow_logs, print_logs
from railhead.client.run.log_reader import Printer, Wanted
from railhead.client.run.open_run import open_run
from railhead.client.run.run_files import RunFiles
from railhead.client.run.run_results import download_checkpoint, find_best, read_checkpoints, read_metrics
from railhead.client.submit.function_source import find_source
from railhead.client.submit.spec_changes import merge
from railhead.client.submit.submission import build_job, check_existing, mark
from railhead.client.submit.suspension import resume, suspend
from railhead.json_object import Object

log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Client:
    """A cluster and a namespace; by default those of the kubeconfig's current context.

    The cluster of `railhead local up` is one like any other: set KUBECONFIG, or pass `kubeconfig`.
    """

    def __init__(
        self, *, context: str | None = None, namespace: str | None = None, kubeconfig: str | Path | None = None
    ) -> None:
        self._target = Target(str(kubeconfig) if kubeconfig else None, context, namespace)

    def submit(
        self,
        function: Callable[..., object],
        *,
        name: str,
        image: str,
        storage: str,
        workers: int = 1,
        gpus: int = 0,
        config: Mapping[str, Any] | None = None,
        spec: Object | None = None,
    ) -> Job:
        """Creates a TrainJob that runs the function on each worker; the same job a second time is no error.

        The pods get the source of the function's module or notebook cell, not the function's values.

        Args:
            image: has Ray and the packages that the source imports.
            storage: spec.run.storagePath, for example s3://bucket/runs; or pvc:NAME/PATH, a folder of a claim.
            gpus: per worker.
            config: the argument of the function, of JSON's types: spec.trainer.trainLoopConfig.
            spec: other fields of spec, merged into what the arguments say; None removes a field.

        Raises:
            ClientError: the pods could not import the function, the API server refuses the job, or another job has
                the name.
        """
        source = find_source(function)
        target = f"{source.module}.py:{source.function}"
        job = build_job(target, source.code, image=image, storage=storage, name=name, workers=workers, gpus=gpus)
        trainer: Object = {"trainer": {"trainLoopConfig": dict(config)}} if config else {}
        job = mark({**job, "spec": merge(merge(job["spec"], trainer), spec or {})})
        return run_apart(_call(self._target, lambda cluster: self._create(cluster, job)))

    def get(self, name: str) -> Job:
        """Returns the TrainJob. Raises ClientError."""
        return _identify(self._target, run_apart(_call(self._target, lambda cluster: cluster.get_job(name))))

    def list(self, selector: str = "") -> Sequence[Job]:
        """Returns the TrainJobs of the namespace with these labels, such as team=a, by name. Raises ClientError."""

        async def find(cluster: Cluster) -> Sequence[Job]:
            jobs = await cluster.list_jobs(selector, partial(_identify, self._target))
            return sorted(jobs, key=attrgetter("name"))

        return run_apart(_call(self._target, find))

    async def _create(self, cluster: Cluster, job: Object) -> Job:
        existing = await cluster.find_job(job["metadata"]["name"])
        if existing is None:
            return _identify(self._target, await cluster.create_job(job))
        log.info(check_existing(job, existing))
        return _identify(self._target, existing)


@dataclass(frozen=True)
class Job:
    """A TrainJob. Another job that has its name later is not this one.

    Every method and `status` ask the cluster, and raise ClientError if it refuses or does not answer.
    """

    name: str
    namespace: str
    uid: str
    _target: Target = field(repr=False)

    @property
    def status(self) -> JobStatus:
        """Returns the status now."""
        return parse_status(run_apart(_call(self._target, self._get)).get("status"))

    def why(self) -> Sequence[Finding]:
        """Returns why the job waits, is slow, hangs or failed, and what to do; the first finding explains its state."""

        async def explain(cluster: Cluster, _: Object) -> Sequence[Finding]:
            return explain_job(await cluster.read_snapshot(self.name))

        return self._run(explain)

    def wait(self, goal: Goal = "finished", *, timeout: float | None = None) -> JobStatus:
        """Waits until the job is there, and returns its status.

        Args:
            goal: finished, succeeded, failed, running, suspended, or checkpoint: it has one.
            timeout: in seconds; None = no limit.

        Raises:
            ClientError: it has failed or will never be there, or the timeout has passed. With the goal `failed` a
                failure is no error.
        """
        if goal not in GOALS:
            raise ClientError(f"cannot wait for {goal!r}; use one of {', '.join(GOALS)}")

        async def wait(cluster: Cluster, _: Object) -> JobStatus:
            ending = await wait_for(cluster, self.name, goal, timeout=timeout, echo=log.info)
            if not ending.is_reached:
                raise ClientError(ending.message)
            return parse_status((await self._get(cluster)).get("status"))

        return self._run(wait)

    def logs(
        self,
        *,
        follow: bool = False,
        rank: int | None = None,
        all_pods: bool = False,
        tail: int | None = None,
        since: int | None = None,
    ) -> Iterator[str]:
        """Yields the lines of the head pod, which has those that ranks print, as the pods wrote them.

        Args:
            follow: wait for pods and lines until the job has finished.
            rank: the lines of this rank only, from the worker pods.
            all_pods: the lines of all pods, each with its pod.
            tail: at most that many of each pod so far.
            since: those of the last seconds of each pod so far.

        Remarks, for example about a pod that waits, are warnings of the logger `railhead.client.python_api`.
        """

        async def read(cluster: Cluster, put: Put[str], drain: Drain) -> None:
            await self._get(cluster)
            wanted = Wanted(rank, all_pods, tail, since)
            printer = Printer(put, log.warning, drain)
            if follow:
                await follow_logs(cluster, self.name, wanted, printer)
            elif not await print_logs(cluster, self.name, wanted, printer):
                log.warning("%s has no such pod; `railhead logs` reads what the archive has", self.name)

        return iterate_apart(lambda put, drain: _call(self._target, lambda cluster: read(cluster, put, drain)))

    def metrics(self, *names: str) -> Mapping[str, Curve]:
        """Returns what rank 0 has reported, a curve per metric, all of them if none is named; also after the run.

        What is missing is a warning of the logger `railhead.client.python_api`.
        """

        async def read(files: RunFiles, _: Object) -> Mapping[str, Curve]:
            reports, gaps = await read_metrics(files, self.name, names)
            for gap in gaps:
                log.warning(gap)
            return {curve.metric: curve for curve in build_curves(drop_repeated(reports))}

        return self._read_run(read)

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Returns the checkpoints that the run's folder has, the oldest first."""
        return [Checkpoint(row, self) for row in self._read_run(_read_checkpoints)]

    @property
    def checkpoint(self) -> Checkpoint:
        """Returns the best checkpoint by spec.run.checkpoint.scoreAttribute, without that the newest."""
        return Checkpoint(choose_checkpoint(self._read_run(_read_checkpoints), ""), self)

    def suspend(self) -> None:
        """Lets the job commit a last checkpoint and release its pods; `wait("suspended")` waits for that."""
        self._run(lambda cluster, _: suspend(cluster, self.name))

    def resume(self, changes: Object | None = None) -> None:
        """Resumes the job from its last checkpoint, with these changes of its spec; None removes a field."""
        self._run(lambda cluster, _: resume(cluster, self.name, changes or {}))

    def delete(self) -> None:
        """Deletes the job if it still exists. Its checkpoints stay in the storage."""
        run_apart(_call(self._target, lambda cluster: cluster.delete_job(self.name, self.uid, self.namespace)))

    def _run(self, ask: Callable[[Cluster, Object], Awaitable[Result]]) -> Result:
        """Returns the answer about the job, which is read first. Raises ClientError if it is another one by now."""

        async def read_and_ask(cluster: Cluster) -> Result:
            return await ask(cluster, await self._get(cluster))

        return run_apart(_call(self._target, read_and_ask))

    def _read_run(self, read: Callable[[RunFiles, Object], Awaitable[Result]]) -> Result:
        async def open_and_read(cluster: Cluster, job: Object) -> Result:
            async with open_run(cluster, job, log.info) as files:
                return await read(files, job)

        return self._run(open_and_read)

    async def _get(self, cluster: Cluster) -> Object:
        job = await cluster.get_job(self.name)
        if job["metadata"]["uid"] != self.uid:
            raise ClientError(f"{self.name} was deleted, and another job has its name", ExitCode.NOT_FOUND)
        return job


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a job's run, as `info` describes it."""

    info: CheckpointRow
    _job: Job = field(repr=False)

    def download(self, folder: str | Path) -> Path:
        """Copies the files into a new or empty folder, and returns that. Nothing is loaded. Raises ClientError."""
        into = Path(folder)

        async def copy(files: RunFiles, job: Object) -> None:
            async def read_best() -> str:
                return find_best(job)

            await download_checkpoint(files, read_best, self.info.name, into, log.info)

        self._job._read_run(copy)
        return into


async def _read_checkpoints(files: RunFiles, job: Object) -> Sequence[CheckpointRow]:
    return await read_checkpoints(files, find_best(job))


def _identify(target: Target, job: Object) -> Job:
    metadata = job["metadata"]
    namespace = str(metadata["namespace"])
    return Job(str(metadata["name"]), namespace, str(metadata["uid"]), replace(target, namespace=namespace))


async def _call(target: Target, ask: Callable[[Cluster], Awaitable[Result]]) -> Result:
    async with open_cluster(target) as cluster:
        return await ask(cluster)
