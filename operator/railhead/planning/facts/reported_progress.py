"""What a driver's report changes in the status, within the CRD's bounds.

It comes from a pod, so it may hold anything of the right types; a single value out of bounds
would make the API server reject the whole status write, again and again, and terminals act on control characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise

from railhead.api.goodput import MOST, SpentStatus
from railhead.api.slow_ranks import SlowRankStatus
from railhead.api.status import (
    MAX_MESSAGE,
    CheckpointStatus,
    DriverWarning,
    JobStatus,
    OutcomeStatus,
    ProgressStatus,
    RestartStatus,
    ResumedFromStatus,
    replace_status,
)
from railhead.contract.failure import FailureClass
from railhead.contract.outcome import MESSAGE_CHARS, Outcome, parse_exit_code
from railhead.contract.report import (
    MAX_INDEX,
    MAX_LOST_PODS,
    MAX_METRIC_NAME,
    MAX_METRIC_VALUE,
    MAX_METRICS,
    MAX_SLOW_RANKS,
    MAX_URI,
    NO_CHECKPOINT,
    CommittedCheckpoint,
    Report,
    ReportedOutcome,
    RestartInPlace,
    RunWarning,
    SlowRank,
)
from railhead.contract.spent import Spent
from railhead.contract.text import clean_line, clean_text
from railhead.contract.times import format_time, parse_time

REASON = r"[A-Z][A-Za-z0-9]{0,63}"
TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[-+][0-9]{2}:[0-9]{2})"
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))  # of seconds, the largest first


def change_by_report(report: Report, status: JobStatus, *, nodes: Mapping[str, str] = {}) -> JobStatus:
    """Returns the status with what a report of the current attempt changes; `nodes`: of the job's pods, by name."""
    progress = ProgressStatus(
        attempt=report.attempt,
        state=report.state,
        reports=cut_count(report.reports),
        joined=cut_count(report.joined),
        workers=cut_count(report.workers),
        step=_cut_step(report.steps.step),
        total_steps=_cut_step(report.steps.total),
        steps_per_second=clean_line(report.steps.per_second[:32]) or None,
        tokens_per_second=clean_line(report.steps.tokens_per_second[:32]) or None,
        metrics=cut_metrics(report.metrics),
        update_time=keep_time(report.time),
        spent=_cut_spent(report.spent),
        warning=_cut_warning(report.warning),
        restart=_cut_restart(report.restart),
        slow_ranks=[_cut_slow_rank(each, nodes) for each in report.slow_ranks[:MAX_SLOW_RANKS]] or None,
        lost_pods=[clean_line(name[:253]) for name in report.lost_pods[:MAX_LOST_PODS]] or None,
        outcome=_cut_outcome(report.outcome),
    )
    progress = with_estimate(
        progress, percent=_cut_step(report.steps.percent, 100), seconds=_cut_step(report.steps.remaining_seconds)
    )
    is_news = without_measures(progress) != without_measures(status.progress)
    if is_news:  # else the report only shows that the driver is alive
        status = replace_status(status, progress=progress)
    if _is_uri(report.run_uri):
        status = replace_status(status, run_uri=report.run_uri)
    if report.resumed_from and _is_uri(report.resumed_from.uri):
        status = replace_status(status, resumed_from=ResumedFromStatus(uri=report.resumed_from.uri))
    return _add_checkpoints(status, report, attempt=report.attempt, time=report.time)


def with_estimate(progress: ProgressStatus, *, percent: int | None, seconds: int | None) -> ProgressStatus:
    """Returns the progress with this much done and these seconds left, None = not known."""
    remaining = None if seconds is None else _format_duration(seconds)
    return progress.model_copy(
        update={"percent_complete": percent, "estimated_remaining_seconds": seconds, "remaining": remaining}
    )


def without_measures(progress: ProgressStatus) -> ProgressStatus:
    """Time that passes changes these without any news."""
    slow_ranks = [each.model_copy(update={"score": ""}) for each in progress.slow_ranks or ()]
    changes = {"update_time": None, "spent": None, "slow_ranks": slow_ranks}
    return with_estimate(progress, percent=None, seconds=None).model_copy(update=changes)


def change_by_outcome(status: JobStatus, outcome: Outcome | None, now: datetime) -> JobStatus:
    """Adds the checkpoints that only the driver's termination message reports."""
    if outcome is None:
        return status
    return _add_checkpoints(status, outcome, attempt=status.attempt, time=format_time(now))


def _add_checkpoints(status: JobStatus, said: Report | Outcome, *, attempt: int, time: str) -> JobStatus:
    """Adds those of a driver's checkpoints that are new; `time`: for a commit that has none."""
    return replace_status(
        status,
        checkpoint=_find_newer(said.checkpoint, status, attempt=attempt, time=time),
        best_checkpoint=_find_best(said.best_checkpoint, status, attempt=attempt),
    )


