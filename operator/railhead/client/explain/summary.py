"""The screen of `railhead status`: what a job does, and what to do next. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.alias_generators import to_camel

from railhead.api.status import JobStatus
from railhead.client.cluster.job_rows import describe_goodput, describe_progress, describe_remaining, needs_pods
from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.timeline import describe_end
from railhead.client.explain.why import Finding, explain_job
from railhead.contract.times import describe_age, format_duration

MOST_EVENTS = 5
MOST_PODS = 8
MOST_CAUSES = 3  # of lost time


@dataclass(frozen=True)
class Fact:
    """A line of the screen: its name, and the text after it."""

    name: str
    value: str


@dataclass(frozen=True)
class Section:
    """A title, and lines below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class JobScreen:
    """One job. `notes`: what could not be read, as sentences."""

    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def summarize(snapshot: JobSnapshot) -> JobScreen:
    """Returns the screen of one job."""
    sections = (_attempts(snapshot), _pods(snapshot), _events(snapshot))
    return JobScreen(
        facts=tuple(Fact(name, value) for name, value in _facts(snapshot) if value),
        sections=tuple(each for each in sections if each.lines),
        findings=tuple(explain_job(snapshot)),
        notes=snapshot.notes,
    )


def _facts(snapshot: JobSnapshot) -> list[tuple[str, str]]:
    status = snapshot.status
    progress = snapshot.status.progress
    steps = ""
    if progress.step and progress.total_steps:
        steps = f"{progress.step} of {progress.total_steps}"
    if progress.steps_per_second:
        rates = [f"{progress.steps_per_second} steps/s"]
    else:
        rates = []
    rates += [f"{progress.tokens_per_second} tokens/s"] if progress.tokens_per_second else []
    age = describe_age(str(snapshot.job["metadata"].get("creationTimestamp") or ""), snapshot.now)
    return [
        ("Job", f"{snapshot.namespace}/{snapshot.name}, created {age} ago"),
        ("Phase", (status.phase or "(not seen by an operator)") + (", being deleted" if snapshot.is_deleting else "")),
        ("Progress", ", ".join(each for each in (describe_progress(status), steps) if each)),
        ("Remaining", describe_remaining(status)),
        ("Rate", ", ".join(rates)),
        ("Goodput", _describe_goodput(status)),
        ("GPU hours", _describe_gpu_hours(status)),
        ("Metrics", ", ".join(f"{key} {value}" for key, value in sorted(progress.metrics.items())[:8])),
        ("Workers", _describe_workers(status)),
        ("Head", f"{status.head.pod} on {status.head.node or '(no node)'}" if status.head.pod else ""),
        ("Checkpoint", _describe_checkpoint(snapshot)),
        ("Best", status.best_checkpoint.uri if status.best_checkpoint else ""),
        ("Resumed from", status.resumed_from.uri if status.resumed_from else ""),
        ("Run", status.run_uri),
        ("Tracker", status.tracker_url),
    ]


def _describe_workers(status: JobStatus) -> str:
    if not needs_pods(status):
        return ""
    workers = status.workers
    return f"{workers.ready} of {workers.desired} pods up, {workers.joined} joined"


def _describe_goodput(status: JobStatus) -> str:
    """Returns the percentage of the time until the last settlement, and what most of the other time was lost to."""
    if status.goodput is None:
        return ""
    lost = sorted(((seconds, cause) for cause, seconds in status.goodput.lost_seconds if seconds), reverse=True)
    causes = ", ".join(f"{to_camel(cause)} {format_duration(seconds)}" for seconds, cause in lost[:MOST_CAUSES])
    percent = f"{describe_goodput(status)} of {format_duration(status.goodput.wall_seconds)}"
    return percent + (f"; lost: {causes}" if causes else "")


def _describe_gpu_hours(status: JobStatus) -> str:
    spent = status.goodput
    if spent is None or not spent.gpu_seconds:
        return ""
    return f"{spent.gpu_seconds / 3600:.2f}, of which {spent.lost_gpu_seconds / 3600:.2f} were lost"


def _describe_checkpoint(snapshot: JobSnapshot) -> str:
    newest = snapshot.status.checkpoint
    if newest is None:
        if snapshot.status.attempt:
            return "none yet"
        return ""
    age = describe_age(newest.time or "", snapshot.now)
    return f"{newest.index}" + (f", {age} ago" if age else "") + f": {newest.uri}"


def _attempts(snapshot: JobSnapshot) -> Section:
    restarts = snapshot.status.restarts
    counts = f"application {restarts.application}, disruptions {restarts.disruptions}"
    lines = [f"{each.number}: {describe_end(each)}" for each in snapshot.status.attempts or []]
    return Section(f"Attempts (restarts counted: {counts})", tuple(lines))


def _pods(snapshot: JobSnapshot) -> Section:
    """Returns the pods of the current attempt that do not run; of the others only the number is of interest."""
    troubled = [pod for pod in snapshot.current_pods if not pod.is_running]
    if snapshot.status.phase == "Succeeded":
        troubled = [pod for pod in troubled if pod.phase != "Succeeded"]
    lines = []
    for pod in troubled[:MOST_PODS]:
        state = "Terminating" if pod.is_deleting else pod.phase
        lines.append(f"{pod.name}: {state}" + (f", {pod.reason}" if pod.reason else ""))
    if len(troubled) > MOST_PODS:
        lines.append(f"and {len(troubled) - MOST_PODS} more")
    return Section("Pods that do not run", tuple(lines))


def _events(snapshot: JobSnapshot) -> Section:
    lines = []
    for event in snapshot.events[-MOST_EVENTS:]:
        age = "at an unknown time"
        if event.at:
            age = f"{describe_age(event.at.isoformat(), snapshot.now)} ago"
        lines.append(f"{age}: {event.reason}: {event.message}")
    return Section("Last events", tuple(lines))
