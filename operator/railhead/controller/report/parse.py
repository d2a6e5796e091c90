"""Parses a report's body into a `Report`; an error names the invalid field."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from railhead.contract.report import Report

_REPORT = TypeAdapter(Report)


def parse_report(body: bytes) -> Report:
    """The report. Unknown fields are dropped: a newer driver may send them.

    Raises:
        ValueError: the body is not a report; the message names the field.
    """
    try:
        return _REPORT.validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(["report", *(str(part) for part in first["loc"])])
        raise ValueError(f"{path}: {first['msg']}") from None