def cut_metrics(values: Mapping[str, str]) -> dict[str, str]:
    """Keeps as many as fit, each on one line of bounded length."""
    items = list(values.items())[:MAX_METRICS]
    return {clean_line(name[:MAX_METRIC_NAME]): clean_line(value[:MAX_METRIC_VALUE]) for name, value in items}


def keep_time(text: str) -> str | None:
    """The time as the API server takes it, or None for any other text."""
    if re.fullmatch(TIME, text) and parse_time(text):
        return text
    return None


def cut_count(value: int, most: int = MAX_INDEX) -> int:
    return min(max(value, 0), most)


def _cut_spent(spent: Spent | None) -> SpentStatus | None:
    if spent is None:
        return None
    return SpentStatus(**{name: cut_count(value, MOST) for name, value in asdict(spent).items()})


def _cut_step(value: int | None, most: int = MAX_INDEX) -> int | None:
    if value is None:
        return None
    return cut_count(value, most)


def _format_duration(seconds: int) -> str:
    """Returns its two largest units: 45s, 12m30s, 3h20m, 2d4h."""
    for (size, unit), (smaller, next_unit) in pairwise(UNITS):
        if seconds >= size:
            count, rest = divmod(seconds, size)
            return f"{count}{unit}" + (f"{rest // smaller}{next_unit}" if rest >= smaller else "")
    return f"{seconds}s"


def _cut_warning(warning: RunWarning | None) -> DriverWarning | None:
    """The warning, shortened to fit, or None if its reason is malformed."""
    if warning is None or not re.fullmatch(REASON, warning.reason):
        return None
    return DriverWarning(reason=warning.reason, message=clean_text(warning.message[:MAX_MESSAGE]))


def _cut_restart(restart: RestartInPlace | None) -> RestartStatus | None:
    if restart is None:
        return None
    return RestartStatus(
        number=cut_count(restart.number),
        charged=cut_count(restart.charged),
        class_=FailureClass.parse(restart.cause),
        reason=clean_line(restart.reason[:128]),
        message=clean_text(restart.message[:MAX_MESSAGE]),
        suspect_pod=clean_line(restart.suspect_pod[:253]),
        time=keep_time(restart.time),
    )


def _cut_slow_rank(slow: SlowRank, nodes: Mapping[str, str]) -> SlowRankStatus:
    return SlowRankStatus(
        rank=cut_count(slow.rank),
        pod=clean_line(slow.pod[:253]),
        node=nodes.get(slow.pod, ""),
        score=clean_line(slow.score[:16]),
        since=keep_time(slow.since),
    )


def _cut_outcome(outcome: ReportedOutcome | None) -> OutcomeStatus | None:
    if outcome is None:
        return None
    return OutcomeStatus(
        outcome=clean_line(outcome.outcome[:32]),
        reason=clean_line(outcome.reason[:128]),
        message=clean_text(outcome.message[:MESSAGE_CHARS]),
        process_exit_code=parse_exit_code(outcome.process_exit_code),
        suspect_pod=clean_line(outcome.suspect_pod[:253]),
    )


def _find_newer(
    newest: CommittedCheckpoint | None, status: JobStatus, *, attempt: int, time: str
) -> CheckpointStatus | None:
    """The driver's newest commit, if the status has only earlier ones; else that of the status."""
    if newest is None or not _is_usable(newest) or newest.index <= status.newest_index:
        return status.checkpoint
    return CheckpointStatus(
        uri=newest.uri,
        index=newest.index,
        time=keep_time(newest.time) or keep_time(time),
        metrics=cut_metrics(newest.metrics),
        attempt=attempt,
    )


def _find_best(best: CommittedCheckpoint | None, status: JobStatus, *, attempt: int) -> CheckpointStatus | None:
    """The best checkpoint that the driver names, or None if it no longer has one; that of the status if it says
    nothing."""
    known = status.best_checkpoint
    if best == NO_CHECKPOINT:
        return None
    if best is None or not _is_usable(best) or not 0 < best.attempt <= attempt:
        return known
    metrics = cut_metrics(best.metrics)
    if known is not None and (known.uri, known.index) == (best.uri, best.index):
        metrics = metrics or known.metrics  # a shortened termination message has none
    return CheckpointStatus(
        uri=best.uri, index=best.index, time=keep_time(best.time), metrics=metrics, attempt=best.attempt
    )


def _is_usable(checkpoint: CommittedCheckpoint) -> bool:
    """Neither is changed to fit: another index is another commit's, and another URI leads elsewhere."""
    return 0 <= checkpoint.index <= MAX_INDEX and _is_uri(checkpoint.uri)


def _is_uri(value: str) -> bool:
    return 0 < len(value) <= MAX_URI and value.isprintable()
