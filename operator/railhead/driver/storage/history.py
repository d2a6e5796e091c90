"""Completes a run's history when its attempt ends, in the driver's own process: Ray Train's controller may be gone."""

from __future__ import annotations

import functools
from pathlib import Path

from railhead.contract.history import JOURNAL, METRICS
from railhead.contract.outcome import Outcome
from railhead.driver.reporting.journal import describe_end
from railhead.driver.reporting.records import hide, stamp
from railhead.driver.storage.fence import check_claim, find_claim
from railhead.driver.storage.private_folder import PrivateFolder
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.segments import Segments


def complete_history(folder: RunFolder, spool: Path, outcome: Outcome, *, uid: str, attempt: int, pod: str) -> None:
    """Adds the attempt's end, and writes what the storage lacks, if this head has claimed the folder.

    Raises Fenced or JobRefused when the run is another's by now, and what the storage raises.
    """
    claim = find_claim(folder, uid=uid, attempt=attempt, pod=pod)
    if claim is None:
        return
    journal, metrics = (Segments(spool, kind, job=uid, attempt=attempt, pod=pod) for kind in (JOURNAL, METRICS))
    journal.append({**stamp(attempt), **hide(describe_end(outcome))})
    for segments in (journal, metrics):
        segments.upload(PrivateFolder(folder, segments.kind, functools.partial(check_claim, folder, claim)))
