"""A driver's words, cut to what the status can hold.

They come from a pod, so they may be anything; a single value beyond the CRD's bounds
would have the whole status write refused, again and again.
"""

from __future__ import annotations

import re
from typing import Any

from railhead.api.status import MAX_KEY, MAX_MESSAGE, MAX_METRICS, MAX_TIME, MAX_URI, MAX_VALUE, JobStatus

REASON = r"[A-Z][A-Za-z0-9]{0,63}"
MAX_NUMBER = 2**31 - 1  # the CRD's integers are int32


def metrics_of(values: Any) -> dict[str, str]:
    """At most 64 metrics of bounded length."""
    items = list(values.items())[:MAX_METRICS] if isinstance(values, dict) else []
    return {str(key)[:MAX_KEY]: str(value)[:MAX_VALUE] for key, value in items}


def warning_of(value: Any) -> dict[str, str] | None:
    """{reason, message} that fit, or None for what is no warning."""
    reason = value.get("reason") if isinstance(value, dict) else None
    if not isinstance(reason, str) or not re.fullmatch(REASON, reason):
        return None
    return {"reason": reason, "message": str(value.get("message") or "")[:MAX_MESSAGE]}


def count_of(value: Any) -> int:
    """A count that fits, 0 for what is none."""
    return min(max(value, 0), MAX_NUMBER) if isinstance(value, int) else 0


def newer_checkpoint(told: Any, status: JobStatus, *, attempt: int, time: str) -> dict[str, Any] | None:
    """The status's checkpoint when the driver tells of a later commit than is known; `time` when it tells none."""
    if not isinstance(told, dict):
        return None
    index, uri = index_of(told.get("index")), uri_of(told.get("uri"))
    known = status.checkpoint.index if status.checkpoint else -1
    if index is None or uri is None or index <= known:
        return None
    return {
        "uri": uri,
        "index": index,
        "time": str(told.get("time") or time)[:MAX_TIME],
        "metrics": metrics_of(told.get("metrics")),
        "attempt": attempt,
    }


def changed_best(told: Any, status: JobStatus, *, attempt: int) -> dict[str, Any]:
    """The status's field `bestCheckpoint` when the driver's word changes it, else an empty dict.

    Of an empty word, by which no kept checkpoint has a score, the field's value is None: it goes.
    """
    known = status.best_checkpoint
    if told == {} and known is not None:
        return {"bestCheckpoint": None}
    if not isinstance(told, dict):
        return {}
    index, uri, author = index_of(told.get("index")), uri_of(told.get("uri")), index_of(told.get("attempt"))
    if index is None or uri is None or not author or author > attempt:
        return {}
    metrics = metrics_of(told.get("metrics"))
    if known is not None and (known.uri, known.index) == (uri, index):
        metrics = metrics or known.metrics  # a termination message that was too long says none
    best = {
        "uri": uri,
        "index": index,
        "time": str(told.get("time") or "")[:MAX_TIME],
        "metrics": metrics,
        "attempt": author,
    }
    is_known = known is not None and known.model_dump(by_alias=True) == best
    return {} if is_known else {"bestCheckpoint": best}


def index_of(value: Any) -> int | None:
    """A commit's number, or None: a number that was changed would be another commit's."""
    is_index = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER
    return value if is_index else None


def uri_of(value: Any) -> str | None:
    """The URI, or None: one that was cut would lead elsewhere."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_URI else None
