"""A job's own metrics: the numbers of its report to the operator, and what else Ray Train's controller tells.

They are those of one attempt, since each attempt has its own head pod. What is not known is absent. No label holds
free text of the user's but `name` of `railhead_job_reported`, of which a report has at most 64.
"""

from __future__ import annotations

from typing import Callable, Iterable, List, Optional, Tuple, get_args

from railhead.contract.report import Report, State
from railhead.contract.text import parse_time
from railhead.driver.describe import clean
from railhead.driver.reporting.exposition import Labels, Metric, write_metrics
from railhead.driver.reporting.heartbeat import GpuUse
from railhead.driver.reporting.mailbox import FromController, Mailbox
from railhead.driver.reporting.publisher import Publisher

Series = Tuple[Tuple[Labels, float], ...]


def write_job_metrics(publisher: Publisher, mailbox: Mailbox) -> str:
    return write_metrics(list_metrics(publisher.build_report(), mailbox.read_newest_fit()))


def list_metrics(report: Report, fit: FromController) -> List[Metric]:
    """Returns all of them; `fit` is what Ray Train's controller tells of the current fit()."""
    return [*_list_progress(report), *_list_events(report, fit), *_list_reported(report), *_list_gpus(fit)]


def _list_progress(report: Report) -> Iterable[Metric]:
    steps = report.steps
    states = tuple(((("state", each),), float(each == report.state)) for each in get_args(State))
    ratio = None if steps.percent is None else steps.percent / 100
    yield Metric("railhead_job_attempt", "gauge", "Number of the attempt.", _one(report.attempt))
    yield Metric("railhead_job_state", "gauge", "1 for the current state of training, 0 for the others.", states)
    yield Metric("railhead_job_worker_pods", "gauge", "Worker pods that have joined Ray.", _one(report.joined))
    yield Metric("railhead_job_workers", "gauge", "Ranks of the current worker group.", _one(report.workers))
    yield Metric("railhead_job_step", "gauge", "Steps so far.", _one(steps.step))
    yield Metric("railhead_job_steps", "gauge", "Steps of the whole run.", _one(steps.total))
    yield Metric("railhead_job_steps_per_second", "gauge", "Pace over the last 2 minutes.", _one(steps.per_second))
    yield Metric(
        "railhead_job_tokens_per_second", "gauge", "Tokens over the last 2 minutes.", _one(steps.tokens_per_second)
    )
    yield Metric("railhead_job_progress_ratio", "gauge", "How much of the run is done, from 0 to 1.", _one(ratio))
    yield Metric(
        "railhead_job_remaining_seconds", "gauge", "How long the rest of the run takes.", _one(steps.remaining_seconds)
    )


def _list_events(report: Report, fit: FromController) -> Iterable[Metric]:
    restarts = tuple(((("class", name),), float(count)) for name, count in sorted(fit.restarts.items()))
    yield Metric("railhead_job_reports_total", "counter", "Calls of ray.train.report.", _one(report.reports))
    yield Metric("railhead_job_restarts_total", "counter", "Restarts of the worker group in the same pods.", restarts)
    newest = report.checkpoint
    index, time = (newest.index, parse_time(newest.time)) if newest else (None, None)
    yield Metric("railhead_job_checkpoint_index", "gauge", "Index of the newest checkpoint, from 0.", _one(index))
    yield Metric(
        "railhead_job_checkpoint_timestamp_seconds",
        "gauge",
        "When the newest checkpoint was committed.",
        _one(time.timestamp() if time else None),
    )
    uploads = fit.heartbeat.uploads if fit.heartbeat else None
    yield Metric(
        "railhead_job_checkpoint_uploads_total",
        "counter",
        "Uploads of checkpoints, or of their shards, by all ranks.",
        _one(uploads and uploads.number),
    )
    yield Metric(
        "railhead_job_checkpoint_upload_seconds_total",
        "counter",
        "Seconds of all these uploads together.",
        _one(uploads and round(uploads.seconds, 3)),
    )
    yield Metric(
        "railhead_job_checkpoint_upload_bytes_total",
        "counter",
        "Bytes of all these uploads together.",
        _one(uploads and uploads.size),
    )
    warning = report.warning
    yield Metric(
        "railhead_job_warning",
        "gauge",
        "1 while the status has this warning.",
        _labelled("reason", warning.reason) if warning else (),
    )


def _list_reported(report: Report) -> Iterable[Metric]:
    numbers = ((name, _read(text)) for name, text in sorted(report.metrics.items()))
    series = tuple(((("name", clean(name)),), number) for name, number in numbers if number is not None)
    yield Metric("railhead_job_reported", "gauge", "Numbers of rank 0's last call of ray.train.report.", series)


def _list_gpus(fit: FromController) -> Iterable[Metric]:
    """Last, because they are the most series."""
    gpus = fit.heartbeat.gpus if fit.heartbeat else ()

    def list_series(read: Callable[[GpuUse], float]) -> Series:
        return tuple(((("rank", str(each.rank)), ("gpu", str(each.number))), read(each)) for each in gpus)

    used, total = list_series(lambda each: each.used), list_series(lambda each: each.total)
    busy = list_series(lambda each: each.percent / 100)
    yield Metric("railhead_job_gpu_utilization_ratio", "gauge", "Part of the time in which a GPU was in use.", busy)
    yield Metric("railhead_job_gpu_memory_used_bytes", "gauge", "Memory of a GPU in use, by all processes.", used)
    yield Metric("railhead_job_gpu_memory_bytes", "gauge", "Memory of a GPU.", total)


def _labelled(name: str, value: str) -> Series:
    return ((((name, value),), 1.0),)


def _one(value: object) -> Series:
    """Returns the only series of a metric without labels; none if the value is None, or a text without a number."""
    number = None if value is None else _read(str(value))
    return () if number is None else (((), number),)


def _read(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None
