"""A driver's words, cut to what the status can hold.

They come from a pod, so they may be anything; a single value beyond the CRD's bounds
would have the whole status write refused, again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from railhead.api.status import MAX_MESSAGE, JobStatus
from railhead.contract.checkpoint import (
    MAX_INDEX,
    MAX_METRIC_NAME,
    MAX_METRIC_VALUE,
    MAX_METRICS,
    MAX_TIME,
    MAX_URI,
    NO_CHECKPOINT,
    Checkpoint,
)
from railhead.contract.report import RunWarning

REASON = r"[A-Z][A-Za-z0-9]{0,63}"


def metrics_of(values: Mapping[str, str]) -> dict[str, str]:
    """At most 64 metrics of bounded length."""
    items = list(values.items())[:MAX_METRICS]
    return {key[:MAX_METRIC_NAME]: value[:MAX_METRIC_VALUE] for key, value in items}


def warning_of(warning: RunWarning | None) -> dict[str, str] | None:
    """{reason, message} that fit, or None for what is no warning."""
    if warning is None or not re.fullmatch(REASON, warning.reason):
        return None
    return {"reason": warning.reason, "message": warning.message[:MAX_MESSAGE]}


def count_of(value: int) -> int:
    """A count that fits."""
    return min(max(value, 0), MAX_INDEX)


def newer_checkpoint(told: Checkpoint | None, status: JobStatus, *, attempt: int, time: str) -> dict[str, Any] | None:
    """The status's checkpoint when the driver tells of a later commit than is known; `time` when it tells none."""
    if told is None:
        return None
    index, uri = index_of(told.index), uri_of(told.uri)
    known = status.checkpoint.index if status.checkpoint else -1
    if index is None or uri is None or index <= known:
        return None
    return {
        "uri": uri,
        "index": index,
        "time": (told.time or time)[:MAX_TIME],
        "metrics": metrics_of(told.metrics),
        "attempt": attempt,
    }


def changed_best(told: Checkpoint | None, status: JobStatus, *, attempt: int) -> dict[str, Any]:
    """The status's field `bestCheckpoint` when the driver's word changes it, else an empty dict.

    Of an empty word, by which no kept checkpoint has a score, the field's value is None: it goes.
    """
    known = status.best_checkpoint
    if told == NO_CHECKPOINT and known is not None:
        return {"bestCheckpoint": None}
    if told is None:
        return {}
    index, uri, author = index_of(told.index), uri_of(told.uri), index_of(told.attempt)
    if index is None or uri is None or not author or author > attempt:
        return {}
    metrics = metrics_of(told.metrics)
    if known is not None and (known.uri, known.index) == (uri, index):
        metrics = metrics or known.metrics  # a termination message that was too long says none
    best = {
        "uri": uri,
        "index": index,
        "time": told.time[:MAX_TIME],
        "metrics": metrics,
        "attempt": author,
    }
    is_known = known is not None and known.model_dump(by_alias=True) == best
    return {} if is_known else {"bestCheckpoint": best}


def index_of(value: int) -> int | None:
    """A commit's number, or None: a number that was changed would be another commit's."""
    return value if 0 <= value <= MAX_INDEX else None


def uri_of(value: str) -> str | None:
    """The URI, or None: one that was cut would lead elsewhere."""
    return value if 0 < len(value) <= MAX_URI else None
