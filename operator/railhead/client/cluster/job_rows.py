"""A TrainJob in one row, as `list` shows it. Of each job only this is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from railhead.api import conditions as types
from railhead.api.goodput import GoodputStatus
from railhead.api.scaling import DEFAULT_GPU
from railhead.api.status import JobStatus, parse_status
from railhead.contract.loss_rate import NO_JOB_LOSSES, JobLosses
from railhead.json_object import Object, part, text

UNSEEN = "(not seen)"  # phase of a job without a status


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job.

    Attributes:
        progress: such as 42%, or the step; "" = not known.
        remaining: such as 3h20m; "" = not known.
        waits_for: why it does not train or what is wrong; "" = nothing.
        created: RFC 3339.
        workers: worker pods, as running/wanted; "" = none are wanted.
        checkpoint: URI of the newest one.
        goodput: status.goodput.percent, such as 93.1%; "" = not known.
        gpus: of its running worker pods.
    """

    namespace: str
    name: str
    phase: str
    progress: str
    remaining: str
    attempt: int
    waits_for: str
    created: str
    workers: str
    head: str
    checkpoint: str
    goodput: str
    gpus: int


@dataclass(frozen=True, slots=True)
class JobNumbers:
    """One job with the numbers behind the texts of its row, by which a page sorts.

    Attributes:
        uid: another one: the job was deleted and made again.
        percent: of the run that is done, 0 to 100; None = not known.
        step: None = not known.
        remaining_seconds: None = not known, or the job has finished.
        goodput: percentage of its time; None = not known.
        wall_seconds: the time that goodput is of.
        losses: in no column, so that a record that differs in nothing else is not news.
    """

    row: JobRow
    uid: str
    percent: int | None
    step: int | None
    remaining_seconds: int | None
    goodput: float | None
    wall_seconds: int
    losses: JobLosses = field(default=NO_JOB_LOSSES, compare=False)


def read_record(job: Object) -> JobNumbers:
    """Returns the record of a TrainJob."""
    status = parse_status(job.get("status"))
    spent = status.goodput or GoodputStatus()
    remaining = None
    if is_estimate_valid(status):
        remaining = status.progress.estimated_remaining_seconds
    return JobNumbers(
        row=_read_row(job, status),
        uid=text(job["metadata"], "uid"),
        percent=status.progress.percent_complete,
        step=status.progress.step,
        remaining_seconds=remaining,
        goodput=read_number(spent.percent),
        wall_seconds=spent.wall_seconds,
        losses=status.losses,
    )


def read_number(value: str | None) -> float | None:
    """Returns the finite number that the text is; None for any other text."""
    try:
        number = float(value or "")
    except ValueError:
        return None
    if math.isfinite(number):
        return number
    return None


def read_row(job: Object) -> JobRow:
    """Returns the row of a TrainJob."""
    return _read_row(job, parse_status(job.get("status")))


def _read_row(job: Object, status: JobStatus) -> JobRow:
    metadata = job["metadata"]
    return JobRow(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        phase=status.phase or UNSEEN,
        progress=describe_progress(status),
        remaining=describe_remaining(status),
        attempt=status.attempt,
        waits_for=find_obstacle(status),
        created=text(metadata, "creationTimestamp"),
        workers=describe_workers(status),
        head=status.head.pod,
        checkpoint=status.checkpoint.uri if status.checkpoint else "",
        goodput=describe_goodput(status),
        gpus=count_gpus(part(part(job, "spec"), "scaling"), status.workers.ready),
    )


def count_gpus(scaling: Object, pods: int) -> int:
    """Returns the GPUs of so many worker pods."""
    if scaling.get("useGPU") is not True:
        return 0
    amount = part(scaling, "resourcesPerWorker").get(text(scaling, "gpuResourceName") or DEFAULT_GPU, 1)
    # the CRD has whole numbers only
    per_worker = 1
    if str(amount).isdecimal():
        per_worker = int(amount)
    return pods * int(scaling.get("workersPerPod") or 1) * per_worker


def describe_progress(status: JobStatus) -> str:
    """Returns the percentage, else the step, else nothing."""
    progress = status.progress
    if progress.percent_complete is not None:
        return f"{progress.percent_complete}%"
    if progress.step is not None:
        return f"step {progress.step}"
    return ""


def describe_remaining(status: JobStatus) -> str:
    """Returns the remaining time, such as 3h20m; "" if it is not known."""
    if not is_estimate_valid(status):
        return ""
    return status.progress.remaining or ""


def is_estimate_valid(status: JobStatus) -> bool:
    """Returns whether the remaining time may be shown: it is from the last step, after which a job that hangs makes
    none."""
    return not status.is_finished and not status.has_condition(types.HANG_SUSPECTED)


def needs_pods(status: JobStatus) -> bool:
    """Returns whether the job should have worker pods now. One that has ended, is suspended or is queued should have
    none."""
    return bool(status.workers.desired) and not status.is_finished and not status.is_resting


def describe_workers(status: JobStatus) -> str:
    """Returns how many of the worker pods are ready, such as 3/4; "" where there should be none."""
    if not needs_pods(status):
        return ""
    return f"{status.workers.ready}/{status.workers.desired}"


def describe_goodput(status: JobStatus) -> str:
    """Returns the percentage of the job's time that was productive; "" if it is not known."""
    if status.goodput and status.goodput.percent:
        return f"{status.goodput.percent}%"
    return ""


def find_obstacle(status: JobStatus) -> str:
    """Returns the reason why the job does not train, or of a condition that hinders it; "" if there is none."""
    if status.has_condition(types.FAILED):
        return status.reason_of(types.FAILED) or ""
    queued = (types.SUSPENDED,) if status.phase == "Queued" else ()
    hindering = (types.HANG_SUSPECTED, types.STORAGE_UNAVAILABLE, types.METRIC_RULE_FIRED)
    for type_ in (types.STALLED, types.RECONCILING, *queued, *hindering):
        reason = status.reason_of(type_)
        if reason and reason != status.phase and status.has_condition(type_):
            return reason
    return ""
