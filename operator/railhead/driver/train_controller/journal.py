"""Which transitions of the driver a run's journal has: differences of what the head pod's processes tell. Pure.

Each is a record with the field `event`; docs/reference/run-folder.md lists them. A reader of a value that changes twice
between two looks sees one change, but restarts, groups and commits are each followed by a look.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Optional, Union

from railhead.contract.failure import Failure
from railhead.contract.history_format import Record
from railhead.contract.outcome import Outcome
from railhead.contract.report import RestartInPlace, RunWarning
from railhead.contract.times import format_time
from railhead.driver.mailbox.values import FromController, FromDriver


def describe_controller(before: FromController, after: FromController) -> Iterator[Record]:
    """Yields what Ray Train's controller has done, in the order of cause and effect."""
    old = before.progress
    new = after.progress
    if new.resumed_from != old.resumed_from and new.resumed_from:
        yield {"event": "resume", "checkpoint": new.resumed_from}
    if new.checkpoint != old.checkpoint and new.checkpoint:
        yield {"event": "checkpoint", "index": new.checkpoint.index, "checkpoint": new.checkpoint.uri}
    if after.lost_pods != before.lost_pods and after.lost_pods:
        yield {"event": "lostPods", "pods": list(after.lost_pods)}
    if after.restart != before.restart and after.restart:
        counts = {"number": after.restart.number, "charged": after.restart.charged}
        yield {"event": "restart", **counts, "class": after.restart.cause, **explain_warning(after.restart)}
    if after.failure != before.failure and after.failure:
        yield {"event": "failure", "class": after.failure.class_.value, **explain_warning(after.failure)}
    yield from _describe_warning(_find_warning(before), _find_warning(after))
    if new.state != old.state:
        yield {"event": "state", "state": new.state}


def describe_driver(before: FromDriver, after: FromDriver) -> Iterator[Record]:
    """Yields what the driver's own process has decided."""
    if after.hang != before.hang and after.hang:
        yield {"event": "hang", "rank": after.hang.rank, "message": after.hang.message}
    if after.end != before.end and after.end is not None:
        deadline = format_time(datetime.fromtimestamp(after.end, timezone.utc))
        yield {"event": "notice", "deadline": deadline}


def describe_group(before: int, after: int) -> Record:
    """Returns the start of a group of `after` workers; the last one had `before`, 0 = there was none."""
    return {"event": "group", "workers": after, **({"workersBefore": before} if before not in (0, after) else {})}


def explain_warning(end: Union[RestartInPlace, Failure, Outcome]) -> Record:
    suspect = {"suspectPod": end.suspect_pod} if end.suspect_pod else {}
    return {"reason": end.reason, "message": end.message, **suspect}


def _find_warning(value: FromController) -> Optional[RunWarning]:
    """Returns the one that the status shows first."""
    return value.warning or value.rule_warning or value.progress.warning


def _describe_warning(before: Optional[RunWarning], after: Optional[RunWarning]) -> Iterator[Record]:
    if after != before and after is not None:
        yield {"event": "warning", "reason": after.reason, "message": after.message}
    elif after != before and before is not None:
        yield {"event": "warningEnded", "reason": before.reason}
