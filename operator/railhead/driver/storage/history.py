"""Completes a run's history when its attempt ends, in the driver's own process: Ray Train's controller may be gone."""

from __future__ import annotations

import functools
from pathlib import Path

from railhead.contract.history import JOURNAL, METRICS
from railhead.contract.outcome import Outcome
from railhead.driver.reporting.journal import describe_end
from railhead.driver.reporting.records import hide, stamp
from railhead.driver.storage.fence import Claim, check_claim
from railhead.driver.storage.private_folder import PrivateFolder
from railhead.driver.storage.run_folder import RunFolder
from railhead.driver.storage.segments import Segments


def complete_history(folder: RunFolder, claim: Claim, spool: Path, outcome: Outcome) -> None:
    """Adds the end of the attempt of the head with this claim, and writes what the storage lacks.

    Raises Fenced or JobRefused when the run is another's by now, and what the storage raises.
    """
    job, attempt = claim.uid, claim.attempt
    journal, metrics = (Segments(spool, kind, job=job, attempt=attempt, pod=claim.pod) for kind in (JOURNAL, METRICS))
    journal.append({**stamp(attempt), **hide(describe_end(outcome))})
    for segments in (journal, metrics):
        segments.upload(PrivateFolder(folder, segments.kind, functools.partial(check_claim, folder, claim)))
