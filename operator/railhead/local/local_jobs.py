"""One job of `railhead local run`: finds it in its file, follows it to its end, and describes what changes.

What describes a change is a pure function of the old and the new object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railhead.api import names
from railhead.api.conditions import Condition
from railhead.api.status import JobStatus, parse_status
from railhead.client.cluster.connection import Cluster, Target, open_cluster
from railhead.client.cluster.job_snapshot import PodState
from railhead.client.exit_codes import ClientError
from railhead.client.submit.rendering import read_jobs
from railhead.json_object import Object
from railhead.local import Echo, LocalError
from railhead.together import run_together

DEFAULT_NAMESPACE = "default"
FIRST_METRICS = ("epoch", "step", "loss", "accuracy")
TROUBLE = ("Reconciling", "Stalled")


@dataclass(frozen=True)
class JobName:
    """Namespace and name that the job will have."""

    namespace: str
    name: str


@dataclass(frozen=True)
class JobResult:
    """How a followed job ended.

    Attributes:
        lines: the result, for a reader.
    """

    is_success: bool
    lines: tuple[str, ...]


def find_job(path: Path) -> JobName:
    """Returns the only TrainJob of the file, which may contain other objects too.

    Raises:
        LocalError: the file cannot be read, or it does not contain exactly one TrainJob with a name.
    """
    try:
        jobs = read_jobs(path)
    except ClientError as error:
        raise LocalError(str(error)) from None
    if len(jobs) != 1:
        raise LocalError(f"{path} contains {len(jobs)} TrainJobs of {names.API_VERSION}; `run` needs exactly one")
    metadata = jobs[0]["metadata"]
    return JobName(str(metadata.get("namespace") or DEFAULT_NAMESPACE), metadata["name"])


async def follow(kubeconfig: str, *, namespace: str, name: str, echo: Echo) -> JobResult:
    """Prints every change of the job and of its pods, until the job has ended or is deleted; returns how."""
    async with open_cluster(Target(kubeconfig, namespace=namespace)) as cluster:
        job = await cluster.find_job(name)
        if job is None:
            return JobResult(False, (f"there is no job {name} in namespace {namespace}",))
        return await _follow(cluster, job, echo)


async def _follow(cluster: Cluster, job: Object, echo: Echo) -> JobResult:
    uid = job["metadata"]["uid"]
    ending: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()

    def on_job(old: Object | None, new: Object | None) -> None:
        if ending.done():
            return
        if new is None or new["metadata"]["uid"] != uid:
            ending.set_result(JobResult(False, ("the job was deleted",)))
            return
        for line in describe_job_change(old or {}, new):
            echo(line)
        end = decide_ending(new)
        if end is not None:
            ending.set_result(end)

    def on_pod(old: PodState | None, new: PodState | None) -> None:
        for line in [] if ending.done() else describe_pod_change(old, new):
            echo(line)

    # A watch ends only with an error.
    await run_together(cluster.watch_job(job, on_job), cluster.watch_pods(uid, on_pod), ending)
    return ending.result()


def describe_job_change(old: Object, new: Object) -> list[str]:
    """Returns a line for each change that a user waits for, with further lines indented: a message of the job's code
    looks like no change."""
    was = parse_status(old.get("status"))
    now = parse_status(new.get("status"))
    lines = []
    if now.attempt > 1 and now.attempt != was.attempt:
        why = ""
        if now.failure:
            why = f", because {now.failure.reason}: {now.failure.message}"
        lines.append(f"attempt {now.attempt} starts{why}")
    news = [c for c in _troubles(now) if c.message not in {old.message for old in _troubles(was)}]
    if now.phase and now.phase != was.phase:
        about = [c.message for c in news if c.reason == now.phase]
        lines.append(": ".join([f"phase {now.phase}", *about]))
        news = [c for c in news if c.reason != now.phase]
    lines += [f"waiting: {c.reason}: {c.message}" for c in news]
    if now.progress.metrics and now.progress != was.progress and now.progress.reports != was.progress.reports:
        lines.append(f"report {now.progress.reports}: {describe_metrics(now.progress.metrics)}")
    if now.checkpoint and (not was.checkpoint or was.checkpoint.index != now.checkpoint.index):
        lines.append(f"checkpoint {now.checkpoint.index}: {now.checkpoint.uri}")
    return [line.replace("\n", "\n  ") for line in lines]


def describe_metrics(metrics: Mapping[str, str]) -> str:
    """Writes the usual ones first, and numbers short."""
    order = [name for name in FIRST_METRICS if name in metrics]
    order += sorted(set(metrics) - set(order))
    return ", ".join(f"{name} {_short(metrics[name])}" for name in order)


def describe_pod_change(old: PodState | None, new: PodState | None) -> list[str]:
    """Returns a line when a pod appears, disappears or changes its phase."""
    pod = new or old
    phase = _describe_phase(new)
    if pod and phase != _describe_phase(old):
        return [f"pod {pod.name} {phase}"]
    return []


def decide_ending(job: Object) -> JobResult | None:
    """Returns the result, once there is one. Success comes only from the status."""
    status = parse_status(job.get("status"))
    if status.has_condition("Complete"):
        lines = ["succeeded"]
        if status.progress.metrics:
            lines.append(f"  last report  {describe_metrics(status.progress.metrics)}")
        if status.checkpoint:
            lines.append(f"  checkpoint   {status.checkpoint.uri}")
        return JobResult(True, tuple(lines))
    if status.has_condition("Failed"):
        return JobResult(False, ("failed", *_failure_lines(status)))
    return None


def _failure_lines(status: JobStatus) -> list[str]:
    failure = status.failure
    if failure is None:
        return [f"  {c.reason}: {c.message}" for c in status.conditions if c.type == "Failed"]
    where = f" (pod {failure.pod}, attempt {failure.attempt})" if failure.pod else ""
    return [f"  {failure.class_}: {failure.reason}{where}", *(f"  {line}" for line in failure.message.splitlines())]


def _troubles(status: JobStatus) -> list[Condition]:
    return [c for c in status.conditions if c.type in TROUBLE and c.status == "True" and c.message]


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


def _describe_phase(pod: PodState | None) -> str:
    if pod is None:
        return "is gone"
    if pod.is_deleting:
        return "Terminating"
    return pod.phase
