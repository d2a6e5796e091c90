"""Describes what has changed in a job: pure functions of the old and the new object.

Used by whatever follows a job; nothing here reads a clock or does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railhead.api.conditions import Condition
from railhead.api.status import JobStatus, parse_status

Object = Mapping[str, Any]
FIRST_METRICS = ("epoch", "step", "loss", "accuracy")
TROUBLE = ("Reconciling", "Stalled")


@dataclass(frozen=True)
class JobResult:
    """How a followed job ended.

    Attributes:
        lines: the result, for a reader.
    """

    is_success: bool
    lines: tuple[str, ...]


def status_of(job: Object) -> JobStatus:
    return parse_status(job.get("status"))


def describe_job_change(old: Object, new: Object) -> list[str]:
    """A line for each change that a user waits for, those below it indented: a message of the job's code looks like
    no change."""
    was, now = status_of(old), status_of(new)
    lines = []
    if now.attempt > 1 and now.attempt != was.attempt:
        lines.append(f"attempt {now.attempt} starts" + _reason_for_attempt(now))
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
    """The usual ones first, numbers short."""
    order = [name for name in FIRST_METRICS if name in metrics]
    order += sorted(set(metrics) - set(order))
    return ", ".join(f"{name} {_short(metrics[name])}" for name in order)


def describe_pod_change(old: Object | None, new: Object | None) -> list[str]:
    """A line when a pod appears, disappears or changes its phase."""
    if new is None:
        return [f"pod {_name(old)} is gone"]
    phase = _pod_phase(new)
    return [] if old is not None and _pod_phase(old) == phase else [f"pod {_name(new)} {phase}"]


def decide_ending(job: Object) -> JobResult | None:
    """The result, once there is one. Success comes only from the status."""
    status = status_of(job)
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


def _reason_for_attempt(status: JobStatus) -> str:
    return f", because {status.failure.reason}: {status.failure.message}" if status.failure else ""


def _short(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


def _name(pod: Object | None) -> str:
    return str((pod or {}).get("metadata", {}).get("name", "?"))


def _pod_phase(pod: Object) -> str:
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return "Terminating"
    return str(pod.get("status", {}).get("phase") or "Pending")
