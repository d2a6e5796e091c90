"""The format of the operator's own log: lines for people, or one JSON object per line for a collector."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING

from railhead.contract.text import clean_line, clean_text

if TYPE_CHECKING:
    ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logging(log_format: str, *, level: str) -> None:
    """Writes all log records to standard error. The JSON has the field names that cloud logging knows."""
    handler = logging.StreamHandler()
    handler.setFormatter(_make_json() if log_format == "json" else _Lines(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])


class _Lines(logging.Formatter):
    """A line per record, and one per line of a traceback; JSON escapes what a terminal acts on by itself."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return clean_line(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:
        return clean_text(super().formatException(ei))


def _make_json() -> logging.Formatter:
    from pythonjsonlogger.json import JsonFormatter

    names = {"levelname": "severity", "name": "logger", "timestamp": "time"}
    return JsonFormatter("%(message)s %(levelname)s %(name)s", rename_fields=names, timestamp=True)
