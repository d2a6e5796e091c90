"""A failure of the run's storage in Ray Train's controller: where it was, and the warning.

The warning is in the status while training continues without new checkpoints; the next commit removes it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from railhead.contract.failure import Failure, FailureClass
from railhead.contract.report import STORAGE_TROUBLES, RunWarning
from railhead.driver.describe import clean, describe_exception
from railhead.driver.reporting.spool import Spool
from railhead.driver.train_controller import failure, group
from railhead.driver.train_controller.failure import FailureFacts


def name_path(facts: FailureFacts) -> FailureFacts:
    """With the run's path in the errors of its storage, which rarely name one."""
    folder = group.CURRENT.folder
    if folder is None:
        return facts
    errors = tuple(
        replace(each, text=f"{folder.path}: {each.text}") if each.kind == failure.STORAGE else each
        for each in facts.errors
    )
    return replace(facts, errors=errors)


def handle(found: Failure, spool: Spool) -> None:
    """Never raises."""
    if found.class_ is not FailureClass.INFRASTRUCTURE or found.reason not in STORAGE_TROUBLES:
        return
    warn(spool, found.reason, f"{found.message}; training restarts from the last checkpoint")


def warn(spool: Spool, reason: str, message: str) -> None:
    """Never raises."""
    try:
        spool.write_warning(RunWarning(reason, clean(message)))
    except OSError as error:
        log(f"cannot report that the storage failed: {describe_exception(error)}")


def log(text: str) -> None:
    print(f"railhead: {text}", file=sys.stderr, flush=True)
