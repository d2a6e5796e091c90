"""Writes a job's own metrics: the numbers of its report to the operator, and what else Ray Train's controller tells.

They are those of one attempt, since each attempt has its own head pod. What is not known is absent. No label holds
free text of the user's but `name` of `railhead_job_reported`, of which a report has at most 64.

Written in Prometheus' text format, version 0.0.4. An image needs no Prometheus client for it: Ray brings one only with
`ray[default]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, List, Literal, Optional, Tuple, get_args

from railhead.contract.report import CommittedCheckpoint, Report, State
from railhead.contract.times import parse_time
from railhead.driver.head.publisher import Publisher
from railhead.driver.mailbox.heartbeat import Heartbeat
from railhead.driver.mailbox.mailbox import Mailbox
from railhead.driver.mailbox.values import FromController
from railhead.driver.messages.redaction import redact

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_SERIES = 2000
Labels = Tuple[Tuple[str, str], ...]
Series = Tuple[Tuple[Labels, float], ...]


@dataclass(frozen=True)
class Metric:
    """One metric and its series.

    Attributes:
        name: with its unit, and for a counter with `_total`.
        help: one line of ASCII.
        series: labels and value; empty = the value is not known, so the metric is absent.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    series: Series


def write_job_metrics(publisher: Publisher, mailbox: Mailbox) -> str:
    """Returns the text for Prometheus with the current values."""
    return write_metrics(list_metrics(publisher.build_report(), mailbox.read_newest_fit()))


def list_metrics(report: Report, fit: FromController) -> List[Metric]:
    """Returns all of them; `fit` is what Ray Train's controller tells of the current fit()."""
    # The GPUs come last: they have the most series, and those above the limit are left out.
    return [*_list_progress(report), *_list_events(report, fit), *_list_reported(report), *_list_gpus(fit)]


def _list_progress(report: Report) -> Iterable[Metric]:
    steps = report.steps
    states = tuple(_with_label("state", state, float(state == report.state)) for state in get_args(State))
    ratio = None
    if steps.percent is not None:
        ratio = steps.percent / 100
    yield _one("attempt", "Number of the attempt.", report.attempt)
    yield _build("state", "1 for the current state of training, 0 for the others.", states)
    yield _one("worker_pods", "Worker pods that have joined Ray.", report.joined)
    yield _one("workers", "Ranks of the current worker group.", report.workers)
    yield _one("step", "Steps so far.", steps.step)
    yield _one("steps", "Steps of the whole run.", steps.total)
    yield _one("steps_per_second", "Pace over the last 2 minutes.", steps.per_second)
    yield _one("tokens_per_second", "Tokens over the last 2 minutes.", steps.tokens_per_second)
    yield _one("progress_ratio", "How much of the run is done, from 0 to 1.", ratio)
    yield _one("remaining_seconds", "How long the rest of the run takes.", steps.remaining_seconds)


def _list_events(report: Report, fit: FromController) -> Iterable[Metric]:
    restarts = tuple(_with_label("class", name, float(count)) for name, count in sorted(fit.restarts.items()))
    yield _one("reports_total", "Calls of ray.train.report.", report.reports)
    yield _build("restarts_total", "Restarts of the worker group in the same pods.", restarts)
    yield from _list_newest_checkpoint(report.checkpoint)
    yield from _list_report_times(fit.heartbeat)
    slow = tuple(_with_label("rank", str(rank.rank), float(rank.score)) for rank in report.slow_ranks if rank.score)
    yield _build("slow_rank_score", "Pace of a slow rank, as a part of the median rank's.", slow)
    warnings: Series = ()
    if report.warning:
        warnings = (_with_label("reason", report.warning.reason, 1.0),)
    yield _build("warning", "1 while the status has this warning.", warnings)


def _list_newest_checkpoint(newest: Optional[CommittedCheckpoint]) -> Iterable[Metric]:
    index = None
    seconds = None
    if newest:
        index = newest.index
        time = parse_time(newest.time)
        seconds = time.timestamp() if time else None
    yield _one("checkpoint_index", "Index of the newest checkpoint, from 0.", index)
    yield _one("checkpoint_timestamp_seconds", "When the newest checkpoint was committed.", seconds)


def _list_report_times(beat: Optional[Heartbeat]) -> Iterable[Metric]:
    blocked = None
    number = None
    seconds = None
    size = None
    if beat:
        blocked = round(beat.blocked, 3)
        number = beat.uploads.number
        seconds = round(beat.uploads.seconds, 3)
        size = beat.uploads.size
    help_of_blocked = "Seconds that rank 0 of the current worker group has spent in ray.train.report."
    yield _one("report_seconds_total", help_of_blocked, blocked)
    yield _one("checkpoint_uploads_total", "Uploads of checkpoints, or of their shards, by all ranks.", number)
    yield _one("checkpoint_upload_seconds_total", "Seconds of all these uploads together.", seconds)
    yield _one("checkpoint_upload_bytes_total", "Bytes of all these uploads together.", size)


def _list_reported(report: Report) -> Iterable[Metric]:
    series = []
    for name, text in sorted(report.metrics.items()):
        number = _read_number(text)
        if number is not None:
            series.append(_with_label("name", redact(name), number))
    yield _build("reported", "Numbers of rank 0's last call of ray.train.report.", tuple(series))


def _list_gpus(fit: FromController) -> Iterable[Metric]:
    busy = []
    used = []
    total = []
    gpus = fit.heartbeat.gpus if fit.heartbeat else ()
    for gpu in gpus:
        labels = (("rank", str(gpu.rank)), ("gpu", str(gpu.number)))
        busy.append((labels, gpu.percent / 100))
        used.append((labels, float(gpu.used)))
        total.append((labels, float(gpu.total)))
    yield _build("gpu_utilization_ratio", "Part of the time in which a GPU was in use.", tuple(busy))
    yield _build("gpu_memory_used_bytes", "Memory of a GPU in use, by all processes.", tuple(used))
    yield _build("gpu_memory_bytes", "Memory of a GPU.", tuple(total))


def _with_label(label: str, text: str, value: float) -> Tuple[Labels, float]:
    return ((label, text),), value


def _one(name: str, help: str, value: object) -> Metric:
    """Returns a metric without labels; without its only series if the value is None, or a text without a number."""
    if value is None:
        return _build(name, help, ())
    number = _read_number(str(value))
    if number is None:
        return _build(name, help, ())
    return _build(name, help, (((), number),))


def _build(name: str, help: str, series: Series) -> Metric:
    kind: Literal["counter", "gauge"] = "gauge"
    if name.endswith("_total"):
        kind = "counter"
    return Metric(f"railhead_job_{name}", kind, help, series)


def _read_number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def write_metrics(metrics: Iterable[Metric], *, most: int = MOST_SERIES) -> str:
    """Returns the text with at most `most` series: those after them are left out."""
    lines = []
    for metric in metrics:
        series = metric.series[:most]
        most -= len(series)
        if series:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [f"{metric.name}{_write_labels(labels)} {_write_number(value)}" for labels, value in series]
    return "".join(f"{line}\n" for line in lines)


def _write_labels(labels: Labels) -> str:
    written = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    if written:
        return f"{{{written}}}"
    return ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _write_number(value: float) -> str:
    """Writes a number as Python does, whose nan and inf Prometheus reads too, but a whole number without a fraction."""
    return repr(float(value)).removesuffix(".0")
