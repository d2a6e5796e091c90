"""The format of the operator's own log: lines for people, or one JSON object per line for a collector."""

from __future__ import annotations

import logging

FORMATS = ("text", "json")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logging(log_format: str, *, level: str) -> None:
    """Writes all log records to standard error. The JSON has the field names that cloud logging knows."""
    handler = logging.StreamHandler()
    handler.setFormatter(_make_json() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])


def _make_json() -> logging.Formatter:
    from pythonjsonlogger.json import JsonFormatter

    names = {"levelname": "severity", "name": "logger", "timestamp": "time"}
    return JsonFormatter("%(message)s %(levelname)s %(name)s", rename_fields=names, timestamp=True)
