"""For tests in which the driver would wait for storage that is unreachable."""

from __future__ import annotations

from railhead.contract.report import RunWarning


class Waits(Exception):
    """The driver begins to wait, and warns of it."""


def refuse_to_wait(warning: RunWarning | None) -> None:
    raise Waits(warning and warning.message)
