"""A report: what the driver tells the operator while training runs.

One JSON object by `POST {url}/v1/report`, with the pod's projected token as bearer. Each
report holds the whole latest state, so that a lost or skipped one costs nothing. The answer
to one that was taken is a JSON object; its `DEADLINE` is spec.progressDeadlineSeconds as it is
now, or null. While its group trains, a driver says a word at least every `SILENCE_SECONDS`, so
that it learns of a change.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, Literal, Optional

from railhead.contract.checkpoint import Checkpoint

PATH = "/v1/report"
AUDIENCE = "railhead.dev/report"  # of the projected token; the API server refuses it for itself
LIMIT_BYTES = 65536
DEADLINE = "progressDeadlineSeconds"
SILENCE_SECONDS = 60.0
State = Literal[
    "STARTING",  # Ray comes up, workers join
    "SCHEDULING",  # Ray Train starts the worker group
    "RUNNING",
    "RESTARTING",  # the group re-forms in the same fit()
    "FINISHED",
    "ERRORED",
]
# Reasons of a warning that checkpoints were lost: the run went on from an older one.
CHECKPOINT_MISSING, CHECKPOINT_INCOMPLETE, SNAPSHOT_UNREADABLE = LOSSES = (
    "CheckpointMissing",
    "CheckpointIncomplete",
    "SnapshotUnreadable",
)


@dataclass(frozen=True)
class RunWarning:
    """What the user should change, though training runs: one CamelCase word, and a sentence that says what to do."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class ResumedFrom:
    """Where the checkpoint is that an attempt began from."""

    uri: str = ""


@dataclass(frozen=True)
class Report:
    """The driver's latest progress in one attempt. `controller/report/parse.py` checks what comes in against it.

    Attributes:
        namespace, name, uid: the TrainJob.
        attempt: the attempt that reports; an older one is refused.
        reports: reports of the whole worker group in this attempt.
        joined: worker pods (Ray nodes) that have joined.
        workers: Ray Train workers of the present group, 0 while there is none.
        metrics: rank 0's last metrics, numbers as text.
        time: RFC 3339, UTC; when the state was taken.
        checkpoint: the newest committed one, or None; its `attempt` is this one.
        best_checkpoint: the one with the best score; `NO_CHECKPOINT`, on the wire an empty object, when none
            of those that are kept has a score; None when nothing is known of scores.
        run_uri: where the run keeps its checkpoints.
        resumed_from: the checkpoint that this attempt began from, or None.
        warning: or None.
    """

    namespace: str
    name: str
    uid: str
    attempt: int
    state: State
    reports: int = 0
    joined: int = 0
    workers: int = 0
    metrics: Dict[str, str] = field(default_factory=dict)
    time: str = ""
    checkpoint: Optional[Checkpoint] = None
    best_checkpoint: Optional[Checkpoint] = None
    run_uri: str = ""
    resumed_from: Optional[ResumedFrom] = None
    warning: Optional[RunWarning] = None

    def to_json(self) -> bytes:
        """At most `LIMIT_BYTES`: when the metrics are too many, those of the checkpoints go first."""
        best, newest = self.best_checkpoint, self.checkpoint
        without_best = replace(self, best_checkpoint=best and replace(best, metrics={}))
        without_newest = replace(without_best, checkpoint=replace(newest, metrics={}) if newest else None)
        text = b""
        for report in (self, without_best, without_newest, replace(without_newest, metrics={})):
            text = json.dumps(report.to_dict(), ensure_ascii=False).encode(errors="replace")
            if len(text) <= LIMIT_BYTES:
                break
        return text

    def to_dict(self) -> Dict[str, Any]:
        best = self.best_checkpoint
        return {
            **asdict(self),
            "checkpoint": self.checkpoint.to_dict() if self.checkpoint else None,
            "best_checkpoint": best.to_dict() if best else None,
        }
