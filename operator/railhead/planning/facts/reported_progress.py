"""What a driver's report changes in the status, within the CRD's bounds.

It comes from a pod, so it may hold anything of the right types: `fit` cuts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from railhead.api.fit import fit, keep_time, read_limit
from railhead.api.slow_ranks import replace_slow_rank
from railhead.api.status import (
    CheckpointStatus,
    DriverWarning,
    JobStatus,
    ProgressStatus,
    ResumedFromStatus,
    replace_checkpoint,
    replace_progress,
    replace_status,
)
from railhead.contract.outcome import Outcome, parse_exit_code
from railhead.contract.report import (
    MAX_INDEX,
    MAX_URI,
    NO_CHECKPOINT,
    CommittedCheckpoint,
    Report,
    ReportedOutcome,
    RestartInPlace,
    RunWarning,
    SlowRank,
)
from railhead.contract.times import format_duration, format_time
from railhead.contract.trackers import is_link
from railhead.planning.observed import Observed

REASON = r"[A-Z][A-Za-z0-9]*"


def change_by_report(report: Report, status: JobStatus, *, nodes: Mapping[str, str] = {}) -> JobStatus:
    """Returns the status with what a report of the current attempt changes; `nodes`: of the job's pods, by name."""
    progress = _read_progress(report, nodes)
    is_news = without_measures(progress) != without_measures(status.progress)
    # Without news the report only shows that the driver is alive.
    if is_news:
        status = replace_status(status, progress=progress)
    # An earlier driver, or one before its storage is checked, reports none, and that takes none away.
    if _is_uri(report.run_uri):
        status = replace_status(status, run_uri=report.run_uri)
    if is_link(report.tracker_url):
        # An attempt that has no link yet, or none any more, takes none away.
        status = replace_status(status, tracker_url=report.tracker_url)
    if report.resumed_from and _is_uri(report.resumed_from.uri):
        status = replace_status(status, resumed_from=ResumedFromStatus(uri=report.resumed_from.uri))
    return _add_checkpoints(status, report, attempt=report.attempt, time=report.time)


def _read_progress(report: Report, nodes: Mapping[str, str]) -> ProgressStatus:
    steps = report.steps
    values = {
        "attempt": report.attempt,
        "state": report.state,
        "reports": report.reports,
        "joined": report.joined,
        "workers": report.workers,
        "step": steps.step,
        "total_steps": steps.total,
        "percent_complete": steps.percent,
        "estimated_remaining_seconds": steps.remaining_seconds,
        "steps_per_second": steps.per_second or None,
        "tokens_per_second": steps.tokens_per_second or None,
        "metrics": report.metrics,
        "update_time": report.time,
        "spent": asdict(report.spent) if report.spent else None,
        "warning": _read_warning(report.warning),
        "restart": _read_restart(report.restart),
        "slow_ranks": [_read_slow_rank(each, nodes) for each in report.slow_ranks] or None,
        "finishing": report.finishing or None,
        "lost_pods": report.lost_pods or None,
        "outcome": _read_outcome(report.outcome),
    }
    progress = fit(ProgressStatus, values)
    return with_estimate(progress, percent=progress.percent_complete, seconds=progress.estimated_remaining_seconds)


def with_estimate(progress: ProgressStatus, *, percent: int | None, seconds: int | None) -> ProgressStatus:
    """Returns the progress with this much done and these seconds left, None = not known."""
    remaining = None if seconds is None else format_duration(seconds)
    return replace_progress(
        progress, percent_complete=percent, estimated_remaining_seconds=seconds, remaining=remaining
    )


def without_measures(progress: ProgressStatus) -> ProgressStatus:
    """Returns the progress without what changes as time passes, without any news."""
    slow_ranks = [replace_slow_rank(each, score="") for each in progress.slow_ranks or ()]
    unestimated = with_estimate(progress, percent=None, seconds=None)
    return replace_progress(unestimated, update_time=None, spent=None, slow_ranks=slow_ranks)


def change_by_outcome(status: JobStatus, outcome: Outcome | None, now: datetime) -> JobStatus:
    """Adds the checkpoints that only the driver's termination message reports."""
    if outcome is None:
        return status
    return _add_checkpoints(status, outcome, attempt=status.attempt, time=format_time(now))


def _add_checkpoints(status: JobStatus, said: Report | Outcome, *, attempt: int, time: str) -> JobStatus:
    """Adds those of a driver's checkpoints that are new; `time`: for a commit that has none."""
    return replace_status(
        status,
        checkpoint=_choose_newer(said.checkpoint, status, attempt=attempt, time=time),
        best_checkpoint=_choose_best(said.best_checkpoint, status, attempt=attempt),
    )


def find_last_warning(observed: Observed) -> DriverWarning | None:
    """Returns the driver's warning in this attempt, by its termination message or else by its last report."""
    last = None
    if observed.outcome is not None:
        last = _read_warning(observed.outcome.warning)
    return last or observed.progress.warning


def _read_warning(warning: RunWarning | None) -> DriverWarning | None:
    """Returns None for a warning whose reason is malformed."""
    if warning is None or not re.fullmatch(REASON, warning.reason):
        return None
    if len(warning.reason) > read_limit(DriverWarning, "reason"):
        # What is left of it would be another reason.
        return None
    return fit(DriverWarning, asdict(warning))


def _read_restart(restart: RestartInPlace | None) -> dict[str, object] | None:
    if restart is None:
        return None
    values = asdict(restart)
    values["class_"] = values.pop("cause")
    return values


def _read_slow_rank(slow: SlowRank, nodes: Mapping[str, str]) -> dict[str, object]:
    return {**asdict(slow), "node": nodes.get(slow.pod, "")}


def _read_outcome(outcome: ReportedOutcome | None) -> dict[str, object] | None:
    if outcome is None:
        return None
    return {**asdict(outcome), "process_exit_code": parse_exit_code(outcome.process_exit_code)}


def _choose_newer(
    newest: CommittedCheckpoint | None, status: JobStatus, *, attempt: int, time: str
) -> CheckpointStatus | None:
    """Returns the driver's newest commit, if the status has only earlier ones; else that of the status."""
    if newest is None or not _is_usable(newest) or newest.index <= status.newest_index:
        return status.checkpoint
    committed = keep_time(newest.time) or time
    return fit(CheckpointStatus, {**asdict(newest), "time": committed, "attempt": attempt})


def _choose_best(best: CommittedCheckpoint | None, status: JobStatus, *, attempt: int) -> CheckpointStatus | None:
    """Returns the best checkpoint that the driver names, or None if it no longer has one.

    Returns that of the status if the driver says nothing.
    """
    known = status.best_checkpoint
    # An empty object says that no kept checkpoint has a score; None says that the driver does not know yet.
    if best == NO_CHECKPOINT:
        return None
    if best is None or not _is_usable(best) or not 0 < best.attempt <= attempt:
        return known
    found = fit(CheckpointStatus, asdict(best))
    if known is not None and not found.metrics and (known.uri, known.index) == (best.uri, best.index):
        # A shortened termination message has none.
        return replace_checkpoint(found, metrics=known.metrics)
    return found


def _is_usable(checkpoint: CommittedCheckpoint) -> bool:
    """Returns whether index and URI are within their bounds. Neither is changed to fit: another index is another
    commit's, and another URI leads elsewhere."""
    return 0 <= checkpoint.index <= MAX_INDEX and _is_uri(checkpoint.uri)


def _is_uri(value: str) -> bool:
    return 0 < len(value) <= MAX_URI and value.isprintable()
