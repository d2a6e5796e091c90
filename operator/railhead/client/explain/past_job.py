"""A run of a storage in the shape that views of a job read: what its record says, as a TrainJob with a status. Pure.

A record is trusted in nothing but its types; an invalid part of the status counts as absent, as it does in a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from railhead.client.cluster.job_snapshot import JobSnapshot
from railhead.client.explain.causes import choose_cause
from railhead.client.explain.past_run import describe_attempt
from railhead.client.explain.summary import Fact, JobScreen
from railhead.client.explain.why import Finding
from railhead.client.run.run_list import RunGoodput, RunRow, build_row, count_goodput, list_uids_of_run
from railhead.contract.failure import FailureClass
from railhead.contract.report import NO_CHECKPOINT, CommittedCheckpoint
from railhead.contract.run_record import RecordedAttempt, RunRecord
from railhead.contract.times import describe_age, format_duration, format_time, parse_time
from railhead.json_object import Object

STATES = "how-to/find-past-runs.md#what-the-states-mean"
BEGIN_AGAIN = "To continue, submit a job whose spec.resumeFrom.checkpoint names one of its checkpoints."
MOST_CAUSES = 3  # of lost time
# By the state of a run: its cause, and what to do.
MEANINGS = {
    "Running": (
        "Its driver has given a sign of life within five minutes.",
        "Nothing; `railhead list` has its job, if that is in a cluster that you may read.",
    ),
    "Lost": (
        "Its driver has given no sign of life for five minutes, and has not told how it ended: its head pod or node is "
        "gone, or cannot reach the storage.",
        f"Look with `railhead list` whether its job begins another attempt. {BEGIN_AGAIN}",
    ),
    "Stopped": (
        "Its head received SIGTERM: the job was suspended or deleted, its head evicted, or the node drained.",
        f"Look with `railhead list` whether its job is suspended or begins another attempt. {BEGIN_AGAIN}",
    ),
    "Succeeded": ("Its training function has returned on all ranks.", "Take its best or newest checkpoint."),
    "Failed": ("Its newest attempt has failed.", f"Fix the cause, which the job may have tried again. {BEGIN_AGAIN}"),
}


@dataclass(frozen=True, kw_only=True)
class PastSnapshot(JobSnapshot):
    """A run without its TrainJob.

    Attributes:
        row: the run as a list shows it.
        place: the path or URI of its folder.
    """

    record: RunRecord
    row: RunRow
    place: str


def build_snapshot(name: str, record: RunRecord, place: str, *, now: datetime) -> PastSnapshot:
    """Returns the run of this folder in the storage; `place`: of the folder."""
    row = build_row(name, record, now=now)
    return PastSnapshot(
        job=build_job(row, record), raw_pods=(), raw_events=(), now=now, record=record, row=row, place=place
    )


def build_job(row: RunRow, record: RunRecord) -> Object:
    """Returns a TrainJob without times of its own: when it was created is not known."""
    newest = record.checkpoint
    status: Object = {
        "phase": row.state,
        "attempt": row.attempts,
        "attempts": [_build_attempt(each, is_last=each is record.attempts[-1], row=row) for each in record.attempts],
        "runURI": record.run_uri,
        "trackerURL": row.tracker_url,
        "run": {"name": row.name, "uid": record.uid, "formerUids": list_uids_of_run(record)[1:]},
        "goodput": _build_goodput(count_goodput(record)),
        "progress": {"attempt": row.attempts, "metrics": record.metrics},
    }
    if newest is not None and newest != NO_CHECKPOINT:
        status["checkpoint"] = _build_checkpoint(newest)
    if record.best_checkpoint is not None:
        status["bestCheckpoint"] = _build_checkpoint(record.best_checkpoint)
    # What follows the end of a run is no gap of it: a run that was stopped a month ago would have one of a month.
    if row.state in ("Failed", "Lost"):
        status["conditions"] = [{"type": "Failed", "status": "True", "reason": row.reason or row.state}]
    elif row.state != "Running":
        status["conditions"] = [{"type": "Complete", "status": "True", "reason": row.reason or row.state}]
    scaling = {"numWorkers": record.spec.num_workers or 1}
    metadata = {"namespace": record.namespace, "name": record.name, "uid": record.uid}
    return {"metadata": metadata, "spec": {"scaling": scaling}, "status": status}


def _build_attempt(attempt: RecordedAttempt, *, is_last: bool, row: RunRow) -> Object:
    built: Object = {"number": attempt.number, "startTime": attempt.started, "rounds": attempt.restarts}
    began = parse_time(attempt.started)
    if began is not None:
        built["runningTime"] = format_time(began + timedelta(milliseconds=max(attempt.spent.starting, 0)))
    if is_last and row.state == "Running":
        return built
    outcome = attempt.outcome
    if not outcome:
        outcome = "Lost"
    return {**built, "completionTime": attempt.seen, "class": outcome, "reason": attempt.reason}


def _build_goodput(goodput: RunGoodput) -> Object:
    percent = ""
    if goodput.percent is not None:
        percent = str(goodput.percent)
    return {
        "percent": percent,
        "wallSeconds": goodput.wall_seconds,
        "productiveSeconds": goodput.productive_seconds,
        "lostSeconds": dict(goodput.lost_seconds),
    }


def _build_checkpoint(committed: CommittedCheckpoint) -> Object:
    return {
        "uri": committed.uri,
        "index": committed.index,
        "time": committed.time or None,
        "metrics": committed.metrics,
        "attempt": committed.attempt,
    }


def summarize_past(snapshot: PastSnapshot) -> JobScreen:
    """Returns the screen of a run: what became of it, and what it was."""
    facts = list_facts(snapshot.row, snapshot.record, snapshot.place, snapshot.now)
    findings = (explain_state(snapshot.row, snapshot.record),)
    return JobScreen(tuple(Fact(name, value) for name, value in facts if value), (), findings, snapshot.notes)


def explain_state(row: RunRow, record: RunRecord) -> Finding:
    """Returns what became of the run, and what to do."""
    cause, remedy = MEANINGS[row.state]
    if not record.attempts:
        return Finding(row.state, cause, remedy, doc=STATES)
    last = record.attempts[-1]
    message = ""
    if last.message:
        message = describe_attempt(last)
    if row.state != "Failed":
        return Finding(row.state, cause, remedy, message, last.seen, STATES)
    class_ = None
    if last.outcome in set(FailureClass):
        class_ = FailureClass(last.outcome)
    found = choose_cause(last.reason, class_)
    return Finding(last.reason or last.outcome, found.sentence, remedy, message, last.seen, found.doc)


def list_facts(row: RunRow, record: RunRecord, folder: str, now: datetime) -> list[tuple[str, str]]:
    """Returns what the run was, as names and texts, of which some are empty."""
    spec = record.spec
    found = record.environment
    seen = describe_age(row.seen, now)
    state: str = row.state
    if state in ("Running", "Lost"):
        state = f"{state}, last sign of life {seen or 'at an unknown time'} ago"
    config = ""
    if spec.train_loop_config:
        config = json.dumps(spec.train_loop_config, ensure_ascii=False)
    return [
        ("Run", row.name),
        ("Job", f"{row.namespace}/{row.job}"),
        ("State", state),
        ("Started", row.started),
        ("Duration", format_duration(max(row.seconds, 0))),
        ("Goodput", _describe_goodput(count_goodput(record))),
        ("Workers", f"{row.workers} of {spec.num_workers}"),
        ("Best", row.best_metric),
        ("Metrics", ", ".join(f"{key} {value}" for key, value in sorted(record.metrics.items())[:8])),
        ("Code", spec.train_func or spec.build or " ".join(spec.entrypoint)),
        ("Config", config),
        ("Image", found.image),
        ("Source", " ".join(filter(None, (found.repository, found.revision)))),
        ("Code digest", found.code),
        ("Versions", ", ".join(f"{name} {version}" for name, version in found.versions.items())),
        ("Folder", folder),
        ("Tracker", row.tracker_url),
    ]


def _describe_goodput(goodput: RunGoodput) -> str:
    if goodput.percent is None:
        return ""
    lost = sorted(((seconds, cause) for cause, seconds in goodput.lost_seconds.items()), reverse=True)
    causes = ", ".join(f"{cause} {format_duration(seconds)}" for seconds, cause in lost[:MOST_CAUSES])
    percent = f"{goodput.percent}% of {format_duration(goodput.wall_seconds)}"
    if causes:
        return f"{percent}; lost: {causes}"
    return percent


def describe_recorded(record: RunRecord) -> Object:
    """Returns what the newest attempt was to run and ran with, by the names of the record, without what is empty."""
    parts = {"spec": asdict(record.spec), "environment": asdict(record.environment)}
    return {title: dict(_drop_empty(values.items())) for title, values in parts.items()}


def _drop_empty(values: Iterable[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    for name, value in values:
        if isinstance(value, tuple):
            value = list(value)
        if value not in ("", None, [], {}):
            yield name, value
