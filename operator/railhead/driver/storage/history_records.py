"""Builds the records of a run's history from what training has reported: bounded, valid JSON, without credentials.

Reports are the user's: a value may be anything, and of any size. Numbers stay as they are, but NaN and infinities,
which JSON lacks, become text. Every text, and every name of a metric, has its credentials hidden.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from numbers import Real
from typing import Any, Callable, List, Union

from railhead.contract.history_format import Record
from railhead.contract.numbers import name_not_finite
from railhead.driver.messages.redaction import redact

# Of the metrics of one report; with time, attempt and the like a line has at most 64 KiB.
METRICS_BYTES = 64_000
# Values of one report, and as many names: the shortest value and its comma take two bytes.
_MOST_VALUES = 40_000
_PYTHONS = (bool, int, float)
_LARGEST = 10_000  # characters of a text, bits of a number


def stamp(attempt: int) -> Record:
    """Returns the fields that every record begins with: RFC 3339 in UTC, with milliseconds."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    return {"time": now.replace("+00:00", "Z"), "attempt": attempt}


def build_metrics(metrics: Mapping[Any, Any]) -> Record:
    """Returns the field `metrics`, and `omitted`, how many did not fit, if any did not. Never raises."""
    plain = _Plain()
    kept = {}
    left = METRICS_BYTES
    for name, value in hide(plain.convert_all(metrics)).items():
        left -= len(json.dumps({name: value}, ensure_ascii=False).encode())
        if left < 0:
            break
        kept[name] = value
    omitted = len(metrics) - len(kept)
    return {"metrics": kept, **({"omitted": omitted} if omitted else {})}


def hide(values: Record) -> Record:
    """Returns the record without credentials, in its texts and its keys."""
    texts: List[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    _change_texts(values, note)
    joined = "\n".join(texts)
    # nearly always one search for all
    if redact(joined) == joined:
        return values
    hidden: Record = _change_texts(values, redact)
    return hidden


class _Plain:
    """Makes the metrics of one report plain; counts their values."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def convert_all(self, metrics: Mapping[Any, Any]) -> Record:
        """Leaves out what is too large, and what the user's own classes do not let us read."""
        result: Record = {}
        for name, value in metrics.items():
            before = self._left
            try:
                result.update(self.convert({name: value}))
            except Exception:
                self._left = before
        return result

    def convert(self, value: Any) -> Any:
        """Raises ValueError for what is too large, and RecursionError."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("too many values")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._check(len(value), str(value))
        if isinstance(value, int):
            return self._check(value.bit_length(), int(value))
        if isinstance(value, float):
            if math.isfinite(value):
                return float(value)
            return name_not_finite(value)
        if isinstance(value, Mapping):
            return {self.convert(str(name)): self.convert(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.convert(each) for each in value]
        return self._convert_other(value)

    def _check(self, size: int, value: Any) -> Any:
        if size > _LARGEST:
            raise ValueError("too large a value")
        return value

    def _convert_other(self, value: Any) -> Any:
        """Returns the number of a scalar of numpy or torch; of all else the name of its class."""
        number = find_number(value)
        if number is None:
            return f"<{type(value).__name__}>"
        return self.convert(number)


def find_number(value: Any) -> Union[bool, int, float, None]:
    """Returns Python's number for a scalar of numpy, torch or another library, or an array with one element.

    Returns None for anything else, also for one of Python's own numbers.
    """
    if type(value) in _PYTHONS or not callable(getattr(value, "item", None)):
        return None
    try:
        size = getattr(value, "numel", None) or getattr(value, "size", None)
        if callable(size):
            size = size()
        if size != 1:
            return None
        number = value.item()
        if isinstance(number, Real) and not isinstance(number, (bool, int, float)):
            # numpy's longdouble is its own item.
            return float(number)
    except Exception:
        return None
    if isinstance(number, (bool, int, float)):
        return number
    return None


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _change_texts(each, change) for name, each in value.items()}
    if isinstance(value, list):
        return [_change_texts(each, change) for each in value]
    return value
